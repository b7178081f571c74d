"""The index from codes to slots finds what was put in, one by one as well as together."""

from __future__ import annotations

import numpy as np
import pytest

from ivm.delta_ops.state.hash_index import HashIndex


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("step", [1, 1 << 32, -(1 << 40)])
def test_one_code_is_found_as_many_are(seed: int, step: int) -> None:
    """Codes in arithmetic progressions collide often; slots come in any order."""
    rng = np.random.default_rng(seed)
    codes = np.arange(1500, dtype=np.int64) * step
    slots = rng.permutation(len(codes))
    index = HashIndex()
    for part in np.array_split(np.arange(500), 7):
        index.insert(codes[part], slots[part])
    for code, slot in zip(codes[500:1000].tolist(), slots[500:].tolist(), strict=False):
        index.insert_one(code, slot)
    assert len(index) == 1000
    assert index.find(codes, None).tolist() == [*slots[:1000].tolist(), *[-1] * 500]
    for same in (None, lambda probes, found: np.ones(len(found), np.bool_)):
        ones = [index.find_one(code, same) for code in codes.tolist()]
        assert ones == index.find(codes, None).tolist()


def test_keys_with_one_code_are_told_apart_one_by_one() -> None:
    index = HashIndex()
    for slot in range(5):
        index.insert_one(7, slot)
    for wanted in range(7):
        found = index.find_one(7, lambda probes, slots, key=wanted: slots == key)  # type: ignore[misc]
        assert found == (wanted if wanted < 5 else -1)

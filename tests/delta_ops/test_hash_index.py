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
    for part in np.array_split(np.arange(1000), 7):
        index.insert(codes[part], slots[part])
    assert index.find(codes, None).tolist() == [*slots[:1000].tolist(), *[-1] * 500]
    assert [index.find_one(code) for code in codes.tolist()] == index.find(codes, None).tolist()

"""Sorting by digits gives the stable order of the whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.storage.values import radix_sort, thresholds
from ivm.storage.values.radix_sort import order_of

LIMITS = np.iinfo(np.int64)
WORDS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**20), 2**20),
    st.sampled_from([LIMITS.min, LIMITS.max, 2**47, -(2**47) - 1]),
)


@pytest.fixture(autouse=True, scope="module")
def short() -> Any:
    """Digits from the first row on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "RADIX_ROWS", 1)
        yield


@given(st.lists(st.tuples(WORDS, WORDS), max_size=50))
def test_order_of_two_keys(rows: list[tuple[int, int]]) -> None:
    major, minor = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    assert order_of(major).tolist() == sorted(range(len(rows)), key=lambda i: rows[i][0])
    assert order_of(major, minor).tolist() == sorted(range(len(rows)), key=lambda i: rows[i])


@given(st.lists(WORDS, min_size=1, max_size=200), st.integers(1, 12), st.integers(1, 50))
def test_buckets_give_the_same_order(words: list[int], bits: int, dealt: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix_sort, "_MANY", 1)
        patch.setattr(radix_sort, "_BUCKET_BITS", bits)
        patch.setattr(radix_sort, "_DEALT", dealt)
        for key in (np.array(words, np.int64), np.array(words, np.int64).view(np.uint64)):
            assert order_of(key).tolist() == np.argsort(key, kind="stable").tolist()


@given(st.lists(st.lists(WORDS, max_size=20).map(sorted), max_size=4), st.integers(0, 5))
def test_ascending_pieces_give_the_same_order(pieces: list[list[int]], most: int) -> None:
    key = np.array([word for piece in pieces for word in piece], np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix_sort, "_PIECES", most)
        assert order_of(key).tolist() == sorted(range(len(key)), key=key.tolist().__getitem__)


@given(st.lists(WORDS, max_size=40), st.booleans())
def test_rows_that_come_twice_give_the_same_order(words: list[int], once: bool) -> None:
    key = np.array((list(dict.fromkeys(words)) if once else words) * 2, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix_sort, "_PIECES", 0)
        assert order_of(key).tolist() == sorted(range(len(key)), key=key.tolist().__getitem__)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.uint64, np.bool_])
def test_every_width(dtype: Any) -> None:
    keys = np.random.default_rng(7).integers(0, 256, 300).astype(dtype)
    assert order_of(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    assert order_of(keys[:0]).tolist() == []
    assert radix_sort._order_by_buckets(keys).tolist() == order_of(keys).tolist()

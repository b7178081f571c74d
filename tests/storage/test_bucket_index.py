"""A directory finds what a binary search of the same codes finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.storage.arrangement import bucket_index
from ivm.storage.arrangement.bucket_index import BucketIndex
from ivm.storage.values.group_numbers import has_repeats, number_exact, number_hashed

LIMITS = np.iinfo(np.int64)
DTYPES = st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.uint64, np.bool_])


def check(codes: npt.NDArray[Any], probes: npt.NDArray[Any]) -> None:
    unique = len(set(codes.tolist())) == len(codes)
    bounds = zip(codes.searchsorted(probes), codes.searchsorted(probes, "right"), strict=True)
    want = [(i, start, stop) for i, (start, stop) in enumerate(bounds) if start < stop]
    found = BucketIndex(codes).find(probes, unique=unique)
    assert list(zip(*[part.tolist() for part in found], strict=True)) == want
    last = BucketIndex(codes).find_last(probes)
    assert list(zip(*[part.tolist() for part in last], strict=True)) == [
        (i, stop - 1) for i, _, stop in want
    ]


@given(
    DTYPES,
    st.lists(st.integers(0, 255), min_size=1, max_size=60),
    st.lists(st.integers(0, 255), max_size=60),
)
def test_every_width(dtype: Any, codes: list[int], probes: list[int]) -> None:
    """Also codes and probes of either sign, repeated ones, and probes beside all codes."""
    stored = np.sort(np.array(codes, np.int64).astype(dtype))
    check(stored, np.array(probes, np.int64).astype(dtype))


EXTREMES = [LIMITS.min, LIMITS.min + 1, -1, 0, 1, 2**62, LIMITS.max - 1, LIMITS.max]
WIDE = st.one_of(st.sampled_from(EXTREMES), st.integers(LIMITS.min, LIMITS.max), st.integers(0, 9))


@given(st.lists(WIDE, min_size=1, max_size=60), st.lists(WIDE, max_size=60), st.booleans())
def test_codes_far_apart(codes: list[int], probes: list[int], unsigned: bool) -> None:
    """The span of the codes may need all 64 bits, and nearly all may share a bucket."""
    dtype = np.uint64 if unsigned else np.int64
    stored = np.sort(np.array(codes, np.int64).view(dtype))
    check(stored, np.array([*codes, *probes], np.int64).view(dtype))


@pytest.mark.parametrize("chunk", [7, 1 << 16])
def test_long_runs(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Few buckets for many rows, one code that fills a bucket alone, gaps and far outsiders."""
    monkeypatch.setattr(bucket_index, "_SHORT", 500)
    monkeypatch.setattr(bucket_index, "_CHUNK", chunk)
    rng = np.random.default_rng(5)
    spread = rng.integers(0, 5000, 3000) * 3
    for codes in (spread, np.concatenate([spread, np.full(900, 42), [2**61]])):
        check(np.sort(codes), np.concatenate([rng.permutation(16_000), [42, -5, 2**61, 2**62]]))


@given(st.lists(st.integers(0, 40), max_size=40), st.booleans())
def test_rows_are_numbered_by_scattering(values: list[int], collide: bool) -> None:
    """Many rows, codes of which some lose their place, and hashes that stand for two values."""
    codes = np.array(values * 30, np.int64) * (1 << 40)
    groups = number_exact(codes)
    assert has_repeats(codes) == (len(set(values)) < len(codes))
    if collide:
        groups = number_hashed(codes >> 41, lambda a, b: codes[a] == codes[b])
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    assert sorted(groups.first.tolist()) == sorted(first.tolist())
    assert (codes[groups.first][groups.inverse] == codes).all()
    assert len(groups.first) == len(first) == len(set(inverse.tolist()))


@given(st.lists(st.integers(0, 2**63 - 1), max_size=80), st.booleans())
def test_repeats_are_found(values: list[int], repeat: bool) -> None:
    """Alone or among many; codes that share a place by their hash are not the same."""
    codes = np.array([*values, *values[:1]] if repeat else values, np.int64)
    assert has_repeats(codes) == (len(set(codes.tolist())) < len(codes))
    spread = np.arange(5000)[::-1] * 977
    assert not has_repeats(spread)
    assert has_repeats(np.concatenate([spread, spread[2500:2501]]))

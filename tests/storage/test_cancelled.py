"""Cancelled stretches of runs: the entries in them, and what ranges have beside them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.storage.arrangement.cancelled import Stretches
from ivm.storage.values.column import Indexes
from tests.tiers import examples

ENTRIES = st.lists(st.integers(0, 30))


@given(ENTRIES, ENTRIES, st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=5))
@settings(max_examples=examples(300), deadline=None)
def test_ranges_are_left_without_the_entries(
    some: list[int], more: list[int], ranges: list[tuple[int, int]]
) -> None:
    stretches = Stretches.of(np.array(some, np.int64)).with_entries(np.array(more, np.int64))
    held = entries(stretches.starts, stretches.stops)
    assert held == sorted({*some, *more})
    assert (stretches.starts[1:] > stretches.stops[:-1]).all()
    starts = np.array([start for start, _ in ranges], np.int64)
    stops = starts + np.array([length for _, length in ranges], np.int64)
    which, first, last = stretches.left(starts, stops)
    assert (np.diff(which) >= 0).all()
    for number, (start, length) in enumerate(ranges):
        mine = which == number
        wanted = [i for i in range(start, start + length) if i not in held]
        assert entries(first[mine], last[mine]) == wanted


def entries(starts: Indexes, stops: Indexes) -> list[int]:
    return [i for a, b in zip(starts.tolist(), stops.tolist(), strict=True) for i in range(a, b)]

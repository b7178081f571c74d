"""Rows are found in ranges of sorted rows, however many of them search one range."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import pytest

from ivm.storage.values.column import FixedColumn
from ivm.storage.values.ordering.compare_rows import lower_bounds
from ivm.storage.values.ordering.order import order_terms
from ivm.storage.values.types import type_of
from tests.tiers import examples


@pytest.mark.parametrize("each", [1, 5, 40, 300])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("seed", range(examples(4)))
def test_rows_in_ranges(each: int, right: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    types = [type_of("INTEGER"), type_of("BIGINT")]
    groups = [
        sorted(map(tuple, random.integers(0, 4, (random.integers(0, 30), 2)).tolist()))
        for _ in range(9)
    ]
    stored = [row for group in groups for row in group]
    ends = np.cumsum([len(group) for group in groups])
    starts = ends - [len(group) for group in groups]
    searched = np.repeat(random.integers(0, 9, 12), random.integers(1, each + 1, 12))
    wanted = list(map(tuple, random.integers(-1, 5, (len(searched), 2)).tolist()))
    columns, targets = (
        [FixedColumn(np.array([row[i] for row in rows], t.dtype)) for i, t in enumerate(types)]
        for rows in (stored, wanted)
    )
    terms = order_terms(types, [])
    every = np.arange(len(wanted))
    low, high = starts[searched], ends[searched]
    found = lower_bounds(columns, low, high, targets, every, terms, right=right)
    bisect = bisect_right if right else bisect_left
    assert found.tolist() == [
        bisect(stored, row, a, b) for row, a, b in zip(wanted, low, high, strict=True)
    ]

"""Places in ranges of sorted columns, net stretches and trees of peaks, against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.storage.arrangement.max_tree import MaxTree
from ivm.storage.values.column import Column, FixedColumn
from ivm.storage.values.ordering.compare_rows import compare_rows
from ivm.storage.values.ordering.order import OrderTerm, orderable
from ivm.storage.values.ordering.ranges import first_places, net_ranges, present
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.types import ColumnType, type_of
from tests.support.operator_bench import VALUES, types_of, zset
from tests.tiers import examples

ORDERED = sorted(name for name in VALUES if orderable(type_of(name)))


def column_of(name: str, places: list[int]) -> Column:
    literals = VALUES[name]
    rows = [((literals[p % len(literals)],), 1) for p in places]
    return zset(types_of(name), rows).columns[0]


def counted(column: Column, type: ColumnType, start: int, stop: int, wanted: Column, i: int) -> int:
    """The rows of a range before a value; NULL is the last of all."""
    rows = np.arange(start, stop)
    signs = compare_rows([column], rows, [wanted], np.full(len(rows), i), [OrderTerm(0, type)])
    return int((signs < 0).sum())


@pytest.mark.parametrize("count", [1, 7, 80])  # one, few and many ranges
@pytest.mark.parametrize("name", ORDERED)
@settings(deadline=None, max_examples=examples(4))
@given(data=st.data())
def test_places_of_values(name: str, count: int, data: st.DataObject) -> None:
    type, random = type_of(name), np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    groups = np.sort(random.integers(0, 4, 100))
    rows = column_of(name, random.integers(0, 20, 100).tolist())
    order, _ = sort_rows(groups, [rows], [OrderTerm(0, type)])
    rows = rows.take(order)
    which = random.integers(0, 5, count)  # group 4 has no row
    starts, stops = groups.searchsorted(which), groups.searchsorted(which, "right")
    ends = present(rows, type, starts, stops)
    valid = np.ones(100, np.bool_) if rows.valid is None else rows.valid
    ranges = zip(starts, stops, strict=True)
    assert ends.tolist() == [int(a + valid[a:b].sum()) for a, b in ranges]
    wanted = column_of(name, random.integers(0, 20, count).tolist())
    known = np.ones(count, np.bool_) if wanted.valid is None else wanted.valid
    wanted, starts, ends = wanted.filter(known), starts[known], ends[known]
    if len(wanted):
        found = first_places(rows, type, starts, ends, wanted, right=False)
        after = first_places(rows, type, starts, ends, wanted, right=True)
        for i, (a, b) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            assert found[i] == a + counted(rows, type, a, b, wanted, i)
            signs = compare_rows(
                [rows], np.arange(a, b), [wanted], np.full(b - a, i), [OrderTerm(0, type)]
            )
            assert after[i] == a + int((signs <= 0).sum())


RANGES = st.tuples(
    st.integers(0, 2), st.integers(0, 9), st.integers(0, 9), st.integers(-2, 2).filter(bool)
)


@given(st.lists(RANGES, min_size=1, max_size=12))
def test_net_stretches(ranges: list[tuple[int, int, int, int]]) -> None:
    ranges = [(g, min(a, b), max(a, b), w) for g, a, b, w in ranges]
    expected = Counter[tuple[int, int]]()
    for g, a, b, w in ranges:
        expected.update({(g, p): w for p in range(a, b)})
    groups, starts, stops, weights = net_ranges(*np.array(ranges, np.int64).T)
    found = [
        (g, p, w)
        for g, a, b, w in zip(groups, starts, stops, weights, strict=True)
        for p in range(a, b)
    ]
    assert sorted(found) == sorted((g, p, w) for (g, p), w in expected.items() if w)


@pytest.mark.parametrize("name", ["INTEGER", "DOUBLE", "TIMESTAMP", "UBIGINT", "BOOLEAN"])
@pytest.mark.parametrize("greatest", [True, False])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("open", [True, False])
@settings(deadline=None, max_examples=examples(5))
@given(size=st.integers(1, 3000), seed=st.integers(0, 1 << 30))
def test_peaks(name: str, greatest: bool, strict: bool, open: bool, size: int, seed: int) -> None:
    type, random = type_of(name), np.random.default_rng(seed)
    rows = column_of(name, random.integers(0, 20, size).tolist())
    assert isinstance(rows, FixedColumn)
    starts = random.integers(0, size, 20)
    stops = np.minimum(starts + 1 + random.integers(0, size, 20), size)
    bounds = column_of(name, random.integers(0, 20, 20).tolist())
    assert isinstance(bounds, FixedColumn)
    known = np.flatnonzero(np.ones(20, np.bool_) if bounds.valid is None else bounds.valid)
    tree = MaxTree(rows, type, greatest=greatest, open=open)
    which, found = tree.find(starts[known], stops[known], bounds.take(known), strict=strict)
    valid = np.ones(size, np.bool_) if rows.valid is None else rows.valid
    expected = []
    for i, place in enumerate(known.tolist()):
        inside = np.arange(starts[place], stops[place])
        signs = compare_rows(
            [rows], inside, [bounds], np.full(len(inside), place), [OrderTerm(0, type)]
        )
        reached = signs > 0 if greatest else signs < 0
        reached |= (signs == 0) & ~np.bool_(strict)
        hit = inside[np.where(valid[inside], reached, open)]
        expected += [(i, row) for row in hit.tolist()]
    assert list(zip(which.tolist(), found.tolist(), strict=True)) == expected


def test_a_search_for_peaks_looks_at_what_it_finds() -> None:
    size = 1 << 16
    ends = FixedColumn(np.arange(size))
    tree = MaxTree(ends, type_of("BIGINT"), greatest=True)
    one = np.array([size - 2])
    candidates = tree._candidates(np.zeros(1, np.int64), np.array([size]), one)
    assert len(candidates[1]) == 16

"""Rows by place: found one by one and all at once, against a comparison with every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.storage.ordered import blocks
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values import thresholds
from ivm.storage.values.ordering import sort
from ivm.storage.values.ordering.compare_rows import compare_rows
from ivm.storage.values.ordering.order import OrderKey, order_terms, orderable
from ivm.storage.values.types import type_of
from tests.support.operator_bench import VALUES, types_of, zset
from tests.tiers import examples

ORDERED = sorted(name for name in VALUES if orderable(type_of(name)))


@pytest.mark.parametrize("few", [(0, 0), (0, 100), (100, 100)])
@pytest.mark.parametrize("name", ORDERED)
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_places_of_rows(name: str, few: tuple[int, int], data: st.DataObject) -> None:
    types, literals = types_of(name, "INTEGER"), VALUES[name]
    cell = st.tuples(st.sampled_from(literals), st.sampled_from(VALUES["INTEGER"]))
    held = zset(types, [(row, 1) for row in data.draw(st.lists(cell, max_size=40))])
    wanted = zset(types, [(row, 1) for row in data.draw(st.lists(cell, min_size=1, max_size=9))])
    down, first = data.draw(st.booleans()), data.draw(st.booleans())
    terms = order_terms(types, [OrderKey(0, down, first), OrderKey(1, not down, first)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 4)
        patch.setattr(thresholds, "BLOCK_SEARCHES", few[0])
        patch.setattr(thresholds, "BLOCK_CHOICES", few[1])
        rows = SortedRows.build(types, terms, [held])
        whole = RowSlice(rows, np.arange(len(rows)))
        for count in (1, 2, len(terms)):
            every = np.arange(len(rows))
            signs = [
                compare_rows(whole, every, wanted.columns, np.full(len(rows), i), terms[:count])
                for i in range(len(wanted))
            ]
            low, high = [int((s < 0).sum()) for s in signs], [int((s <= 0).sum()) for s in signs]
            found = rows.find_ranges(wanted.columns, len(wanted), count)
            assert [part.tolist() for part in found] == [low, high]
            sides = np.arange(len(wanted)) % 2 == 0
            mixed = np.where(sides, high, low).tolist()
            assert rows.find_all(wanted.columns, len(wanted), sides, count).tolist() == mixed


@pytest.mark.parametrize("name", ORDERED)
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_few_rows_are_sorted_as_many(name: str, data: st.DataObject) -> None:
    types, literals = types_of(name, "DOUBLE"), VALUES[name]
    cell = st.tuples(st.sampled_from(literals), st.sampled_from(VALUES["DOUBLE"]))
    rows = zset(types, [(row, 1) for row in data.draw(st.lists(cell, max_size=16))])
    codes = np.array(data.draw(st.lists(st.integers(-1, 1), min_size=16, max_size=16)), np.int64)
    down, first = data.draw(st.booleans()), data.draw(st.booleans())
    terms = order_terms(types, [OrderKey(0, down, first), OrderKey(1, not down, first)])
    parts = codes[: len(rows)], rows.columns, terms
    few = sort.sort_rows(*parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "SORTED_CODES", -1)
        many = sort.sort_rows(*parts)
        patch.setattr(sort, "SEGMENT", data.draw(st.integers(1, 3)))
        by_segments = sort.sort_rows(*parts)
    assert [part.tolist() for part in few] == [part.tolist() for part in many]
    assert [part.tolist() for part in few] == [part.tolist() for part in by_segments]


@pytest.mark.parametrize("name", ["BIGINT", "DOUBLE", "VARCHAR"])
@settings(deadline=None, max_examples=examples(20))
@given(data=st.data())
def test_pairs_are_sorted_as_other_ties(name: str, data: st.DataObject) -> None:
    """Each code has one row, or −old and +new of it, which may be equal."""
    types, literals = types_of(name, "DOUBLE"), VALUES[name]
    cell = st.tuples(st.sampled_from(literals), st.sampled_from(VALUES["DOUBLE"]))
    pairs = data.draw(st.lists(st.tuples(cell, cell), min_size=1, max_size=7))
    alone = data.draw(st.lists(cell, max_size=3))
    old, new = zip(*pairs, strict=True)
    rows = zset(types, [(row, 1) for row in (*old, *new, *alone)])
    count = len(pairs)
    codes = np.array([*range(count), *range(count), *range(count, count + len(alone))], np.int64)
    terms = order_terms(types, [OrderKey(0, False, False), OrderKey(1, True, False)])
    parts = codes, rows.columns, terms
    few = sort.sort_rows(*parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "SORTED_CODES", -1)
        many = sort.sort_rows(*parts)
    assert [part.tolist() for part in few] == [part.tolist() for part in many]

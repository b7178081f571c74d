"""A run that is built batch by batch is that of all rows at once, however they come and are cut."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.storage.arrangement import build, builder
from ivm.storage.arrangement import run as run_module
from ivm.storage.arrangement.arrangement import Layout, OrderKey
from ivm.storage.arrangement.build import build_large_run
from ivm.storage.arrangement.builder import RunBuilder
from ivm.storage.arrangement.run import Run
from ivm.storage.values import hashing
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet
from tests.storage.test_arrangement import ORDER_KEYS, ROWS, TYPES, exact, listed, zset
from tests.tiers import examples

ENTRIES = st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 1, -1, 2])), min_size=1, max_size=40)
KEYS = st.sampled_from([(0,), (1,), (2,), (0, 1), (2, 1), (0, 1, 2)])
CUTS = st.lists(st.integers(0, 40), max_size=6)


def net(run: Run) -> Counter[str]:
    rows = run.slice(0, len(run))
    total: Counter[str] = Counter()
    for row, weight in zip(listed(rows), rows.weights.tolist(), strict=True):
        total[exact(row)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def built(layout: Layout, rows: ZSet, cuts: Sequence[int]) -> tuple[Run, bool]:
    """The run of the rows cut in pieces, and whether they came in order."""
    made = RunBuilder(layout)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in itertools.pairwise(bounds):
        made.add(rows.slice(start, stop))
    return made.run(), made.ascends


@settings(max_examples=examples(150))
@given(
    ENTRIES,
    KEYS,
    st.one_of(st.just(()), st.tuples(ORDER_KEYS)),
    CUTS,
    st.booleans(),
    st.sampled_from([1, 3, 1 << 62]),
    st.sampled_from([1, 5, 100]),
)
def test_any_pieces_make_the_run_of_all(
    entries: list[tuple[object, int]],
    key: tuple[int, ...],
    order: tuple[OrderKey, ...],
    cuts: list[int],
    in_order: bool,
    hashes: int,
    stretch: int,
) -> None:
    whole = hashing.hash_rows
    with pytest.MonkeyPatch.context() as patch:  # few hashes: different keys have one code
        for module in (builder, build, run_module):
            patch.setattr(module, "STRETCH", stretch)
        patch.setattr(hashing, "hash_rows", lambda *given: whole(*given) % hashes)
        layout = Layout(TYPES, key, order)
        rows = zset(entries)  # type: ignore[arg-type]
        codes = layout.search_codes(layout.key_columns(rows.columns))
        if in_order:
            rows = rows.take(np.argsort(codes, kind="stable"))
        run, ascends = built(layout, rows, cuts)
        assert ascends or not in_order
        expected = build_large_run(layout, [rows])
        assert (run.codes[1:] >= run.codes[:-1]).all()
        assert run.codes.tolist() == layout.search_codes(layout.key_columns(run.columns)).tolist()
        assert net(run) == net(expected)
        if order:  # an ordered run has one form
            assert [exact(row) for row in listed(run.slice(0, len(run)))] == [
                exact(row) for row in listed(expected.slice(0, len(expected)))
            ]


def test_no_batches_make_an_empty_run() -> None:
    layout = Layout(TYPES, (0,))
    run, ascends = built(layout, zset([((1, "a", 2.0), 1)]).slice(0, 0), [])
    assert ascends
    assert (len(run), len(run.columns)) == (0, 3)


def test_rows_in_order_are_held_once_and_a_stretch_of_them_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builder, "STRETCH", 1)
    layout = Layout((type_of("BIGINT"), type_of("BIGINT")), (0,), (OrderKey(1, False, False),))
    made = RunBuilder(layout)
    for start in range(0, 1000, 100):
        numbers = np.arange(start, start + 100)
        columns = (FixedColumn(numbers // 3), FixedColumn(-numbers))
        made.add(ZSet(columns, np.ones(100, np.int64)))
        assert sum(map(len, made._open)) <= 3
    run = made.run()
    assert run.weights is None
    assert run.codes is run.columns[0].values  # type: ignore[union-attr]
    assert run.columns[1].to_arrow(layout.types[1]).to_pylist()[:6] == [-2, -1, 0, -5, -4, -3]

"""Group keys and their slots, against a dictionary."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.state.group_table import GroupTable
from ivm.storage.values.column import Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import type_of
from tests.tiers import examples


class Counts:
    """How often each integer is there, by a group table."""

    def __init__(self) -> None:
        self._table = GroupTable([type_of("BIGINT")])

    def add(self, values: list[int], weights: list[int]) -> None:
        keys = FixedColumn(np.array(values, np.int64), None)
        touched, groups = self._table.locate([keys], len(values))
        lanes = self._table.read(touched)
        np.add.at(lanes[:, 0], groups, np.array(weights, np.int64))
        self._table.stage(touched, lanes)
        self._table.commit()

    def read(self) -> dict[int, int]:
        live = self._table.live()
        (keys,) = self._table.keys(live)
        assert isinstance(keys, FixedColumn)
        return dict(zip(keys.values.tolist(), self._table.read(live)[:, 0].tolist(), strict=True))


def test_dead_groups_of_a_batch_come_back_while_their_slots_are_reused() -> None:
    # The room was counted before the dead groups left the index, so it was too small (IndexError).
    counts = Counts()
    counts.add(list(range(32)), [1] * 32)
    counts.add(list(range(20)), [-1] * 20)
    counts.add([*range(15), *range(100, 110)], [1] * 25)
    assert counts.read() == dict.fromkeys([*range(15), *range(20, 32), *range(100, 110)], 1)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.booleans(), st.booleans())
def test_a_batch_that_repeats_itself(values: list[int], whole: bool, wide: bool) -> None:
    """−old and +new of the same groups, which are looked up once."""
    types = [type_of("BIGINT"), type_of("INTEGER")] if wide else [type_of("BIGINT")]
    table = GroupTable(types, exact_rows=not whole)
    keys = np.array(values * 2)
    valid = keys != 3
    first = FixedColumn(np.where(valid, keys, 0), valid)
    columns = [first, FixedColumn(keys.astype(np.int32) % 5)] if wide else [first]
    touched, groups = table.locate(columns, len(keys))
    assert len(set(touched.tolist())) == len(touched)
    slots = touched[groups]
    rows = list(zip(*[c.values.tolist() for c in columns], valid.tolist(), strict=True))
    assert len(set(rows)) == len(touched)
    assert dict(zip(rows, slots.tolist(), strict=True)).keys() == set(rows)
    assert len(set(zip(rows, slots.tolist(), strict=True))) == len(touched)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=17, max_size=60))
def test_rows_of_few_groups_among_many(rows: list[tuple[int, int]]) -> None:
    """Where a table has many groups, those of a batch are looked up row by row."""
    table = GroupTable([type_of("BIGINT"), type_of("INTEGER")])
    more = [(i, 4) for i in range(8 * len(rows))]
    slots: dict[tuple[int, int], int] = {}
    for batch in (more, rows, rows[::-1]):
        first, second = (np.array(part) for part in zip(*batch, strict=True))
        columns = [FixedColumn(first), FixedColumn(second.astype(np.int32))]
        touched, groups = table.locate(columns, len(batch))
        table.stage(touched, np.ones((len(touched), 1), np.int64))
        table.commit()
        assert len(set(touched.tolist())) == len(touched)
        for row, slot in zip(batch, touched[groups].tolist(), strict=True):
            assert slots.setdefault(row, slot) == slot
    assert len(set(slots.values())) == len(slots)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.lists(st.integers(0, 120), min_size=1, max_size=60), max_size=8))
def test_any_batches_are_counted(batches: list[list[int]]) -> None:
    counts, model = Counts(), Counter[int]()
    for values in batches:  # a value comes, goes with the next batch that has it, comes, …
        weights = [-1 if model[v] else 1 for v in dict.fromkeys(values)]
        counts.add(list(dict.fromkeys(values)), weights)
        model.update(dict(zip(dict.fromkeys(values), weights, strict=True)))
        assert counts.read() == {v: n for v, n in model.items() if n}


Key = tuple[int | None, str | None]
keys = st.tuples(st.none() | st.integers(0, 60), st.sampled_from([None, "", "a", "é"]))


def columns(key: Key) -> list[Column]:
    types: tuple[Any, ...] = (type_of("BIGINT"), type_of("VARCHAR"))
    return [column_from_arrow(pa.array([v], t.arrow), t) for v, t in zip(key, types, strict=True)]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(keys, max_size=150), st.booleans(), st.booleans())
def test_single_keys_are_counted_and_found(given: list[Key], exact: bool, narrow: bool) -> None:
    """A key comes, goes the next time, comes, …; that with a 0 has the code of that with a NULL."""
    types = [type_of("BIGINT"), type_of("VARCHAR")][: 1 if narrow else 2]
    table, model = GroupTable(types, exact_rows=exact), Counter[tuple[Any, ...]]()
    for key in given:
        row = columns(key)[: len(types)]
        touched, _ = table.locate(row, 1)
        model[key[: len(types)]] ^= 1
        assert table.read(touched)[0, 0] == 1 - model[key[: len(types)]]
        table.stage(touched, np.array([[model[key[: len(types)]]]]))
        assert (table.find_one(row) >= 0) == (not model[key[: len(types)]])
        table.commit()
        assert (table.find_one(row) >= 0) == bool(model[key[: len(types)]])
    assert len(table.live()) == sum(model.values())

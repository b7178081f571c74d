"""Rows in memory follow deltas: their sum is that of all batches, whichever way it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from ivm.engine.views import view_contents
from ivm.engine.views.view_contents import KeyedContent, WholeContent, under
from ivm.storage.errors import InternalError
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet, add, empty, from_arrow
from tests.tiers import examples

SCHEMA: Schema = tuple(
    (name, type_of(name)) for name in ("INTEGER", "VARCHAR", "DOUBLE", "HUGEINT", "BLOB")
)
TYPES = [type for _, type in SCHEMA]
CELLS = (
    s.sampled_from([0, 1, None]),
    s.sampled_from(["", "a", "é", None]),
    s.sampled_from([0.0, -0.0, float("nan"), None]),
    s.sampled_from([0, -1, None]),
    s.sampled_from([b"", b"x", None]),
)
Row = tuple[Any, ...]


def batch(rows: list[Row], weights: list[int]) -> ZSet:
    arrays = []
    for i, (_, type) in enumerate(SCHEMA):
        cells = [row[i] for row in rows]
        if type.sql == "HUGEINT":
            signed = {0: bytes(16), -1: b"\xff" * 16, 5: b"\5" + bytes(15)}
            words = [None if cell is None else signed[cell] for cell in cells]
            arrays.append(pa.array(words, pa.binary(16)))
        else:
            arrays.append(pa.array(cells, type.arrow))
    table = pa.Table.from_arrays(arrays, names=[name for name, _ in SCHEMA])
    return from_arrow(table, SCHEMA, np.array(weights, np.int64)).dictionary_encoded()


def same(left: ZSet, right: ZSet) -> bool:
    return len(consolidate(add([left, right.negate()]), TYPES)) == 0


@pytest.mark.parametrize("few", [0, 16])
@settings(max_examples=examples(150), deadline=None)
@given(
    steps=s.lists(
        s.lists(s.tuples(s.booleans(), s.integers(0, 30), s.tuples(*CELLS)), max_size=4),
        max_size=8,
    )
)
def test_it_is_the_sum_of_its_deltas(few: int, steps: list[list[tuple[bool, int, Row]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_contents, "_FEW", few)
        content, keyed = WholeContent(SCHEMA, None), KeyedContent(SCHEMA, (0, 1))
        for each in (content, keyed):
            each.load(0, 0, [])
        held: list[Row] = []
        total = empty(TYPES)
        for epoch, step in enumerate(steps, 1):
            rows: list[Row] = []
            weights: list[int] = []
            for plus, number, row in step:
                if not plus and held:
                    row = held.pop(number % len(held))
                elif plus:
                    held.append(row)
                else:
                    continue
                rows.append(row)
                weights.append(1 if plus else -1)
            delta = consolidate(batch(rows, weights), TYPES)
            if len(delta):
                total = add([total, delta])
                for each in (content, keyed):
                    each.wait(epoch, delta)
                    each.add(each.take())
            assert content.rows.weights.tolist() == [1] * len(held)
            assert same(content.rows, total)
            assert content.count == len(held)
        for i in range(len(total)):
            key = [column.slice(i, i + 1) for column in total.columns[:2]]
            found = under(keyed.rows, key)
            assert found.weights.tolist() == [1] * len(found)
            pair = tuple(column.cell(0) for column in key)
            assert len(found) == sum(1 for row in held if row[:2] == pair)


@pytest.mark.full
@pytest.mark.parametrize("few", [0, 16])
@pytest.mark.parametrize("key", [(), (0,), (0, 1)])
@settings(max_examples=examples(100), deadline=None)
@given(
    steps=s.lists(s.lists(s.tuples(s.booleans(), s.tuples(*CELLS)), max_size=4), max_size=12),
    together=s.integers(1, 12),
)
def test_rows_with_a_key_are_the_sum_of_their_deltas(
    few: int, key: tuple[int, ...], steps: list[list[tuple[bool, Row]]], together: int
) -> None:
    """Rows come, change and go by their key, some twice in one delta; many deltas at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_contents, "_FEW", few)
        content = WholeContent(SCHEMA, key)
        content.load(0, 0, [])
        held: dict[Row, Row] = {}
        for epoch, step in enumerate(steps, 1):
            rows: list[Row] = []
            weights: list[int] = []
            for stays, row in step:
                place = tuple(row[i] for i in key)
                gone = held.pop(place, None)
                rows += [] if gone is None else [gone]
                weights += [] if gone is None else [-1]
                if stays:
                    held[place] = row
                    rows.append(row)
                    weights.append(1)
            if rows:
                content.wait(epoch, consolidate(batch(rows, weights), TYPES))
            if epoch % together == 0 or epoch == len(steps):
                content.add(content.take())
                left = batch(list(held.values()), [1] * len(held))
                assert content.rows.weights.tolist() == [1] * len(held)
                assert same(content.rows, left)


def test_many_rows_with_a_key_are_searched_by_it_alone() -> None:
    """So this takes another way than the sum; its result is that of the last delta of each key."""
    content = WholeContent(SCHEMA, (0,))
    content.load(0, 40, [batch([(n, "a", 0.0, 0, b"x") for n in range(40)], [1] * 40)])
    for epoch in range(1, 41):
        old = ("a", 0.0) if epoch <= 20 else ("é", epoch - 20.0)
        rows: list[Row] = [(epoch % 20, *old, 0, b"x"), (epoch % 20, "é", float(epoch), 0, b"x")]
        content.wait(epoch, batch(rows, [-1, 1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_contents, "consolidate", None)
        content.add(content.take())
    changed: list[Row] = [(n % 20, "é", float(n), 0, b"x") for n in range(21, 41)]
    rows = [*changed, *[(n, "a", 0.0, 0, b"x") for n in range(20, 40)]]
    assert same(content.rows, batch(rows, [1] * 40))


def test_a_row_that_is_removed_without_being_there_is_an_error() -> None:
    content = WholeContent(SCHEMA, (0,))
    content.load(0, 1, [batch([(1, "a", 0.0, 0, b"x")], [1])])
    for epoch in range(1, 20):
        content.wait(epoch, batch([(2, "a", 0.0, 0, b"x")], [-1]))
    with pytest.raises(InternalError, match="removes rows that its view has not"):
        content.add(content.take())


def test_deltas_of_epochs_that_were_loaded_are_left_out() -> None:
    content = WholeContent(SCHEMA, None)
    row: Row = (1, "a", 0.0, 5, b"x")
    content.wait(3, batch([row], [1]))
    content.wait(4, batch([row], [1]))
    content.load(3, 1, [batch([row], [1])])
    content.wait(5, batch([row], [1]))
    content.add(content.take())
    assert len(content.rows) == 3

"""Rows that a bound passes, against the rule told of them in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.ordered.emit import Emit
from ivm.delta_ops.state import pending_rows
from ivm.delta_ops.state.pending_rows import PendingRows
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, from_arrow
from tests.support.operator_bench import VALUES, Row, streams, types_of, zset
from tests.tiers import examples

TYPES = types_of("INTEGER", "VARCHAR")
BOUND = types_of("INTEGER")
NUMBERS = st.sampled_from([int(v) for v in VALUES["INTEGER"] if v != "NULL"])


def is_passed(row: Row, bound: int | None, inclusive: bool) -> bool:
    if row[0] == "NULL" or bound is None:
        return False
    return int(row[0]) <= bound if inclusive else int(row[0]) < bound


def rows_of(weights: Mapping[Row, int]) -> ZSet:
    return zset(TYPES, [(row, weight) for row, weight in weights.items() if weight])


def told(rows: ZSet) -> dict[Row, int]:
    """The weights of rows, as literals."""
    table = rows.to_arrow((("n", TYPES[0]), ("t", TYPES[1])))
    numbers, texts = [column.to_pylist() for column in table.columns]
    found = Counter[Row]()
    for number, text, weight in zip(numbers, texts, rows.weights.tolist(), strict=True):
        key = ("NULL" if v is None else repr(v) for v in (number, text))
        found[tuple(key)] += weight
    return {row: weight for row, weight in found.items() if weight}


def moved(old: int | None, new: int | None) -> ZSet:
    """The change of the one row of the bound."""
    rows = [((str(old),), -1)] if old is not None else []
    return zset(BOUND, rows + ([((str(new),), 1)] if new is not None else []))


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("few", [0, 3, 512])
@settings(deadline=None, max_examples=examples(100))
@given(data=st.data())
def test_a_row_comes_once_as_it_is_when_it_is_passed(
    few: int, inclusive: bool, data: st.DataObject
) -> None:
    """After each step and however the state has been got: from steps, the inputs, or a file."""
    now = Counter[Row]()
    last: int | None = None
    bound: int | None = None
    op = Emit(TYPES, 0, inclusive=inclusive)
    with mock.patch.object(pending_rows, "_FEW", few):
        for (rows,) in data.draw(streams(TYPES, steps=8)):
            new = data.draw(st.none() | NUMBERS)
            delta, change = zset(TYPES, rows), moved(last, new)
            before, last = bound, new
            bound = max([v for v in (bound, new) if v is not None], default=None)
            for row, weight in rows:
                now[row] += weight
            if data.draw(st.booleans()):
                op.step((delta, change))
                op.rollback()
            out = op.step((delta, change))
            op.commit()
            passed = {r: w for r, w in now.items() if w and is_passed(r, bound, inclusive)}
            assert told(out) == {
                r: w for r, w in passed.items() if not is_passed(r, before, inclusive)
            }
            assert (out.weights > 0).all()
            how = data.draw(st.sampled_from(["same", "hydrated", "restored"]))
            op = another(op, how, inclusive, [rows_of(now), moved(None, bound)])
            columns, weights, at = cast(tuple[tuple[Column, ...], Indexes, int | None], op.saved())
            waiting = {r: w for r, w in now.items() if w and r not in passed and r[0] != "NULL"}
            assert (told(ZSet(columns, weights)), at) == (waiting, bound)


def another(op: Emit, how: str, inclusive: bool, inputs: Sequence[ZSet]) -> Emit:
    """The operator, or one of the same state."""
    if how == "same":
        return op
    other = Emit(TYPES, 0, inclusive=inclusive)
    if how == "restored":
        other.restore(op.saved())
    else:
        other.hydrate(lambda i: iter([inputs[i]]))
    return other


@settings(deadline=None, max_examples=examples(100))
@given(data=st.data(), few=st.sampled_from([0, 3, 512]), inclusive=st.booleans())
def test_rows_wait_in_runs(data: st.DataObject, few: int, inclusive: bool) -> None:
    """Bounds in any order part the rows; what is added leaves earlier values alone."""
    now, held = Counter[Row](), PendingRows(TYPES, 0)
    with mock.patch.object(pending_rows, "_FEW", few):
        for (rows,) in data.draw(streams(TYPES, steps=8)):
            earlier, size = held, len(held)
            for row, weight in rows:
                now[row] += weight if row[0] != "NULL" else 0
            held = held.added(zset(TYPES, [(r, w) for r, w in rows if r[0] != "NULL"]))
            waiting = {r: w for r, w in now.items() if w}
            bound = data.draw(NUMBERS)
            out, rest = held.parted(bound, inclusive=inclusive)
            passed = {r: w for r, w in waiting.items() if is_passed(r, bound, inclusive)}
            assert told(out) == passed
            assert told(rest.all()) == {r: w for r, w in waiting.items() if r not in passed}
            assert told(held.all()) == waiting
            assert len(earlier) == size


def test_an_addition_moves_few_rows() -> None:
    """Rows that come in any order are moved a logarithmic number of times each."""
    held, moved_rows, schema = PendingRows(TYPES, 0), 0, (("c0", TYPES[0]), ("c1", TYPES[1]))

    def counted(rows: ZSet, types: Sequence[ColumnType]) -> ZSet:
        nonlocal moved_rows
        moved_rows += len(rows)
        return consolidate(rows, types)

    numbers = np.random.default_rng(1).permutation(np.arange(20_000, dtype=np.int32))
    with (
        mock.patch.object(pending_rows, "_FEW", 0),
        mock.patch.object(pending_rows, "consolidate", counted),
    ):
        for chunk in np.array_split(numbers, 200):
            texts = pa.array(["a"] * len(chunk))
            held = held.added(from_arrow(pa.table({"c0": chunk, "c1": texts}), schema))
    assert len(held) == 20_000
    assert moved_rows < 20_000 * 10

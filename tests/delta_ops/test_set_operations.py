"""DISTINCT and the set operations against DuckDB on random streams."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.aggregates.aggregate import Aggregate
from ivm.delta_ops.aggregates.set_operations import SetKind, SetOp
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet
from tests.support.operator_bench import Bench, drive, streams, types_of, zset
from tests.tiers import examples

PAIR = types_of("INTEGER", "VARCHAR")
LIST = types_of("BIGINT[]")

KINDS: list[tuple[SetKind, bool, str]] = [
    ("distinct", False, "SELECT DISTINCT * FROM i0"),
    ("union", False, "FROM i0 UNION FROM i1"),
    ("intersect", False, "FROM i0 INTERSECT FROM i1"),
    ("intersect", True, "FROM i0 INTERSECT ALL FROM i1"),
    ("except", False, "FROM i0 EXCEPT FROM i1"),
    ("except", True, "FROM i0 EXCEPT ALL FROM i1"),
]


def bench(types: tuple[ColumnType, ...], kind: SetKind, all: bool, sql: str) -> Bench:
    sides = 1 if kind == "distinct" else 2
    return Bench(
        lambda c, s: c.add("op", lambda _: SetOp(types, kind, all=all), s), [types] * sides, sql
    )


@pytest.mark.cases(3)
@pytest.mark.parametrize(("kind", "all", "sql"), KINDS)
@pytest.mark.parametrize("types", [PAIR, LIST])
@settings(deadline=None, max_examples=examples(15))
@given(data=st.data())
def test_follows_duckdb(
    types: tuple[ColumnType, ...], kind: SetKind, all: bool, sql: str, data: st.DataObject
) -> None:
    under_test = bench(types, kind, all, sql)
    drive(under_test, data.draw(streams(*[types] * len(under_test.inputs))))


def test_a_second_copy_of_a_row_changes_nothing() -> None:
    under_test = bench(PAIR, *KINDS[0])
    assert len(under_test.step([zset(PAIR, [(("1", "'a'"), 2)])])) == 1
    assert len(under_test.step([zset(PAIR, [(("1", "'a'"), -1)])])) == 0
    assert len(under_test.step([zset(PAIR, [(("1", "'a'"), -1)])])) == 1
    assert under_test.operator.state_rows() == 0


FORMS = types_of("DOUBLE", "INTERVAL")
DOUBLES = st.sampled_from(["0.0", "'-0.0'", "'NaN'", "1.5"])
INTERVALS = st.sampled_from(["INTERVAL 1 MONTH", "INTERVAL 30 DAYS", "INTERVAL 720 HOURS", "NULL"])


@settings(deadline=None, max_examples=examples(25))
@given(st.lists(st.tuples(DOUBLES, INTERVALS), min_size=1, max_size=6), st.data())
def test_the_form_shown_is_one_that_lives_after_any_history(
    rows: list[tuple[str, str]], data: st.DataObject
) -> None:
    """Equal keys of several forms (0.0 and −0.0, a month and 30 days) are one row."""
    gone = data.draw(st.lists(st.sampled_from(rows), max_size=5))
    for kind in ("distinct", "group"):
        long, short = _keyed(kind), _keyed(kind)
        for row in [*rows, *gone]:
            long.step([zset(FORMS, [(row, 1)])])
        for row in gone:
            long.step([zset(FORMS, [(row, -1)])])
            long.check()
        short.step([zset(FORMS, [(row, 1) for row in reversed(rows)])])
        assert _bits(long.output) == _bits(short.output)
        assert _bits(long.output) <= _bits(zset(FORMS, [(row, 1) for row in rows]))
        long.check_contents()


def _keyed(kind: str) -> Bench:
    if kind == "distinct":
        return bench(FORMS, "distinct", False, "SELECT DISTINCT * FROM i0")
    sql = "SELECT c0, c1 FROM i0 GROUP BY c0, c1"
    return Bench(lambda c, s: c.add("op", lambda _: Aggregate(FORMS, [0, 1], []), s), [FORMS], sql)


def _bits(z: ZSet) -> set[tuple[object, ...]]:
    doubles, intervals = z.columns
    assert isinstance(doubles, FixedColumn)
    assert isinstance(intervals, FixedColumn)
    return set(zip(doubles.values.view("i8").tolist(), intervals.values.tolist(), strict=True))

"""DISTINCT and the set operations against DuckDB on random streams."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.setop import SetKind, SetOp
from ivm.storage.types import ColumnType
from tests.operator_help import Bench, drive, streams, types_of, zset

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


@pytest.mark.parametrize(("kind", "all", "sql"), KINDS)
@pytest.mark.parametrize("types", [PAIR, LIST])
@settings(deadline=None, max_examples=15)
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

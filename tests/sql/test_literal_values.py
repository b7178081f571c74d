"""`INSERT … VALUES` read without DuckDB holds exactly what DuckDB's own INSERT stores."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from types import FrameType
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.ingest.literal_columns import are_given, columns_of
from ivm.ingest.not_fast import NotFastError
from ivm.sql.statements.nodes.values_list import LiteralRows, scan
from ivm.sql.statements.parse import Insert, parse
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, run, table
from tests.tiers import examples

CONNECTION = duckdb.connect(":memory:")
CONNECTION.execute("SET arrow_lossless_conversion = true")
CONNECTION.execute("SET GLOBAL TimeZone = 'America/New_York'")  # cursors have it too

TYPES = str.split(
    "TINYINT INTEGER BIGINT UINTEGER UBIGINT HUGEINT DOUBLE FLOAT BOOLEAN VARCHAR DATE TIMESTAMP"
    " TIMESTAMPTZ TIMESTAMP_S BLOB UUID JSON TIME INTERVAL DECIMAL(4,2) DECIMAL(18,3)"
    " DECIMAL(38,10) ENUM('a','b') INTEGER[] BIT"
)


def stored(cursor: Cursor, types: Sequence[str], sql: str, parameters: Any) -> list[Column] | None:
    """The columns DuckDB itself stores for the statement, None if it refuses it."""
    columns = ", ".join(f"c{i} {type}" for i, type in enumerate(types))
    run(cursor, f"CREATE OR REPLACE TEMP TABLE t ({columns})")
    try:
        run(cursor, sql, parameters or None)
    except (duckdb.Error, UnicodeDecodeError):
        return None
    schema = tuple((f"c{i}", type_of(type)) for i, type in enumerate(types))
    return list(from_arrow(table(cursor, "FROM t"), schema).columns)


def read(types: Sequence[str], sql: str, parameters: Any = ()) -> tuple[Column, ...] | None:
    (statement,) = parse(sql)
    assert isinstance(statement, Insert), sql
    if not are_given(statement.parameters, parameters):
        return None
    with CONNECTION.cursor() as cursor, contextlib.suppress(NotFastError):
        return columns_of(statement.rows, [type_of(t) for t in types], parameters, cursor)
    return None


def same(a: Column, b: Column) -> bool:
    """Bitwise equal values and equal validity."""
    valid_a, valid_b = (np.ones(len(c), bool) if c.valid is None else c.valid for c in (a, b))
    if not (valid_a == valid_b).all():
        return False
    if isinstance(a, FixedColumn) and isinstance(b, FixedColumn):
        return a.values.dtype == b.values.dtype and a.values.tobytes() == b.values.tobytes()
    assert isinstance(a, ArrowColumn)
    assert isinstance(b, ArrowColumn)
    return a.array.type == b.array.type and bool(a.array.equals(b.array))


def check(types: Sequence[str], sql: str, parameters: Any = ()) -> bool:
    """Compare with DuckDB; whether our own path read it."""
    ours = read(types, sql, parameters)
    with CONNECTION.cursor() as cursor:
        theirs = stored(cursor, types, sql, parameters)
    if ours is None:
        return False
    assert theirs is not None, f"DuckDB refuses {sql!r}, we took it"
    assert len(ours) == len(theirs)
    for type, a, b in zip(types, ours, theirs, strict=True):
        assert same(a, b), (type, sql, parameters, a, b)
    return True


def column(type: str, *cells: str) -> bool:
    return check([type], "INSERT INTO t VALUES " + ", ".join(f"({c})" for c in cells))


# --- which texts are taken ---


def rows_of(values: str) -> LiteralRows | None:
    return scan(values, 0, len(values))


def test_cells_by_column() -> None:
    rows = rows_of("(1, 'a''(,)\n', NULL) ,\n(-2.5e3,?,$1)")
    assert rows is None  # parameters and literals in one column
    rows = rows_of(" (1, 'a''(,)\n', NULL) ,\n(-2.5e3,'',true)")
    assert rows is not None
    assert rows.cells == (("1", "-2.5e3"), ("'a''(,)\n'", "''"), ("", "true"))
    assert rows.count == 2


def test_parameters_are_counted_row_by_row() -> None:
    rows = rows_of("(?, 1, ?), (?, 2, ?)")
    assert rows is not None
    assert rows.column_parameters == ((0, 2), None, (1, 3))
    rows = rows_of("($2, $1, 1), ($1, $2, 2)")
    assert rows is not None
    assert rows.column_parameters == ((1, 0), (0, 1), None)
    named = rows_of("($a, $b)")
    assert named is not None
    assert named.column_parameters == (("a",), ("b",))


@pytest.mark.parametrize(
    "values",
    [
        "(1), (2, 3)",
        "(1) (2)",
        "(1),",
        "(1), x, (2)",
        "(1 + 1)",
        "(now())",
        "(DEFAULT)",
        "(E'a')",
        "(x'00')",
        "($$a$$)",
        "(1_000)",
        "(+1)",
        "(0x1F)",
        "('a' 'b')",
        "(1::INT)",
        "(- 1)",
        "(?, $1)",
        "(?1)",
        "('a' /* c */)",
        "([1])",
        "(١)",  # an Arabic digit is no number in SQL
        "(1) -- c",
        "()",
        "",
    ],
)
def test_everything_else_is_left_to_duckdb(values: str) -> None:
    assert rows_of(values) is None


# --- what they mean ---


def test_integers() -> None:
    assert column("TINYINT", "-128", "127", "NULL", "007", "-0")
    assert column("UBIGINT", "18446744073709551615")
    assert column("BIGINT", "-9223372036854775808")
    assert column("HUGEINT", "-9223372036854775808", "5")
    assert column("INTEGER", "1.5", "2.5", "-1.5", "0.49")  # a DECIMAL rounds half away from 0
    assert column("INTEGER", "'7'", "NULL", "' 1e3 '")
    assert column("INTEGER", "TRUE", "false")
    assert not column("INTEGER", "1.5e0")  # a DOUBLE rounds half to even
    assert not column("TINYINT", "128")
    assert not column("UINTEGER", "-1")
    assert not column("BIGINT", "9" * 5000)


def test_numbers_with_a_point() -> None:
    assert column("DOUBLE", "0.1", "-0.0", "NULL", "1", ".5", "1.")
    assert column("DOUBLE", "1e5", "-0e0", "1.7976931348623157e308", "4.9e-324")
    assert column("FLOAT", "0.1", "16777217", "NULL")
    assert not column("DOUBLE", "1e5", "1234567890.12345678901")
    assert not column("FLOAT", "1e300")
    assert not column("DOUBLE", "1e999")
    assert column("DECIMAL(4,2)", "1.5", "-99.99", "NULL", "7", ".5", "1.")
    assert column("DECIMAL(4,2)", "1.005", "-1.015", "2.674")
    assert column("DECIMAL(38,10)", "1234567890123456789012345678.0123456789")
    assert not column("DECIMAL(4,2)", "99.995")
    assert not column("DECIMAL(4,2)", "1e0")
    assert column("VARCHAR", "1", "-0", "007")
    assert not column("VARCHAR", "1.50", "2.5")


def test_strings() -> None:
    assert column("VARCHAR", "'a'", "''", "NULL", "'it''s'", "''''", r"'\n'", "'ü\n(,'")
    assert column("BLOB", r"'\x00a'", "NULL")
    assert column("UUID", "'00000000-0000-0000-0000-000000000001'", "NULL")
    assert column("JSON", "'{\"a\": [1]}'")
    assert not column("JSON", "'{'")
    assert column("ENUM('a','b')", "'b'", "NULL")
    assert not column("ENUM('a','b')", "'c'")
    assert column("INTEGER[]", "'[1, NULL]'")


def test_times() -> None:
    assert column("DATE", "'2020-02-29'", "NULL", "'0001-01-01'")
    assert column("DATE", "DATE '2020-02-29'", "date'2021-01-01'")
    assert column("DATE", "'2020-1-1'", "'infinity'")
    assert not column("DATE", "'2021-02-29'")
    assert column("TIMESTAMP", "'2020-01-01'", "'2020-01-01 10:00:00.123'", "'2020-01-01T10:00:00'")
    assert column("TIMESTAMP", "TIMESTAMP '2020-01-01 10:00:00'", "NULL")
    assert column("TIMESTAMP", "'2020-01-01 10:00:00+02'")
    assert not column("TIMESTAMP", "'2020-01-01 25:00:00'")
    assert not column("TIMESTAMP", "DATE '2020-01-01'")
    assert column("TIMESTAMPTZ", "'2020-07-01 10:00:00'")  # in the session's time zone
    assert column("INTERVAL", "'1 month 2 days'")


LITERALS = st.one_of(
    st.just("NULL"),
    st.integers(-200, 200).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.decimals(-(10**6), 10**6, places=3).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda f: f"{f:e}"),
    st.text(alphabet="a'b;,()é\n1.-", max_size=4).map(lambda s: "'" + s.replace("'", "''") + "'"),
    st.dates().map(lambda d: f"'{d}'"),
    st.datetimes().map(lambda d: f"'{d}'"),
    st.sampled_from(("TRUE", "false", "'true'", "'1.5'", "'NaN'", "DATE '2020-01-01'", "-0.0")),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(TYPES), st.lists(LITERALS, min_size=1, max_size=4))
def test_literals_mean_what_duckdb_means(type: str, cells: list[str]) -> None:
    column(type, *cells)


# --- parameters ---


PYTHON = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-200, 200),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.decimals(-1000, 1000, places=3),
    st.sampled_from(("2020-01-01", "1.5", "x", "2020-01-01 10:00:00", [1, 2], {"a": 1})),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(TYPES), st.lists(PYTHON, min_size=1, max_size=3))
def test_parameters_mean_what_duckdb_means(type: str, values: list[Any]) -> None:
    check([type], "INSERT INTO t VALUES " + ", ".join(["(?)"] * len(values)), values)


def test_usual_parameters_are_taken() -> None:
    types = ("INTEGER", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "DECIMAL(9,2)", "BOOLEAN", "BLOB")
    row: list[Any] = [1, -0.0, "é", date(2020, 1, 1), datetime(2020, 1, 1, 1, 2, 3, 4)]
    row += [Decimal("-1.50"), True, b"\x00"]
    sql = "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    assert check(types, sql, row)
    assert check(types, sql, [None] * 8)
    assert check(["DOUBLE", "DECIMAL(4,2)"], "INSERT INTO t VALUES (?, ?)", [3, -99])
    assert not check(["DECIMAL(4,2)"], "INSERT INTO t VALUES (?)", [-(2**63)])
    assert check(["INTERVAL"], "INSERT INTO t VALUES (?)", [timedelta(40, 3)])
    assert check(["INTEGER", "VARCHAR"], "INSERT INTO t VALUES ($2, $1)", ["a", 1])
    assert check(["INTEGER", "VARCHAR"], "INSERT INTO t VALUES ($n, $s)", {"n": 1, "s": "a"})


def test_parameters_of_one_type_are_what_they_are_alone() -> None:
    """Bug: Arrow took datetimes with a zone for some without if the first one had none."""
    local = datetime(2020, 1, 1, 2)
    zoned = local.astimezone(timezone(timedelta(hours=2)))
    for type in ("TIMESTAMP", "TIMESTAMPTZ", "DATE", "VARCHAR"):
        for values in ([local, zoned], [zoned, local], [zoned, None]):
            sql = "INSERT INTO t VALUES " + ", ".join(["(?)"] * len(values))
            assert check([type], sql, values)
    assert check(["TIMESTAMP[]"], "INSERT INTO t VALUES (?), (?)", [[local], [zoned]])
    assert check(["VARCHAR"], "INSERT INTO t VALUES (?), (?)", [Decimal("2.50"), Decimal(1)])
    assert check(["DOUBLE"], "INSERT INTO t VALUES (?)", [Decimal("Infinity")])
    assert check(["DATE"], "INSERT INTO t VALUES (?)", [np.datetime64("2020-01-01")])


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("INSERT INTO t VALUES (?, ?)", [1]),
        ("INSERT INTO t VALUES (?, ?)", [1, 2, 3]),
        ("INSERT INTO t VALUES ($1, $3)", [1, 2]),
        ("INSERT INTO t VALUES ($a, $b)", {"a": 1, "c": 2}),
        ("INSERT INTO t VALUES ($a, $b)", [1, 2]),
        ("INSERT INTO t VALUES (?, ?)", {"a": 1, "b": 2}),
        ("INSERT INTO t VALUES (1)", ()),
    ],
)
def test_wrong_counts_are_left_to_duckdb(sql: str, parameters: Any) -> None:
    assert read(["INTEGER", "INTEGER"], sql, parameters) is None


# --- speed ---


def python_calls(rows: int) -> int:
    """How many Python functions run to read a statement of that many rows."""
    values = ",".join(f"({i}, 'name {i}', {i}.25, DATE '2020-01-01', NULL)" for i in range(rows))
    sql, calls = f"INSERT INTO t VALUES {values}", 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.disable()  # hypothesis has it call Python functions
    sys.setprofile(count)
    try:
        columns = read(["INTEGER", "VARCHAR", "DOUBLE", "DATE", "INTEGER"], sql)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert columns is not None
    assert [len(c) for c in columns] == [rows] * 5
    return calls


def test_no_python_function_runs_for_each_literal_row() -> None:
    python_calls(10)  # fills the caches
    assert python_calls(10_000) - python_calls(1_000) < 100

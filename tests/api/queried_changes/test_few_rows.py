"""Few rows read as Python values are those that an Arrow stream gives, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import ivm
from ivm.changes.rows.evaluation import described, evaluated
from ivm.changes.rows.few_rows import MOST, FewRows
from ivm.ingest.not_fast import NotFastError
from ivm.session.is_read_only import is_read_only
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.support.change_ways import few_rows_expected
from tests.support.type_values import VALUES

EXACT = [type for type in VALUES if type[-1] != "]" and type.split("(")[0] in (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
    *("UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR"),
)]  # fmt: skip
LATE = {
    "DATE": ("'0044-03-15 (BC)'", "'9999-12-31'", "'12000-01-01'", "'2024-02-29'"),
    "TIMESTAMP": ("'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'2024-02-29 12:00:00.000001'"),
}


@pytest.fixture
def cursor() -> Iterator[Cursor]:
    with duckdb.connect(config={"arrow_lossless_conversion": "true"}) as connection:
        yield connection


def rows_of(cursor: Cursor, text: str, schema: Schema, *, alone: bool) -> ZSet | None:
    """The rows of a query; None if DuckDB has to make the change that needs them."""
    try:
        return evaluated(cursor, text, None, schema, FewRows(), alone=alone)
    except NotFastError:
        return None


def bits(rows: ZSet) -> list[object]:
    return [_bits(column) for column in rows.columns]


def _bits(column: Column) -> object:
    if isinstance(column, ArrowColumn):
        return str(column.array)
    assert isinstance(column, FixedColumn)
    valid = column.valid
    known = column.values if valid is None else column.values[valid]
    return known.tobytes(), None if valid is None or valid.all() else valid.tolist()


def query(type: str, values: tuple[str, ...]) -> str:
    cells = ", ".join(
        f"({i}, CAST({value} AS {type}))" for i, value in enumerate((*values, "NULL"))
    )
    return f"SELECT v, 'x' AS s FROM (VALUES {cells}) r(i, v) ORDER BY i"


@pytest.mark.full
@pytest.mark.parametrize("type", VALUES)
def test_values_of_every_type(cursor: Cursor, type: str) -> None:
    for value in (*VALUES[type], *LATE.get(type, ())):
        text = query(type, (value,))
        with few_rows_expected():
            found = FewRows().read(cursor, text, None)
        assert found is not None or type not in EXACT
        if found is not None:
            wanted = described(cursor, text, None, FewRows(), alone=True)
            assert found[0] == wanted[0]
            assert bits(found[1]) == bits(wanted[1])


TARGETS = ("TINYINT", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL(18,3)", "VARCHAR", "DATE",
           "TIMESTAMP", "TIMESTAMPTZ", "BOOLEAN", "UUID", "INTEGER[]")  # fmt: skip
SOURCES = {
    "INTEGER": ("0", "127", "-129"),
    "UBIGINT": ("1", "18446744073709551615"),
    "DOUBLE": ("0.5", "-0.0", "1e300", "'nan'", "16777217"),
    "FLOAT": ("0.1", "'inf'"),
    "DECIMAL(9,4)": ("0.0005", "-99999.9999", "1.25"),
    "VARCHAR": ("'1'", "'2024-02-29'", "' true '", "'[1, 2]'", "'1e5'"),
    "BOOLEAN": ("true",),
    "DATE": ("'2024-02-29'", "'0001-01-01'", "'infinity'"),
    "TIMESTAMP": ("'2024-02-29 23:59:59.999999'", "'-infinity'"),
    '"NULL"': (),
}


@pytest.mark.full
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", TARGETS)
def test_casts(cursor: Cursor, source: str, target: str) -> None:
    schema = (("v", type_of(target)), ("s", type_of("VARCHAR")))
    for value in SOURCES[source] or ("NULL",):
        text = query(source, (value,)) if SOURCES[source] else "SELECT NULL, 'x'"
        wanted = rows_of(cursor, text, schema, alone=False)
        with few_rows_expected():
            found = rows_of(cursor, text, schema, alone=True)
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert bits(found) == bits(wanted)


def test_a_query_is_known_by_its_rows_before(cursor: Cursor) -> None:
    few, text = FewRows(), "SELECT i, 'a' FROM range({}) r(i)"
    assert few.read(cursor, text.format(3), None) is None
    few.learn(text.format(3), 3)
    found = few.read(cursor, text.format(5), None)
    assert found is not None
    assert len(found[1]) == 5
    assert few.read(cursor, text.format(MOST), None) is None
    assert not few.knows(text.format(1))
    few.learn(text.format(MOST), MOST)
    assert not few.knows(text.format(1))
    few.learn(text.format(1), 1)
    assert few.knows(text.format(1))


def test_a_query_without_exact_values_is_given_up(cursor: Cursor) -> None:
    few, text = FewRows(), "SELECT DATE 'infinity'"
    for _ in range(4):
        few.learn(text, 1)
        assert few.knows(text)
        assert few.read(cursor, text, None) is None
    few.learn(text, 1)
    assert not few.knows(text)


def test_an_error_leaves_no_transaction(cursor: Cursor) -> None:
    schema = (("v", type_of("BIGINT")),)
    with few_rows_expected():
        assert rows_of(cursor, "SELECT error('no')", schema, alone=True) is None
        assert rows_of(cursor, "SELECT nope", schema, alone=True) is None
    cursor.execute("BEGIN").fetchall()


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT i, 'a' FROM range(1, 3) r(i) WHERE abs(i) IN (1, 2)", True),
        ("SELECT * FROM (SELECT sum(a) OVER (ORDER BY a) FROM t) AS q(b)", True),
        ("SELECT CAST(a AS DECIMAL(9,2)) FROM t WHERE EXISTS (SELECT 1)", True),
        ("SELECT * FROM read_parquet('file.parquet', hive_partitioning = false)", True),
        ("SELECT DISTINCT ON (a) a FROM t", True),
        ("SELECT nextval('s')", False),
        ("SELECT DISTINCT ON (a) nextval('s') FROM t", False),
        ("SELECT setval('s', 7)", False),
        ("SELECT * FROM t JOIN (VALUES (1)) AS o(i) ON a = i LEFT JOIN (FROM t) ON true", True),
        ("SELECT nextval\ufeff('s')", False),
        ("SELECT nextval\u200b('s')", False),
        ("SELECT nextval/* */('s')", False),
        ("SELECT 's'.nextval()", False),
        ("WITH c AS (INSERT INTO t VALUES (1) RETURNING a) FROM c", False),
        ("SELECT drawn()", False),
        ("SELECT * FROM sequel", False),
        ("SELECT * FROM checkpoint()", False),
        ("SELECT * FROM query('SELECT 1')", False),
        ("SELECT unknown_function(1)", False),
    ],
)
def test_queries_that_may_write(text: str, expected: bool) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE SEQUENCE s")
        db.execute("CREATE MACRO drawn() AS nextval('s'); CREATE VIEW sequel AS SELECT 1 AS a")
        assert is_read_only(db._session(), text) == expected

"""A view is a function of its tables; what is not is refused, with its place and a way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.sql.resolve.determinism import check_deterministic
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus.plan_corpus import QUERIES, build

SETUP = """
CREATE SEQUENCE numbers;
CREATE VIEW dice AS SELECT k, random() AS r FROM t;
CREATE VIEW two_dice(k, r) AS SELECT k, r + 1 FROM dice;
CREATE VIEW told AS SELECT 1 FROM duckdb_indexes;
CREATE VIEW "x AS (y" AS SELECT random() AS r;
CREATE TABLE sqlite_schema (k INTEGER);
CREATE SCHEMA aside;
CREATE TABLE aside.duckdb_types (k INTEGER);
ATTACH ':memory:' AS other;
CREATE TABLE other.rows (k INTEGER);
CREATE VIEW other.t AS SELECT random() AS k;
CREATE MACRO other.one(x) AS 1;
CREATE MACRO other.double_it(x) AS random();
CREATE VIEW reaching AS SELECT other.one(k) AS k FROM t;
CREATE MACRO roll(x) AS x + random();
CREATE MACRO twice(x) AS roll(x) + roll(x);
CREATE MACRO late() AS TABLE SELECT now() AS n;
CREATE MACRO double_it(x) AS 2 * x;
"""

REFUSED = {
    "SELECT k, random() FROM t": ("random()", 10),
    "SELECT uuid() FROM t": ("uuid()", 7),
    "SELECT 'äöü', uuid() FROM t": ("uuid() cannot stand", 14),
    "SELECT k FROM t WHERE nextval('numbers') > 1": ("nextval()", 22),
    "SELECT (SELECT max(random()) FROM u) FROM t": ("random()", 19),
    "SELECT k FROM t TABLESAMPLE 10%": ("a sample", None),
    "SELECT k FROM t USING SAMPLE 5 ROWS": ("a sample", None),
    "WITH x AS (SELECT random() AS r) SELECT * FROM x": ("random()", 18),
    "SELECT * FROM dice": ("random()", 14),
    "SELECT * FROM two_dice": ("random()", 14),
    'SELECT * FROM "x AS (y"': ("random()", 14),
    "SELECT k FROM t UNION ALL SELECT roll(k) FROM t": ("random()", 33),
    "SELECT twice(k) FROM t": ("random()", 7),
    "SELECT system.main.now()": ("main.now()", 7),
    "SELECT k FROM t WHERE day > pg_catalog.today()": ("pg_catalog.today()", 28),
    "SELECT pg_postmaster_start_time()": ("pg_postmaster_start_time()", 7),
    "SELECT current_setting('threads')": ("current_setting()", 7),
    "SELECT getvariable('x')": ("getvariable()", 7),
    "SELECT * FROM t POSITIONAL JOIN u": ("POSITIONAL JOIN", 16),
    "SELECT * FROM (SUMMARIZE t)": ("DESCRIBE, SUMMARIZE", None),
    "DESCRIBE t": ("DESCRIBE", None),
    "PIVOT t ON b USING sum(v)": ("PIVOT without an IN list", None),
    "SELECT * FROM (PIVOT t ON b USING sum(v) GROUP BY g)": ("PIVOT without an IN list", None),
    "PIVOT t ON b USING sum(v) GROUP BY g ORDER BY ALL": ("PIVOT without an IN list", None),
    "SELECT * FROM (PIVOT t ON b USING sum(v) LIMIT 5)": ("PIVOT without an IN list", None),
    "WITH q AS (PIVOT t ON b, k IN (1, 2) USING sum(v)) FROM q": ("PIVOT without an IN list", None),
    "SELECT k FROM t, duckdb_columns": ("duckdb_columns", 17),
    "SELECT count(*) FROM sqlite_master": ("sqlite_master", 21),
    "SELECT count(*) FROM pg_class": ("pg_class", 21),
    "SELECT count(*) FROM pg_catalog.pg_class": ("pg_catalog.pg_class", 21),
    "FROM information_schema.tables": ("information_schema.tables", 5),
    "SELECT k FROM t WHERE k > (SELECT count(*) FROM main.duckdb_views)": ("main.duckdb_views", 48),
    "SELECT * FROM told": ("duckdb_indexes", 14),
    "FROM 'no.csv'": ("'no.csv'", 5),
    'SELECT k FROM t WHERE k > (SELECT max(k) FROM "no.parquet")': ("'no.parquet'", 46),
    "WITH \"no.csv\" AS (SELECT 1) SELECT (SELECT 1 FROM 'no.csv') FROM 'no.json'": (
        "'no.json'",
        65,
    ),
    "SELECT count(*) FROM duckdb_types": ("duckdb_types", 21),
    "WITH duckdb_tables AS (SELECT 1 FROM duckdb_tables) FROM duckdb_tables": ("duckdb_tables", 37),
    "SELECT 1 FROM (WITH duckdb_tables AS (SELECT 1) FROM duckdb_tables) AS x, duckdb_tables": (
        "duckdb_tables",
        74,
    ),
    "SELECT k FROM other.rows": ("other.rows", 14),
    "SELECT k FROM OTHER.main.t": ("OTHER.main.t", 14),
    "SELECT other.one(k) FROM t": ("other.one", 7),
    "SELECT k FROM reaching": ("other.one", 14),
    "SELECT k, pg_get_viewdef(k) FROM t": ("duckdb_views() in FROM", 10),
    "SELECT format_type(k, NULL) FROM t": ("duckdb_types() in FROM", 7),
    "SELECT pg_sleep(k) FROM t": ("sleep_ms()", 7),
    "SELECT k, index_key({'table': 't'}, 'PRIMARY_t_0', k) FROM t": ("index_key()", 10),
    "SELECT g, bitstring_agg(k) FROM t GROUP BY g": ("bitstring_agg() without bounds", 10),
    "SELECT * FROM duckdb_tables()": ("duckdb_tables() in FROM", 14),
    "SELECT * FROM read_csv('x.csv')": ("read_csv() in FROM", 14),
}


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=4, rows=4)
        connection.execute(SETUP)
        yield connection


@pytest.mark.parametrize(("query", "expected"), list(REFUSED.items()))
def test_refused_with_its_offset(
    cursor: Cursor, query: str, expected: tuple[str, int | None]
) -> None:
    with pytest.raises(UnsupportedError) as error:
        check_deterministic(query, cursor)
    construct, offset = expected
    assert str(error.value).startswith(construct)
    assert offset is None or error.value.position == offset


def test_a_macro_of_the_users_takes_the_place_of_duckdbs_own() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO pg_get_viewdef(x) AS x + 1")
        check_deterministic("SELECT pg_get_viewdef(1)", connection)


@pytest.mark.full
@pytest.mark.cases(10)
@pytest.mark.parametrize("query", [q for group in QUERIES.values() for q in group])
def test_functions_of_the_tables_pass(cursor: Cursor, query: str) -> None:
    check_deterministic(query, cursor)


@pytest.mark.parametrize(
    "query",
    [
        "WITH duckdb_tables AS (SELECT k FROM t) SELECT count(*) FROM duckdb_tables",
        "WITH a AS (SELECT k FROM t), dice AS (FROM a) FROM dice, (FROM dice)",
        "WITH RECURSIVE dice AS (SELECT 1 AS k UNION SELECT k + 1 FROM dice WHERE k < 3) FROM dice",
        "SELECT k, double_it(k) FROM t",
        "FROM sqlite_schema",
        "FROM aside.duckdb_types",
    ],
)
def test_what_only_has_such_a_name_passes(cursor: Cursor, query: str) -> None:
    check_deterministic(query, cursor)


@pytest.mark.parametrize(
    ("query", "time_functions"),
    [
        ("SELECT now()", {"now"}),
        ("SELECT current_date", {"current_date"}),
        ("SELECT k FROM t WHERE day > today() - 7", {"today"}),
        ("SELECT current_timestamp > ts FROM u", {"get_current_timestamp"}),
        ("SELECT * FROM late()", {"now"}),
        ("SELECT age(ts) FROM u", {"age"}),
        ("SELECT age(ts, ts) FROM u", set()),
        ("SELECT ago(INTERVAL 1 DAY)", {"get_current_timestamp"}),
        ("SELECT k, (SELECT localtime) FROM t", {"current_localtime"}),
    ],
)
def test_functions_that_tell_the_time_are_found(
    cursor: Cursor, query: str, time_functions: set[str]
) -> None:
    assert check_deterministic(query, cursor) == time_functions


def test_a_macro_of_the_users_tells_no_time() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO today() AS DATE '2020-01-01'")
        assert not check_deterministic("SELECT today()", connection)


def test_message_names_the_way_and_the_way_out(cursor: Cursor) -> None:
    with pytest.raises(UnsupportedError) as error:
        check_deterministic("SELECT twice(k) FROM two_dice", cursor)
    message = str(error.value)
    assert "through twice → roll" in message or "through two_dice → dice" in message
    assert "store it in a column" in message


def test_a_column_that_is_called_like_a_function_passes(cursor: Cursor) -> None:
    cursor.execute("CREATE OR REPLACE TEMP TABLE odd (random INTEGER)")
    check_deterministic("SELECT random FROM odd", cursor)
    check_deterministic("SELECT double_it(k) FROM t", cursor)


def test_what_the_session_holds_is_told_apart_from_chance(cursor: Cursor) -> None:
    with pytest.raises(UnsupportedError, match="comes from the session"):
        check_deterministic("SELECT getvariable('x')", cursor)


@pytest.mark.full
def test_files_are_refused_through_whatever_they_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n")
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER)")
        db.execute(f"CREATE VIEW reading AS SELECT a FROM '{file}'")
        db.execute(f"CREATE MACRO top(x) AS x + (SELECT max(a) FROM '{file}')")
        db.execute(f"CREATE MACRO every() AS TABLE FROM '{file}'")
        for query in (
            f"FROM '{file}'",
            f"SELECT k FROM t WHERE k IN (SELECT a FROM '{file}')",
            "SELECT a FROM reading",
            "SELECT top(k) FROM t",
            "FROM every()",
            "WITH e AS (FROM every()) SELECT e.* FROM t, e",
        ):
            with pytest.raises(UnsupportedError, match="no such table, and of a file"):
                db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")

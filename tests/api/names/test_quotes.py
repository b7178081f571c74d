"""Names in each of DuckDB's quotes mean the same, in every statement and to every guard."""

from __future__ import annotations

from typing import Any

import pytest

import ivm
from ivm.errors import IvmError, SqlError, UnsupportedError
from ivm.serve.pg.statements.actions import Sql, actions_of
from tests.support.duckdb_twin import Twin
from tests.support.view_oracle import assert_verified

QUOTES = ['"{}"', "`{}`"]
STRINGS = ["'{}'", "E'{}'", "N'{}'", "x'{}'", "$${}$$", "$q${}$q$"]
"""DuckDB takes strings for names where a relation is made, changed or dropped."""

SETUP = (
    'CREATE TABLE t (id INTEGER PRIMARY KEY, "a b" INTEGER); CREATE VIEW pv AS SELECT id FROM t;'
)
SETUP += "CREATE MACRO m(x) AS x + 1"
VIEWS = 'CREATE MATERIALIZED VIEW v AS SELECT m(id) AS k, "a b" FROM t;'
VIEWS += "CREATE MATERIALIZED VIEW w AS FROM pv"
CHANGES = [
    "INSERT INTO <t> VALUES (1, 2), (2, 3)",
    "INSERT INTO <t> (<id>, <a b>) VALUES (3, 4)",
    "INSERT INTO t (<a b>, id) SELECT 5, 5",
    "WITH <c> AS (SELECT 7 AS id, 8 AS b) INSERT INTO <t> FROM <c>",
    "INSERT OR REPLACE INTO <t> VALUES (1, 7)",
    "INSERT INTO <t> AS <o> VALUES (1, 8) ON CONFLICT (<id>) DO UPDATE SET <a b> = excluded.<a b>",
    "UPDATE <t> SET <a b> = 9 WHERE <id> = 1",
    "UPDATE <t> AS <o> SET <a b> = <a b> + 1 WHERE <o>.<id> > 1 RETURNING <a b>",
    "UPDATE t SET <a b> = r.i FROM range(4) r(i) WHERE <t>.<id> = r.i",
    "MERGE INTO <t> USING (SELECT 1 AS id) s ON <t>.<id> = s.id WHEN MATCHED THEN DELETE",
    "DELETE FROM <t> WHERE <id> = 3",
    "DELETE FROM <t> WHERE <t>.<id> IN (SELECT 2)",
    "CREATE OR REPLACE VIEW <pv> AS SELECT <id> + 10 AS <id> FROM <t>",
    "CREATE OR REPLACE MACRO <m>(x) AS x + 100",
    "INSERT INTO <t> VALUES (11, 2)",
    "COPY <t> (<id>, <a b>) TO '{folder}/rows.csv'",
    "TRUNCATE <t>",
    "COPY <t> FROM '{folder}/rows.csv'",
    "PREPARE <p> AS INSERT INTO <t> VALUES ($1, 0)",
    "EXECUTE <p>(77)",
    "DEALLOCATE <p>",
    "ALTER TABLE <t> ADD COLUMN <c d> INTEGER DEFAULT 5",
    "COMMENT ON COLUMN <t>.<c d> IS 'x'",
    "CREATE SCHEMA <s>",
    "CREATE TABLE <s>.<u> (<k> INTEGER PRIMARY KEY)",
    "INSERT INTO <s>.<u> VALUES (1)",
    "CREATE INDEX <i> ON <t>(<c d>)",
    "SELECT <a b>, <t>.<id> AS <it's> FROM <t> WHERE <id> > 1",
    "DROP INDEX <i>",
    "DROP TABLE <s>.<u>",
    "DROP SCHEMA <s>",
    "ATTACH ':memory:' AS <d>",
    "CREATE TABLE <d>.<x> (i INTEGER)",
    "DETACH <d>",
]


def in_quotes(sql: str, quote: str) -> str:
    before, after = quote.split("{}")
    return sql.replace("<", before).replace(">", after)


@pytest.mark.full
@pytest.mark.parametrize("quote", QUOTES)
def test_every_statement(quote: str, tmp_path: Any) -> None:
    twin = Twin(SETUP, VIEWS)
    with twin.db:
        for change in CHANGES:
            # not the comparisons
            sql = change.replace(" > ", " \0 ").replace("{folder}", str(tmp_path))
            assert twin.run(in_quotes(sql, quote).replace("\0", ">")), change
            twin.check()


@pytest.mark.full
@pytest.mark.parametrize("quote", STRINGS)
def test_strings_are_names_where_duckdb_takes_them(quote: str) -> None:
    twin = Twin(SETUP, VIEWS)
    with twin.db:
        for change in [
            "INSERT INTO t VALUES (1, 2)",
            "CREATE OR REPLACE VIEW <pv> AS SELECT id + 10 AS id FROM t",
            "CREATE OR REPLACE MACRO <m>(x) AS x + 100",
            "CREATE TABLE <u> (i INTEGER)",
            "INSERT INTO t VALUES (3, 4)",
            "COMMENT ON TABLE <t> IS 'x'",
            "PREPARE <p> AS SELECT 1",
            "EXECUTE <p>",
        ]:
            assert twin.run(in_quotes(change, quote)), change
            twin.check()
        for change in ["INSERT INTO <t> VALUES (5, 6)", "DELETE FROM <t>", "DROP TABLE <u>"]:
            twin.run(in_quotes(change, "'{}'"))
            assert_verified(twin.db)


FORBIDDEN = [
    "CREATE OR REPLACE TABLE <v> AS SELECT 99 AS x",
    "CREATE OR REPLACE TABLE <v> (x INTEGER)",
    "DROP TABLE <v>",
    "DROP TABLE IF EXISTS <v> CASCADE",
    "ALTER TABLE <v> ADD COLUMN x INTEGER",
    "ALTER TABLE <v> RENAME TO z",
    "INSERT INTO <v> VALUES (1, 2)",
    "UPDATE <v> SET k = 1",
    "DELETE FROM <v>",
    "TRUNCATE <v>",
    "MERGE INTO <v> USING t ON false WHEN NOT MATCHED THEN INSERT VALUES (1, 2)",
    "COPY <v> FROM 'rows.csv'",
    "DROP SCHEMA <_ivm> CASCADE",
    "CREATE SCHEMA <_ivm>",
    "DROP TABLE <t>",
]
OTHERS = [
    "CREATE OR REPLACE VIEW <v> AS SELECT 99 AS x",
    "CREATE OR REPLACE TABLE <_ivm>.<epochs> AS SELECT 1 AS a",
    "CREATE TABLE <_ivm>.zz (i INTEGER)",
    "CREATE TABLE _ivm.<zz> (i INTEGER)",
    "DROP TABLE _ivm.<epochs>",
    "DELETE FROM <_ivm>.<epochs>",
    "CREATE OR REPLACE TABLE main.<v> AS SELECT 99 AS x",
    "DROP TABLE main.<v>",
]


@pytest.mark.full
@pytest.mark.parametrize("quote", [*QUOTES, *STRINGS])
def test_views_and_records_are_no_ones_to_change(quote: str) -> None:
    with ivm.connect() as db:
        db.execute(f"{SETUP}; {VIEWS}; INSERT INTO t VALUES (1, 2)")
        for statement in FORBIDDEN:
            with pytest.raises(UnsupportedError):
                db.execute(in_quotes(statement, quote))
        for statement in OTHERS:
            with pytest.raises((UnsupportedError, SqlError)):
                db.execute(in_quotes(statement, quote))
        assert db.execute("FROM v").fetchall() == [(2, 2)]
        assert_verified(db)


@pytest.mark.parametrize("quote", QUOTES)
@pytest.mark.parametrize(
    "statement",
    [
        "SET <integer_division> = true",
        "SET GLOBAL <default_null_order> = 'nulls_first'",
        "PRAGMA <default_collation> = NOCASE",
        "SET <search_path> = 'other'",
        "USE <other>",
        "SET GLOBAL <TimeZone> = 'UTC'",
        "SET <lock_configuration> = true",
        "ATTACH ':memory:' AS <_ivm>",
    ],
)
def test_settings(statement: str, quote: str) -> None:
    with ivm.connect() as db, pytest.raises(UnsupportedError):
        db.execute(in_quotes(statement, quote))


@pytest.mark.full
@pytest.mark.parametrize("path", ["'{}'", "E'{}'", "$${}$$", "$q${}$q$"])
def test_no_database_hides_the_records(path: str, tmp_path: Any) -> None:
    with ivm.connect() as db, pytest.raises(UnsupportedError, match="cannot be attached as _ivm"):
        db.execute(f"ATTACH {path.format(tmp_path / '_ivm.duckdb')}")


@pytest.mark.full
@pytest.mark.parametrize("quote", [*QUOTES, *STRINGS])
def test_our_own_statements(quote: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        for statement in [
            "CREATE MATERIALIZED VIEW <v> AS SELECT `id` AS `i d` FROM `t`",
            "CREATE OR REPLACE MATERIALIZED VIEW <v> (`i d`) AS SELECT `id` FROM `t`",
            "EXPLAIN MATERIALIZED VIEW <v>",
            "VERIFY MATERIALIZED VIEW <v>",
        ]:
            found = db.execute(in_quotes(statement, quote)).fetchall()
            assert "recomputed" not in str(found)
        assert db.execute("FROM v").columns == ["i d"]
        db.execute(in_quotes("DROP MATERIALIZED VIEW <v>", quote))
        with pytest.raises(IvmError, match="does not exist"):
            db.execute("FROM v")


@pytest.mark.full
def test_a_query_with_backticks_is_maintained() -> None:
    setup = 'CREATE TABLE t (id INTEGER PRIMARY KEY, "a`b" INTEGER, "c d" VARCHAR)'
    query = 'SELECT `c d`, sum(`a``b`) AS `s"um`, count(*) FROM `t` AS `u` GROUP BY `u`.`c d`'
    with ivm.connect() as db:
        db.execute(f"{setup}; CREATE MATERIALIZED VIEW v AS {query}")
        explained = str(db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall())
        assert "Aggregate" in explained
        assert "whole" not in explained
        db.execute("INSERT INTO `t` VALUES (1, 2, 'x'), (2, 3, 'x')")
        assert db.execute('SELECT `s"um` FROM v').fetchall() == [(5,)]
        assert_verified(db)


def test_a_name_of_digits_is_no_number() -> None:
    """Texts that differ in numbers alone are read once over PostgreSQL's protocol."""
    for number in (1, 2):
        (action,) = actions_of(f"SELECT `{number}` FROM t")
        assert isinstance(action, Sql)
        assert action.statement.text == f'SELECT "{number}" FROM t'

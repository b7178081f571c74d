"""Names in DDL, in our own statements and in Python calls mean what they mean to DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import IvmError, SqlError, UnsupportedError
from ivm.storage.identifiers import path_of
from tests.api.names.test_names import SPELLINGS, TABLES, Pair, pair
from tests.support.view_oracle import verdicts
from tests.tiers import TIER

pytestmark = pytest.mark.full(smoke=12)

__all__ = ["pair"]  # the fixture

_EFFECT = """
SELECT c.database_name, c.schema_name, c.table_name, c.column_name, c.data_type,
    concat_ws('/', c.comment, c.is_nullable, c.column_default)
FROM duckdb_columns() c WHERE NOT c.internal AND c.schema_name <> '_ivm'
    AND NOT regexp_full_match(c.table_name, 'v[0-9]+')
UNION ALL
SELECT database_name, schema_name, table_name, NULL, NULL, comment FROM duckdb_tables()
WHERE comment IS NOT NULL
UNION ALL
SELECT database_name, schema_name, table_name, index_name, sql, NULL FROM duckdb_indexes()
"""
STATEMENTS = [
    "ALTER TABLE {name} ALTER w SET NOT NULL",
    "DROP TABLE {name} CASCADE",
    "CREATE VIEW mv AS FROM {name}",
    "CREATE MATERIALIZED VIEW mv AS FROM {name}",
    "CREATE TABLE mv AS FROM {name}",
    "COMMENT ON TABLE {name} IS 'told'",
    "CREATE INDEX i ON {name}(w)",
    "ALTER TABLE {name} ALTER w SET DEFAULT 'x'",
    "CREATE TABLE {name}(q INT)",
    "CREATE VIEW {name} AS SELECT 1 AS q",
    "DESCRIBE {name}",
    "SUMMARIZE {name}",
]
"""What each of them changes is looked for in the catalog of its transaction, which is undone."""


def outcome(run: Any, sql: str) -> tuple[Exception | None, list[Any]]:
    """What was raised, and the rows."""
    try:
        return None, run(sql).fetchall()
    except (duckdb.Error, IvmError) as error:
        return error, []


def effect(run: Any, sql: str) -> tuple[Exception | None, list[Any]]:
    """What a statement raises, answers and changes in the catalog; it is undone."""
    before = set(run(_EFFECT).fetchall())
    run("BEGIN")
    error, found = outcome(run, sql)
    if error is None:
        after = set(run(_EFFECT).fetchall())
        found += [*sorted(map(str, after - before)), *sorted(map(str, before - after))]
        if " mv " in sql:
            found += sorted(run("FROM mv").fetchall())
    run("ROLLBACK")
    return error, found


@pytest.mark.full
def test_ddl_concerns_what_duckdb_means(pair: Pair) -> None:
    for i, name in enumerate(TABLES):
        pair.both(f"INSERT INTO {name} VALUES ({i}, 'set up')")
    for i, name in enumerate(SPELLINGS):
        tried = STATEMENTS if TIER == "fuzz" else [STATEMENTS[i % len(STATEMENTS)]]
        for statement in tried:
            sql = statement.format(name=name)
            error, found = effect(pair.ours.execute, sql)
            message, expected = effect(pair.plain.execute, sql.replace("MATERIALIZED ", ""))
            told = (sql, error, message)
            if isinstance(error, UnsupportedError):
                assert "MATERIALIZED" in sql, told
                assert message is not None or _is_elsewhere(pair, name), told
                continue
            assert (error is None) == (message is None), told
            assert found == expected, (told, found, expected)
    pair.compare("undone")


def _is_elsewhere(pair: Pair, name: str) -> bool:
    """Whether DuckDB finds the table in another database, or among the temporary ones."""
    plan = pair.plain.execute(f"EXPLAIN (FORMAT json) FROM {name}").fetchall()[0][1]
    return '"shop.' not in plan or "temp" in plan


VIEWS = ["mv", "Mv", '"M.v"', "s.mv", "S.MV", "shop.s.mv", 'shop.s1.s2."m""v"', "main.mv", '"Ä".mv']


@pytest.mark.full
def test_a_view_lies_where_a_plain_view_of_its_name_would(pair: Pair) -> None:
    for name in (*VIEWS, *SPELLINGS):
        query = "AS SELECT id, w FROM shop.main.t"
        error, found = effect(pair.ours.execute, f"CREATE MATERIALIZED VIEW {name} {query}")
        message, expected = effect(pair.plain.execute, f"CREATE VIEW {name} {query}")
        if message is None and isinstance(error, UnsupportedError):
            assert "another database" in str(error) or "temp" in name.lower(), (name, error)
            continue
        assert (error is None) == (message is None), (name, error, message)
        assert found == expected, (name, found, expected)


@pytest.mark.full
def test_our_statements_and_calls_find_a_view_by_every_spelling(pair: Pair) -> None:
    for i, name in enumerate(VIEWS[:-1]):
        pair.ours.execute("BEGIN")
        pair.ours.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT id FROM shop.main.t")
        for spelling in (name, name.upper().replace("Ä", "ä") if '"' not in name else name):
            (verdict,) = verdicts(pair.ours, spelling)
            assert verdict["ok"] is True, spelling
            told = pair.ours.execute(f"EXPLAIN MATERIALIZED VIEW {spelling}").fetchall()
            assert path_of(told[0][0]) == path_of(verdict["view"])
        pair.ours.execute("COMMIT")
        feed = pair.ours.subscribe(name)
        pair.ours.insert("shop.main.t", {"id": [100 + i]})
        item = feed.poll(timeout=5)
        assert item is not None
        assert item[1].to_pylist() == [{"id": 100 + i, "_weight": 1}]
        pair.ours.execute(f"DROP MATERIALIZED VIEW {name}")
        with pytest.raises(SqlError, match="no materialized view"):
            pair.ours.subscribe(name)


@pytest.mark.full
def test_python_calls_change_the_table_that_duckdb_means(pair: Pair) -> None:
    for i, name in enumerate(SPELLINGS):
        key = 10 * i
        error = None
        try:
            pair.ours.insert(name, [{"id": key, "w": "insert"}, {"id": key + 1, "w": "x"}])
            pair.ours.upsert(name, {"id": [key], "w": ["upsert"]})
            pair.ours.delete(name, {"id": [key + 1]})
        except IvmError as raised:
            error = raised
        if isinstance(error, SqlError):  # a table that SQL alone reaches, or none
            known = outcome(pair.plain.execute, f"FROM {name}")[0] is None
            assert not known or _is_elsewhere(pair, name), (name, error)
            continue
        assert error is None, (name, error)
        pair.plain.execute(f"INSERT INTO {name} VALUES ({key}, 'upsert')")
        pair.compare(name)


def test_an_attached_database_can_get_another_name_and_the_opened_one_cannot(pair: Pair) -> None:
    # DuckDB renames at once, whatever becomes of the transaction: nothing was found any more.
    with pytest.raises(UnsupportedError, match="keeps the name"):
        pair.ours.execute("ALTER DATABASE Shop SET ALIAS TO other")
    for sql in (
        "ATTACH ':memory:' AS b1",
        "CREATE TABLE b1.t(id INT, w VARCHAR); CREATE SCHEMA b2",
        "ALTER DATABASE b1 SET ALIAS TO b2",
        "INSERT INTO b2.main.t VALUES (1, 'b2')",
        "INSERT INTO b2.t VALUES (1, 'b2')",
        "INSERT INTO b1.t VALUES (1, 'b1')",
    ):
        pair.both(sql)
    pair.tables.append("b2.main.t")
    pair.compare("renamed")


@pytest.mark.parametrize("pair", ["alone"], indirect=True)
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ALTER w TYPE TEXT USING 'y'",
        "ALTER TABLE temp.t ALTER w SET DEFAULT 'x'",
        "ALTER TABLE main.t RENAME TO other",
        "DROP TABLE t CASCADE",
        "COMMENT ON TABLE t IS 'told'",
        "ALTER VIEW pv RENAME TO other",
        "DROP VIEW pv",
    ],
)
def test_ddl_of_what_is_temporary_concerns_no_view(pair: Pair, statement: str) -> None:
    # The views' texts have the same names, and were taken to be concerned.
    pair.both("CREATE VIEW pv AS FROM shop.main.t")
    pair.ours.execute("CREATE MATERIALIZED VIEW over AS SELECT id, w FROM pv")
    pair.both("INSERT INTO shop.main.t VALUES (1, 'kept')")
    pair.both("CREATE TEMP TABLE IF NOT EXISTS t (id INT, w VARCHAR)")
    pair.both("CREATE TEMP VIEW pv AS SELECT 1 AS id, 'temporary' AS w")
    pair.tables = [name for name in pair.tables if not name.startswith("temp.")]
    assert pair.both(statement)
    pair.compare(statement)
    assert pair.ours.execute("FROM over").fetchall() == [(1, "kept")]
    assert pair.both("INSERT INTO shop.main.t VALUES (2, 'later')")
    pair.compare(statement)


@pytest.mark.parametrize("name", ["_ivm.v", "_IVM.v", "memory._ivm.v"])
def test_no_view_is_made_among_the_databases_own_records(name: str) -> None:
    with ivm.connect() as db, pytest.raises(UnsupportedError, match="database's own records"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS a")

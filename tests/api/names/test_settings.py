"""A view means the same in every session, whatever is set, and wherever the file is opened."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import ivm
from ivm import errors
from tests.support.view_oracle import assert_verified

ZONED = "SELECT id, local::TIMESTAMPTZ AS instant, instant::DATE AS day FROM events"
EVENTS = "CREATE TABLE events (id INTEGER PRIMARY KEY, local TIMESTAMP, instant TIMESTAMPTZ)"
ROW = "(?, TIMESTAMP '2026-01-01 00:00:00', TIMESTAMPTZ '2026-01-01 00:30:00+00')"
RECOMPUTED = "SELECT current_user AS who, local::TIMESTAMPTZ AS instant FROM events"


def add(db: ivm.Database, number: int) -> None:
    db.execute(f"INSERT INTO events VALUES {ROW}", [number])


def zone(db: ivm.Database) -> str:
    return str(db.execute("SELECT current_setting('TimeZone')").fetchall()[0][0])


def instants(db: ivm.Database, view: str) -> set[int]:
    return {n for (n,) in db.execute(f"SELECT epoch_ms(instant) FROM {view}").fetchall()}


@pytest.mark.full
@pytest.mark.parametrize("query", [ZONED, RECOMPUTED])
def test_a_sessions_zone_does_not_reach_the_views(query: str) -> None:
    with ivm.connect() as db:
        db.execute(EVENTS)
        add(db, 1)
        db.execute(f"CREATE MATERIALIZED VIEW before AS {query}")
        home = instants(db, "before")
        db.execute("SET TimeZone = 'Pacific/Apia'")
        add(db, 2)
        db.execute(f"CREATE MATERIALIZED VIEW after AS {query}")
        with db.transaction():
            db.execute("INSERT INTO events SELECT 3, local, instant FROM events WHERE id = 1")
            assert instants(db, "before") == instants(db, "after") == home
        db.execute("ALTER TABLE events ADD COLUMN note VARCHAR")
        assert instants(db, "before") == instants(db, "after") == home
        assert_verified(db)
        assert zone(db) == "Pacific/Apia"


@pytest.mark.full
def test_a_session_keeps_its_zone_after_a_statement_that_failed() -> None:
    with ivm.connect() as db:
        db.execute(EVENTS)
        db.execute(
            "CREATE MATERIALIZED VIEW v AS "
            "SELECT current_user AS who, 1 // (id - 5) AS x, local::TIMESTAMPTZ AS i FROM events"
        )
        db.execute("SET TimeZone = 'Pacific/Apia'")
        db.execute("BEGIN")
        db.execute("INSERT INTO events (id) SELECT 5")
        with pytest.raises(errors.IvmError, match=r"(?i)division by zero"):
            db.execute("FROM v").fetchall()
        db.execute("ROLLBACK")
        assert zone(db) == "Pacific/Apia"


def test_times_without_a_zone_are_the_sessions() -> None:
    naive = dt.datetime(2026, 1, 1)
    aware = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, instant TIMESTAMPTZ)")
        db.execute("SET TimeZone = 'America/New_York'")
        db.insert("t", {"id": [1, 2, 3], "instant": [naive, None, naive]})
        db.insert("t", [{"id": 4, "instant": aware}])
        db.insert("t", pa.table({"id": [5], "instant": [naive]}))
        db.insert("t", pa.table({"id": [6], "instant": [aware]}))
        db.execute("INSERT INTO t VALUES (7, ?)", [naive])
        found = db.execute("SELECT id FROM t WHERE epoch_ms(instant) = 1767243600000")
        assert {row[0] for row in found.fetchall()} == {1, 3, 5, 7}
        found = db.execute("SELECT id FROM t WHERE epoch_ms(instant) = 1767225600000")
        assert {row[0] for row in found.fetchall()} == {4, 6}


_OPEN = """
import sys, ivm
with ivm.connect(sys.argv[1]) as db:
    for statement in sys.argv[2:]:
        result = db.execute(statement)
    print(result.fetchall())
"""


def elsewhere(zone: str, file: Path, *statements: str) -> str:
    """What the statements print in a process that lives in a time zone."""
    command = [sys.executable, "-c", _OPEN, str(file), *statements]
    environment = {**os.environ, "TZ": zone}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.full(smoke=1)
def test_a_file_keeps_its_zone_in_other_places(tmp_path: Path) -> None:
    file = tmp_path / "events.duckdb"
    row = ROW.replace("?", "{}")
    elsewhere(
        "Europe/Berlin",
        file,
        EVENTS,
        f"INSERT INTO events VALUES {row.format(1)}",
        f"CREATE MATERIALIZED VIEW v AS {ZONED}",
    )
    told = elsewhere(
        "Asia/Tokyo",
        file,
        f"INSERT INTO events VALUES {row.format(2)}",
        "SELECT count(DISTINCT (instant, day)), current_setting('TimeZone') FROM v",
    )
    assert told == "[(1, 'Europe/Berlin')]"
    assert "True" in elsewhere("UTC", file, "VERIFY MATERIALIZED VIEW v")


INSTANTS = [
    "dayname(to_timestamp(0))",
    "to_timestamp(0)::DATE",
    "hour(make_timestamptz(0))",
    "(TIMESTAMP '2024-01-01' AT TIME ZONE 'UTC')::DATE",
    "strptime('1970-01-01 00:00:00+00', '%Y-%m-%d %H:%M:%S%z')::DATE",
    "CASE WHEN to_timestamp(0) < DATE '1970-01-01' THEN 'before' ELSE 'after' END",
]


@pytest.mark.full
def test_constant_instants_are_told_in_the_zone_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "events.duckdb"
    listed = ", ".join(f"{value} AS v{i}" for i, value in enumerate(INSTANTS))
    row = ROW.replace("?", "{}")
    elsewhere(
        "Pacific/Honolulu",
        file,
        EVENTS,
        f"INSERT INTO events VALUES {row.format(1)}",
        f"CREATE MATERIALIZED VIEW v AS SELECT id, {listed} FROM events",
    )
    insert = f"INSERT INTO events VALUES {row.format(2)}"
    assert elsewhere(
        "UTC", file, insert, "SELECT count(DISTINCT COLUMNS(* EXCLUDE id)) FROM v"
    ) == ("[(1, 1, 1, 1, 1, 1)]")
    assert "True" in elsewhere("Asia/Tokyo", file, "VERIFY MATERIALIZED VIEW v")


@pytest.mark.full
@pytest.mark.parametrize(
    ("statement", "way_out"),
    [
        ("SET integer_division = true", "//"),
        ("SET GLOBAL default_null_order = 'nulls_first'", "NULLS FIRST"),
        ("PRAGMA default_collation = NOCASE", "COLLATE"),
        ("SET SESSION scalar_subquery_error_on_multiple_rows = false", "LIMIT 1"),
        ("SET old_implicit_casting = true", "casts"),
        ("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'", "lambda x"),
        ("SET search_path = 'other'", "schema"),
        ("SET preserve_identifier_case = false", "AS"),
        ("SET dialect_compatibility_mode = 'spark'", "DuckDB"),
        ("PRAGMA current_dialect = 'x'", "DuckDB"),
        ("USE other", "schema"),
        ("SET GLOBAL TimeZone = 'UTC'", "session alone"),
        ("RESET GLOBAL TimeZone", "session alone"),
    ],
)
def test_what_would_change_the_views_meaning_is_refused(statement: str, way_out: str) -> None:
    with (
        ivm.connect() as db,
        pytest.raises(errors.UnsupportedError, match=f"would change what .*{way_out}"),
    ):
        db.execute(statement)


@pytest.mark.full
@pytest.mark.parametrize(
    "statement",
    [
        "SET lock_configuration = true",
        "RESET GLOBAL wal_autocheckpoint",
        "SET checkpoint_threshold = '1KB'",
        "SET auto_checkpoint_skip_wal_threshold = 1",
        "SET fsync_mode = 'NONE'",
        "SET storage_compatibility_version = 'v1.2.0'",
        "PRAGMA storage_compatibility_version = 'v1.2.0'",
        'SET "Arrow_Lossless_Conversion" TO false',
        "SET preserve_insertion_order = false",
        "SET max_execution_time = 1",
        "SET max_expression_depth = 10",
        "SET disabled_filesystems = 'LocalFileSystem'",
        "SET current_transaction_invalidation_policy = 'STANDARD_POLICY'",
        "PRAGMA force_checkpoint",
        "PRAGMA enable_checkpoint_on_shutdown",
        "ATTACH ':memory:' AS _ivm",
        "ATTACH IF NOT EXISTS 'somewhere/_IVM.duckdb'",
    ],
)
def test_what_the_database_stands_on_is_refused(statement: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(errors.UnsupportedError, match="cannot be"):
            db.execute(statement)
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("UPDATE t SET a = a + 1")
        assert db.execute("FROM t").fetchall() == [(2,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SET TimeZone = 'UTC'",
        "SET TIME ZONE 'UTC'",
        "RESET TimeZone",
        "RESET integer_division",
        "SET VARIABLE schema = 'x'",
        "SET threads = 1",
        "SET memory_limit = '500MB'",
        "SET enable_external_access = false",
        "SET disabled_optimizers = 'filter_pushdown'",
        "SET VARIABLE lock_configuration = true",
        "ATTACH ':memory:' AS ivm",
    ],
)
def test_other_settings_are_the_sessions_own(statement: str) -> None:
    with ivm.connect() as db:
        db.execute(statement)


_FORGET = """
import ivm, sys
def use(statement):
    db = ivm.connect(sys.argv[1])
    db.execute("BEGIN")
    db.execute("INSERT INTO t SELECT 99")  # never committed
    return ivm.connect(sys.argv[2]).execute(statement)
ivm.connect(sys.argv[1]).execute("CREATE TABLE t (a INTEGER)")
ivm.connect(sys.argv[1]).insert("t", {"a": [1, 2]})
use("SELECT 1")
print(ivm.connect(sys.argv[1]).execute("FROM t ORDER BY a").fetchall())
db = ivm.connect(sys.argv[1])
try:
    db.execute("CREATE MATERIALIZED VIEW v AS FROM nothing")
except ivm.IvmError:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
"""


@pytest.mark.full
def test_a_database_that_was_not_closed_can_be_opened_again(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        _FORGET,
        str(tmp_path / "a.duckdb"),
        str(tmp_path / "b.duckdb"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[(1,), (2,)]", "")

"""A statement tells one time, wherever its parts are computed: in SET, a source, a default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm import errors
from tests.support.duckdb_twin import watched
from tests.support.view_oracle import assert_verified

SETUP = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a TIMESTAMPTZ, b TIMESTAMPTZ,
                c TIMESTAMPTZ DEFAULT current_timestamp, n INTEGER DEFAULT 0);
CREATE TABLE plain (id INTEGER PRIMARY KEY, a TIMESTAMPTZ, b TIMESTAMPTZ, c TIMESTAMPTZ, n INTEGER);
CREATE VIEW told AS SELECT 1 AS k, now() AS m;
CREATE MACRO moment() AS now();
CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS rows, max(a) AS a FROM t GROUP BY n;
INSERT INTO t SELECT i, TIMESTAMPTZ '2020-01-01', TIMESTAMPTZ '2021-01-01', NULL, 0
    FROM range(3) r(i);
INSERT INTO plain FROM t;
"""
FAST = [
    "UPDATE t SET a = now(), b = now(), c = current_timestamp WHERE id = 1",
    "UPDATE t SET a = now(), b = transaction_timestamp(), c = now() WHERE n + 0 = 0",
    "UPDATE t SET a = now(), b = a + (now() - a), c = now() WHERE id IN (1, 2)",
    "UPDATE t SET a = m, b = now(), c = m FROM (SELECT 1 AS k, now() AS m) AS s WHERE id = k",
    "MERGE INTO t USING (SELECT 1 AS k, now() AS m) AS s ON id = k "
    "WHEN MATCHED THEN UPDATE SET a = m, b = now(), c = now()",
    "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = now(), b = now(), "
    "c = excluded.c",
    "INSERT INTO t (id, a) VALUES (7, NULL), (1, NULL) ON CONFLICT (id) DO UPDATE SET a = now(), "
    "b = now(), c = excluded.c",
    "INSERT INTO plain (id, a, b) VALUES (1, now(), now()) ON CONFLICT (id) DO UPDATE SET "
    "a = now(), b = excluded.b, c = excluded.a",
    "INSERT INTO plain (id, a, b, c) SELECT 1, now(), now(), now() ON CONFLICT (id) DO UPDATE SET "
    "a = now(), b = now(), c = excluded.a",
]
OTHERS = [
    "INSERT INTO t (id, a, b) SELECT 8, now(), now()",
    "INSERT INTO t (id, a, b) VALUES (8, now(), now())",
    "INSERT INTO t (id, a, b) VALUES (1, now(), now()) ON CONFLICT (id) DO UPDATE SET "
    "a = excluded.b, b = now(), c = excluded.c",
    "UPDATE t SET a = m, b = now(), c = m FROM told WHERE id = k",
    "INSERT INTO t (id, a, b, c) SELECT 8, m, m, m FROM told",
    "UPDATE t SET a = m, b = now(), c = m FROM (SELECT 1 AS k, moment() AS m) AS s WHERE id = k",
    "MERGE INTO t USING told ON id = k WHEN MATCHED THEN UPDATE SET a = m, b = now(), c = now()",
    "MERGE INTO t USING (SELECT 8 AS k, now() AS m) AS s ON id = k "
    "WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (k, m, now())",
    "UPDATE t SET a = now(), b = now(), c = now() WHERE id < (SELECT 2) AND a < now()",
]


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(SETUP)
        yield opened


def demand_one_time(db: ivm.Database, sql: str) -> None:
    """Runs a statement that changes rows, which have what it tells in `a`, `b` and `c`."""
    table = "plain" if " plain " in sql else "t"
    for _ in range(3):
        db.execute(sql)
        found = db.execute(
            f"SELECT a = b, a IS NOT DISTINCT FROM coalesce(c, a), now() - a < INTERVAL 1 MINUTE "
            f"FROM {table} WHERE year(a) > 2024"
        ).fetchall()
        assert set(found) == {(True, True, True)}
        db.execute(f"DELETE FROM {table} WHERE id > 6")
    assert_verified(db)


@pytest.mark.parametrize("sql", FAST)
def test_it_is_one_on_the_fast_path(db: ivm.Database, sql: str) -> None:
    with watched() as seen:
        demand_one_time(db, sql)
    assert seen == []


@pytest.mark.full
@pytest.mark.parametrize("sql", OTHERS)
def test_it_is_one_whichever_way_is_taken(db: ivm.Database, sql: str) -> None:
    demand_one_time(db, sql)


@pytest.mark.full
def test_a_source_has_the_rows_that_wait_to_be_flushed(db: ivm.Database) -> None:
    """DuckDB's transaction, which begins to tell the time, sees what is flushed afterwards."""
    for number in range(10, 13):
        db.execute("INSERT INTO plain (id, n) VALUES (?, ?)", [number, number])
        db.execute("INSERT INTO t (id) VALUES (?)", [number])
        with watched() as seen:
            changed = db.execute(
                "UPDATE t SET a = m, b = now(), c = now(), n = s.n "
                "FROM (SELECT id AS k, n, now() AS m FROM plain) AS s WHERE id = k"
            )
        assert seen == []
        assert changed.rowcount == number - 6
        assert db.execute("SELECT n, a = b FROM t WHERE id = ?", [number]).fetchall() == [
            (number, True)
        ]
    assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("sql", [*FAST, *OTHERS])
def test_a_transaction_tells_one_time(db: ivm.Database, sql: str, first: bool) -> None:
    """Whatever stands before and behind, and after it has been rolled back."""
    other = "UPDATE plain SET a = now(), b = now(), c = now() WHERE id = 2"
    for end in ("ROLLBACK", "COMMIT"):
        for statement in ("BEGIN", *([other, sql] if first else [sql, other]), end):
            db.execute(statement)
    times = "SELECT a FROM t WHERE year(a) > 2024 UNION SELECT a FROM plain WHERE year(a) > 2024"
    assert len(db.execute(times).fetchall()) == 1
    assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = now(), b = CAST('x' || now() AS TIMESTAMPTZ) WHERE id = 1",
        "UPDATE t SET a = now(), b = now(), n = CAST('x' || id AS INTEGER) WHERE id = 1",
        "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET "
        "b = CAST('x' || now() AS TIMESTAMPTZ)",
        "UPDATE t SET a = now(), b = error('no: ' || now()) FROM (SELECT 1 AS k) AS s WHERE id = k",
    ],
)
def test_an_error_leaves_nothing_behind(db: ivm.Database, sql: str) -> None:
    before = db.execute("FROM t ORDER BY id").fetchall()
    for _ in range(2):
        with pytest.raises(errors.IvmError):
            db.execute(sql)
        assert db.execute("FROM t ORDER BY id").fetchall() == before
    demand_one_time(db, FAST[0])
    db.execute("BEGIN")  # no transaction is left open
    db.execute("COMMIT")


@pytest.mark.full
def test_it_is_what_is_stored(tmp_path: Path) -> None:
    """A crash does not tell it anew."""
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute(SETUP)
        for sql in FAST:
            db.execute(sql)
        stored = db.execute("FROM t ORDER BY id").fetchall()
    with ivm.connect(tmp_path / "x.duckdb") as db:
        assert db.execute("FROM t ORDER BY id").fetchall() == stored
        assert_verified(db)

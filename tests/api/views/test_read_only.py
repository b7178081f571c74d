"""READ ONLY transactions: their queries see one epoch, and hold up nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ivm
from ivm import errors
from ivm.connection import Cursor

READ_ONLY = "BEGIN TRANSACTION READ ONLY"
VIEWS = {
    "sums": "SELECT b, sum(a) AS s FROM t GROUP BY b",
    "above": "SELECT count(*) AS n FROM sums",
    "recomputed": "SELECT approx_count_distinct(a) AS n FROM t",
    "casts": "SELECT a, c::INTEGER AS c FROM t",
}


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c VARCHAR)")
        db.execute("INSERT INTO t VALUES (1, 1, '1'), (2, 1, '2'), (3, 2, '3')")
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield db


@pytest.fixture
def reader(db: ivm.Database) -> Iterator[Cursor]:
    with db.cursor() as cursor:
        yield cursor


def seen(reader: Cursor | ivm.Database) -> dict[str, list[tuple[Any, ...]]]:
    return {n: sorted(reader.execute(f"FROM {n}").fetchall()) for n in ("t", *VIEWS)}


CHANGES = [
    "UPDATE t SET b = 7",
    "INSERT INTO t VALUES (4, 4, '4')",
    "INSERT INTO t SELECT a + 10, b, c FROM t",
    "DELETE FROM t WHERE a = 1",
    "ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 5",
    "CREATE TABLE u (a INTEGER)",
    "DROP MATERIALIZED VIEW above",
    "CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT 1 AS b, 2 AS s",
    "BEGIN; DELETE FROM t; COMMIT",
]


@pytest.mark.full
def test_its_queries_see_one_epoch_while_others_write(db: ivm.Database, reader: Cursor) -> None:
    db.execute("INSERT INTO t VALUES (0, 0, '0')")  # pending, and a view is stale
    before = seen(db)
    db.execute("UPDATE t SET b = b + 1; UPDATE t SET b = b - 1")
    reader.execute(READ_ONLY)
    assert reader.execute("SELECT count(*) FROM t WHERE a = 1").fetchall() == [(1,)]
    for change in CHANGES:
        db.execute(change)
        assert seen(reader) == before, change
    reader.execute("COMMIT")
    assert reader.execute("FROM t").fetchall() == []


def test_it_waits_for_no_writer(db: ivm.Database, reader: Cursor) -> None:
    before = seen(db)
    db.execute("BEGIN; CREATE TABLE u (a INTEGER); INSERT INTO t VALUES (9, 9, '9')")
    reader.execute(READ_ONLY)
    assert seen(reader) == before
    db.execute("COMMIT")
    assert seen(reader) == before
    reader.execute("ROLLBACK")
    assert len(reader.execute("FROM t").fetchall()) == 4


@pytest.mark.full
def test_views_are_broken_as_of_its_epoch(db: ivm.Database, reader: Cursor) -> None:
    reader.execute(READ_ONLY)
    before = seen(reader)
    db.ingest("t", [{"op": "insert", "a": 5, "b": 5, "c": "none"}], format="json")
    with pytest.raises(errors.EvaluationError):
        db.execute("FROM casts")
    assert seen(reader) == before
    reader.execute("COMMIT")
    reader.execute(f"{READ_ONLY}; FROM sums")
    db.execute("DELETE FROM t WHERE a = 5; REFRESH MATERIALIZED VIEW casts")
    assert len(db.execute("FROM casts").fetchall()) == 3
    with pytest.raises(errors.EvaluationError, match="casts"):
        reader.execute("FROM casts")


REFUSED = [
    "INSERT INTO t VALUES (8, 8, '8')",
    "INSERT INTO t SELECT a + 20, b, c FROM t",
    "UPDATE t SET b = 0 WHERE a = 1",
    "UPDATE t SET b = 0",
    "DELETE FROM t RETURNING a",
    "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "TRUNCATE t",
    "WITH x AS (DELETE FROM t RETURNING a) FROM x",
    "COPY t FROM 'nothing.csv'",
    "CREATE TABLE u AS FROM t",
    "CREATE INDEX i ON t (b)",
    "DROP TABLE t",
    "ALTER TABLE t ADD COLUMN d INTEGER",
    "CREATE MATERIALIZED VIEW w AS FROM t",
    "REFRESH MATERIALIZED VIEW casts",
    "DROP MATERIALIZED VIEW above",
    "PAUSE SOURCE s",
]


@pytest.mark.full
@pytest.mark.parametrize("statement", REFUSED)
def test_changes_are_refused(db: ivm.Database, reader: Cursor, statement: str) -> None:
    before = seen(db)
    reader.execute(READ_ONLY)
    with pytest.raises(errors.IvmError):
        reader.execute(statement)
    with pytest.raises(errors.UnavailableError, match="rolled back because"):
        reader.execute("FROM t")
    with pytest.raises(errors.UnavailableError, match="rolled back because"):
        reader.execute("COMMIT")
    assert seen(reader) == before


@pytest.mark.full
@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.insert("t", {"a": [8], "b": [8]}),
        lambda db: db.upsert("t", {"a": [1], "b": [8]}),
        lambda db: db.delete("t", {"a": [1]}),
        lambda db: db.executemany("INSERT INTO t VALUES (?, ?, ?)", [[8, 8, "8"], [9, 9, "9"]]),
        lambda db: db.ingest("t", [{"op": "insert", "a": 5}], format="json"),
        lambda db: db.subscribe("sums"),
        lambda db: db.begin(),
    ],
)
def test_calls_that_change_are_refused(
    db: ivm.Database, call: Callable[[ivm.Database], object]
) -> None:
    before = seen(db)
    db.execute(READ_ONLY)
    with pytest.raises((errors.UnavailableError, errors.InputError)):
        call(db)
    db.execute("ROLLBACK")
    assert seen(db) == before


@pytest.mark.full
def test_temporary_tables_are_its_own(reader: Cursor) -> None:
    reader.execute(f"{READ_ONLY}; CREATE TEMP TABLE x AS SELECT a FROM t")
    reader.execute("INSERT INTO x VALUES (7); UPDATE x SET a = a + 1 WHERE a = 7; FROM t")
    reader.execute("COMMIT")
    assert sorted(reader.execute("FROM x").fetchall()) == [(1,), (2,), (3,), (8,)]


@pytest.mark.full
def test_a_closed_reader_leaves_no_snapshot(db: ivm.Database, reader: Cursor) -> None:
    reader.execute(READ_ONLY).execute("FROM t")
    reader.close()
    assert db._engine.warehouse.checkpoint()
    assert not db._engine.writer_lock.held

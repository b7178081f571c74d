"""A base table that is read by its key gives DuckDB's rows, inside and outside of transactions."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.engine.tables import key_indexes
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_reads_from_state import oracle
from tests.tiers import examples


def read(db: ivm.Database, text: str, params: Any = None) -> ivm.Result:
    """The result of the fourth execution, which nothing but memory should give."""
    for _ in range(3):
        db.execute(text, params).fetchall()
    return db.execute(text, params)


@pytest.mark.full
@pytest.mark.parametrize("key", ["INTEGER", "VARCHAR", "DATE"])
def test_a_row_by_its_key(key: str) -> None:
    """Between changes of every kind, with and without views on the table."""
    step = s.tuples(
        s.sampled_from(["insert", "update", "delete", "native", "move"]), s.integers(0, 5)
    )
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (a {key}, b INTEGER, c VARCHAR, PRIMARY KEY (a, b))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
        texts = (
            "SELECT * FROM t WHERE a = ? AND b = ?",
            "SELECT c || '!' AS c FROM t WHERE b = $2 AND a = $1 AND c <> 'x'",
        )
        values: list[Any] = {
            "INTEGER": list[Any]([0, 1, 2**31]),
            "VARCHAR": ["", "é", "1"],
            "DATE": ["2024-01-01", "2024-01-02", "2024-01-03"],
        }[key]

        @settings(max_examples=examples(25), deadline=None)
        @given(steps=s.lists(step, max_size=6), a=s.sampled_from(values), together=s.booleans())
        def changed(steps: list[tuple[str, int]], a: Any, together: bool) -> None:
            if together:
                db.execute("BEGIN")
            for kind, b in steps:
                where = f"a = CAST('{a}' AS {key}) AND b = {b}"
                if a == 2**31:
                    continue
                if kind == "insert":
                    db.execute(f"DELETE FROM t WHERE {where}")
                    db.execute("INSERT INTO t VALUES (?, ?, 'new')", [a, b])
                elif kind == "update":
                    db.execute(f"UPDATE t SET c = c || 'x' WHERE {where}")
                elif kind == "delete":
                    db.execute(f"DELETE FROM t WHERE {where}")
                elif kind == "native":
                    db.execute("UPDATE t SET c = 'x' WHERE b < 3")
                else:
                    db.execute("DELETE FROM t WHERE b > 4")
                for text in texts:
                    found = Counter(db.execute(text, [a, b]).fetchall())
                    wanted = Counter(
                        db.execute(f"SELECT random() AS r, * FROM ({text})", [a, b]).fetchall()
                    )
                    assert found == Counter(tuple(row[1:]) for row in wanted.elements())
            if together:
                db.execute("COMMIT")
            for text in texts:
                for b in range(6):
                    found = Counter(db.execute(text, [a, b]).fetchall())
                    assert found == Counter(oracle(db, text, [a, b]).fetchall())

        changed()


@pytest.mark.full
def test_it_comes_from_memory(tmp_path: Path) -> None:
    text = "SELECT c FROM t WHERE k = ?"
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, c VARCHAR)")
        db.execute("INSERT INTO t SELECT i, 'c' || i FROM range(1000) r(i)")
        assert isinstance(read(db, text, [7]), StateResult)
        db.execute("UPDATE t SET c = 'new' WHERE k = 7")
        assert db.execute(text, [7]).fetchall() == [("new",)]
        with db.transaction():
            assert isinstance(db.execute(text, [7]), StateResult)
            db.execute("UPDATE t SET c = 'newer' WHERE k = 7")
            result = db.execute(text, [7])
            assert isinstance(result, StateResult)
            assert result.fetchall() == [("newer",)]
            assert not db._session().transaction.in_duckdb  # type: ignore[union-attr]
            db.execute("UPDATE t SET c = c || '!' WHERE k < 9")
            assert db.execute(text, [7]).fetchall() == [("newer!",)]
        db.execute("BEGIN")
        db.execute("UPDATE t SET c = 'lost' WHERE k = 7")
        assert db.execute(text, [7]).fetchall() == [("lost",)]
        with pytest.raises(ivm.errors.ConstraintError):
            db.execute("INSERT INTO t VALUES (7, 'twice')")
        db.execute("ROLLBACK")
        result = db.execute(text, [7])
        assert isinstance(result, StateResult)
        assert result.fetchall() == [("newer!",)]
        db.execute("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 5")
        assert read(db, "SELECT d FROM t WHERE k = ?", [7]).fetchall() == [(5,)]
        db.execute("DROP TABLE t")
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, c INTEGER)")
        assert read(db, text, [7]).fetchall() == []


@pytest.mark.full
def test_others_do_not_see_what_is_not_committed() -> None:
    text = "SELECT c FROM t WHERE k = 1"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, c INTEGER)")
        db.execute("INSERT INTO t VALUES (1, 0)")
        assert isinstance(read(db, text), StateResult)
        seen: list[Any] = []

        def look() -> None:
            result = db.execute(text)
            seen.append((type(result), result.fetchall()))

        with db.transaction():
            db.execute("UPDATE t SET c = 1 WHERE k = 1")
            other = threading.Thread(target=look)
            other.start()
            other.join()
        assert seen == [(StateResult, [(0,)])]
        assert db.execute(text).fetchall() == [(1,)]


@pytest.mark.full
def test_the_index_of_a_large_table_is_built_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_indexes, "LARGE", 100)
    text = "SELECT c FROM t WHERE k = ?"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, c INTEGER)")
        db.execute("INSERT INTO t SELECT i, i FROM range(50000) r(i)")
        kinds = set()
        for n in range(2000):
            db.execute("UPDATE t SET c = ? WHERE k = 7", [n])
            result = db.execute(text, [7])
            kinds.add(type(result))
            assert result.fetchall() == [(n,)]
            if StateResult in kinds and n > 20:
                break
        assert StateResult in kinds


@pytest.mark.full
@settings(max_examples=examples(20), deadline=None)
@given(
    steps=s.lists(
        s.tuples(s.sampled_from(["insert", "update", "delete", "native"]), s.integers(0, 9)),
        max_size=6,
    ),
    together=s.booleans(),
)
def test_rows_by_an_index_of_the_user(steps: list[tuple[str, int]], together: bool) -> None:
    """Several rows under a key, and none, between changes inside and outside of transactions."""
    text = "SELECT id, s FROM t WHERE n = ?"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s VARCHAR)")
        db.execute("INSERT INTO t SELECT i, i % 4, 's' || i FROM range(20) r(i)")
        db.execute("CREATE INDEX by_n ON t (n)")
        assert isinstance(read(db, text, [1]), StateResult)
        if together:
            db.execute("BEGIN")
        for kind, number in steps:
            if kind == "insert":
                db.execute("INSERT OR REPLACE INTO t VALUES (?, ?, 'new')", [number, number % 5])
            elif kind == "update":
                db.execute("UPDATE t SET n = n + 1, s = 'up' WHERE id = ?", [number])
            elif kind == "delete":
                db.execute("DELETE FROM t WHERE id = ?", [number])
            else:
                db.execute("UPDATE t SET n = 2 WHERE id % 7 = ?", [number % 7])
            for n in range(6):
                found = Counter(db.execute(text, [n]).fetchall())
                plain = db.execute("SELECT id, s, random() FROM t WHERE n = ?", [n]).fetchall()
                assert found == Counter([row[:2] for row in plain])
        if together:
            db.execute("COMMIT")
        for n in range(6):
            result = db.execute(text, [n])
            assert Counter(result.fetchall()) == Counter(oracle(db, text, [n]).fetchall())
        db.execute("DROP INDEX by_n")
        assert not isinstance(read(db, text, [1]), StateResult)


AGGREGATES = [
    "SELECT count(*) AS n, sum(n) AS s, min(s) AS a, max(id) AS z FROM t WHERE n = ?",
    "SELECT s, count(*) AS c FROM t WHERE n = ? GROUP BY s HAVING count(*) < 3 ORDER BY s",
    "SELECT DISTINCT s FROM t WHERE n = ?",
    "SELECT count(*) FILTER (WHERE s > 's2') AS c FROM t WHERE n = ? AND id > 2",
    "SELECT x + 1 AS x FROM (SELECT count(*) AS x FROM t WHERE n = ?) WHERE x > 1",
    "SELECT max(s) AS s FROM t WHERE id = ?",
    "SELECT count(s) AS c FROM t WHERE id BETWEEN ? AND 9",
]


@pytest.mark.full
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
@pytest.mark.parametrize("text", AGGREGATES)
def test_what_is_computed_of_rows_by_an_index(text: str, key: str) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER {key}, n INTEGER, s VARCHAR)")
        db.execute("INSERT INTO t SELECT i, i % 4, 's' || i % 5 FROM range(20) r(i)")
        if not key:
            db.execute("INSERT INTO t FROM t WHERE id < 7")
            db.execute("CREATE INDEX by_id ON t (id)")
        db.execute("CREATE INDEX by_n ON t (n)")
        assert isinstance(read(db, text, [1]), StateResult)
        for change in (
            "UPDATE t SET n = 3 WHERE id = 5",
            "DELETE FROM t WHERE n = 2",
            "INSERT INTO t VALUES (100, 1, NULL)",
            "UPDATE t SET n = NULL WHERE n = 1",
        ):
            db.execute(change)
            for n in (1, 2, 3, 100, 7):
                result = db.execute(text, [n])
                assert isinstance(result, StateResult)
                assert Counter(result.fetchall()) == Counter(oracle(db, text, [n]).fetchall())


def test_keys_with_very_many_rows_are_left_to_duckdb() -> None:
    text = "SELECT count(*) AS n FROM t WHERE n = ?"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("INSERT INTO t SELECT i, i // 30000 FROM range(30010) r(i)")
        db.execute("CREATE INDEX by_n ON t (n)")
        assert isinstance(read(db, text, [1]), StateResult)
        result = db.execute(text, [0])
        assert not isinstance(result, StateResult)
        assert result.fetchall() == [(30000,)]
        ways = [db.execute(f"EXPLAIN {text}", [n]).fetchall()[-1][1] for n in (0, 1)]
        assert "it asks for more than 20,000 rows" in ways[0]
        assert ways[1] == "memory"


def test_what_is_computed_of_rows_of_a_large_view() -> None:
    text = "SELECT count(*) AS n, max(id) AS m FROM v WHERE n = ?"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("INSERT INTO t SELECT i, i % 5000 FROM range(30000) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, n FROM t WHERE id > 2")
        assert not isinstance(read(db, text, [1]), StateResult)
        db.execute("CREATE INDEX by_n ON v (n)")
        db.execute(text, [1]).fetchall()
        db.execute("INSERT INTO t VALUES (40000, 1)")
        for n in (1, 7, 9999):
            result = read(db, text, [n])
            assert isinstance(result, StateResult)
            assert result.fetchall() == oracle(db, text, [n]).fetchall()

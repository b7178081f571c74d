"""Joins of base tables are answered from memory, one table's keys by the rows of another's."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.engine.views.held_views import HeldViews
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_parameters_from_state import outcome
from tests.api.reads.test_reads_from_state import oracle
from tests.tiers import examples

TABLES = {
    "a": "k BIGINT PRIMARY KEY, i INTEGER, t TINYINT, x VARCHAR, d DOUBLE",
    "b": "k INTEGER PRIMARY KEY, i BIGINT, x VARCHAR, u UBIGINT",
    "c": "x VARCHAR, i BIGINT, d DOUBLE, n INTEGER, PRIMARY KEY (x, i)",
    "e": "i INTEGER, d DOUBLE, x VARCHAR",
}
INDEXES = ("b (i)", "e (i)", "e (d)", "a (x)")
INTEGERS = s.integers(0, 3)
TEXTS = s.sampled_from(["", "a", "b", "é"])
DOUBLES = s.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan")])


def _null(values: s.SearchStrategy[Any]) -> s.SearchStrategy[Any]:
    return values | s.none()


UNSIGNED = _null(s.integers(0, 3) | s.just(2**63))
ROWS = {
    "a": s.tuples(INTEGERS, *map(_null, (INTEGERS, INTEGERS, TEXTS, DOUBLES))),
    "b": s.tuples(INTEGERS, _null(INTEGERS | s.just(300)), _null(TEXTS), UNSIGNED),
    "c": s.tuples(TEXTS, INTEGERS, _null(DOUBLES), _null(INTEGERS)),
    "e": s.tuples(*map(_null, (INTEGERS, DOUBLES, TEXTS))),
}
FROM = [
    "{a} JOIN b ON b.k = a.i",
    "{a} JOIN b ON b.k = a.t",
    "{a}, b WHERE b.i = a.k AND a.k < 100",
    "{a} LEFT JOIN b ON b.k = a.i",
    "{a} LEFT JOIN b ON b.k = a.i AND b.x = a.x",
    "{a} RIGHT JOIN b ON b.k = a.i",
    "{a} FULL JOIN b ON b.k = a.i",
    "{a} JOIN b ON b.k = a.i AND b.u = a.t",
    "{a} JOIN b ON a.x = b.x",
    "{a} JOIN c ON c.x = a.x AND c.i = a.i",
    "{a} LEFT JOIN c ON c.x = a.x AND c.i = a.i AND c.d > 0",
    "{a} JOIN c ON c.x = a.x AND c.i = ?",
    "{a} JOIN c ON c.x IS NOT DISTINCT FROM a.x AND c.i = a.k",
    "{a} JOIN e ON e.d = a.d",
    "{a} LEFT JOIN e ON e.i = a.k",
    "{a} SEMI JOIN b ON b.k = a.i",
    "{a} ANTI JOIN b ON b.i = a.k",
    "{a} JOIN b ON b.k = a.i JOIN e ON e.i = b.k",
    "{a} LEFT JOIN b ON b.k = a.i LEFT JOIN e ON e.i = b.i",
    "{a} LEFT JOIN b ON b.k = a.i JOIN c ON c.x = b.x AND c.i = a.k",
    "{a} LEFT JOIN (b JOIN e ON e.i = b.k) ON b.k = a.i",
    "(SELECT k, i, max(x) AS x FROM a GROUP BY ALL) a JOIN b ON b.k = a.i",
    "{a} JOIN (SELECT i, count(*) AS n FROM e GROUP BY i) g ON g.i = a.k",
    "{a} JOIN (SELECT i, x, sum(n) OVER () AS n FROM c) g ON g.i = a.k AND g.x = a.x",
    "{a} JOIN (SELECT * FROM b ORDER BY k LIMIT 2) g ON g.k = a.i",
    "{a} JOIN (SELECT k, i FROM b UNION ALL SELECT i, i FROM e) g ON g.k = a.i",
    "{a} JOIN (SELECT DISTINCT k, i FROM b) g ON g.k = a.i",
    "{a} JOIN a q ON q.k = a.i",
    "{a} JOIN a q ON q.x = a.x",
    "{a} JOIN (VALUES (1, 'a'), (2, NULL), (1, 'a')) v(i, y) ON v.i = a.k",
    "b JOIN (VALUES (?, 1), (NULL, 2)) v(i, y) ON v.i = b.k LEFT JOIN a ON a.k = b.i",
    "b JOIN range(-1, 3) r(j) ON r.j = b.k",
    "b RIGHT JOIN {a} ON b.k = a.i",
    "b LEFT JOIN {a} ON b.k = a.i",
    "e JOIN {a} ON e.i IS NOT DISTINCT FROM a.i",
    "{a} LEFT JOIN e ON e.i IS NOT DISTINCT FROM a.i",
    "{a} JOIN b ON b.i::TINYINT = a.t",
    "b ANTI JOIN {a} ON b.k = a.i",
    "{a} JOIN v ON v.k = a.k",
    "v LEFT JOIN {a} ON a.k = v.k",
    "{a} LEFT JOIN v ON v.x = a.x JOIN b ON b.k = v.k",
    "{a} JOIN (SELECT e.i, b.x FROM e FULL JOIN b ON b.k = e.i) g ON g.i = a.i",
    "{a} LEFT JOIN (SELECT b.k AS j, b.i FROM a q LEFT JOIN b ON b.k = q.i) g ON g.j = a.i",
]
A = [
    "a",
    "(SELECT * FROM a WHERE k = ?) a",
    "(SELECT * FROM a WHERE k IN (?, 2)) a",
    "(SELECT * FROM a WHERE k BETWEEN 1 AND ?) a",
    "(SELECT * FROM a WHERE x = 'a') a",
]
WHERE = [
    "a.k = ?",
    "a.k IN (?, ?, 1)",
    "a.k IN (?, 300, -5) AND a.i < 2",
    "a.k BETWEEN ? AND ?",
    "a.x = 'a'",
    "a.x IN ('a', 'b') AND a.k = ?",
    "a.k = ? AND EXISTS (SELECT 1 FROM e WHERE e.i = a.k)",
    "a.k = ? AND NOT EXISTS (SELECT 1 FROM e WHERE e.i = a.k AND e.d > 0)",
    "a.k = ? AND a.i NOT IN (SELECT k FROM b)",
    "a.k = (SELECT i FROM c WHERE x = 'a' AND i = ?)",
    "a.k IN (SELECT i FROM c WHERE x = 'b' AND i = ?)",
    "b.k = ?",
    "b.k IN (1, 2, ?)",
    "true",
]
SHOWN = [
    "*",
    "a.k, (SELECT count(*) FROM e WHERE e.i = a.k) AS n",
    "count(*), min(a.x)",
    "a.k, (SELECT b.x FROM b WHERE b.k = a.i) AS x",
]


def _text(shown: str, source: str, a: str, where: str) -> str:
    source = source.format(a=a)
    joined = f"{source} AND {where}" if " WHERE " in source else f"{source} WHERE {where}"
    return f"SELECT {shown} FROM {joined}"


@pytest.fixture(scope="module")
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as db:
        for table, columns in TABLES.items():
            db.execute(f"CREATE TABLE {table} ({columns})")
        for number, index in enumerate(INDEXES):
            table, rest = index.split(" ", 1)
            db.execute(f"CREATE INDEX i{number} ON {table} {rest}")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a.k, b.x FROM a JOIN b ON b.k = a.i")
        for table, rows in {"a": 60, "b": 60, "c": 60, "e": 60}.items():
            filled = {
                "a": "1000 + i, i, i % 7, 'z' || i, i",
                "b": "1000 + i, i, 'z' || i, i",
                "c": "'z' || i, i, i, i",
                "e": "1000 + i, i, 'z' || i",
            }[table]
            db.execute(f"INSERT INTO {table} SELECT {filled} FROM range({rows}) r(i)")
        yield db


def _replace(db: ivm.Database, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    """Leaves these rows, and those of the fixture."""
    db.execute("DELETE FROM a WHERE k < 1000")
    db.execute("DELETE FROM b WHERE k < 1000")
    db.execute("DELETE FROM c WHERE x NOT LIKE 'z%'")
    db.execute("DELETE FROM e WHERE i < 1000 OR i IS NULL")
    for table, own in rows.items():
        verb = "INSERT" if table == "e" else "INSERT OR REPLACE"
        for row in own:
            marks = ", ".join("?" * len(row))
            db.execute(f"{verb} INTO {table} VALUES ({marks})", row)


def _check(db: ivm.Database, text: str, params: Sequence[Any]) -> bool:
    """Compares with DuckDB; returns whether the rows came from memory."""
    given = list(params[: text.count("?")])
    wanted = outcome(lambda: oracle(db, text, given).fetchall())
    for _ in range(3):
        found = outcome(lambda: db.execute(text, given).fetchall())
        assert isinstance(found, str) == isinstance(wanted, str), (text, given, found, wanted)
        assert isinstance(found, str) or found == wanted, (text, given)
    return not isinstance(wanted, str) and isinstance(db.execute(text, given), StateResult)


@settings(max_examples=examples(300), deadline=None)
@given(
    rows=s.fixed_dictionaries({name: s.lists(row, max_size=6) for name, row in ROWS.items()}),
    text=s.builds(_text, *map(s.sampled_from, (SHOWN, FROM, A, [*WHERE, *["true"] * 6]))),
    params=s.lists(INTEGERS, min_size=8, max_size=8),
    within=s.booleans(),
)
def test_random_joins(
    db: ivm.Database,
    rows: dict[str, list[tuple[Any, ...]]],
    text: str,
    params: list[int],
    within: bool,
) -> None:
    """Also within a transaction, of whose changes each table's index knows."""
    if within:
        db.execute("BEGIN")
    _replace(db, rows)
    if within:
        given = list(params[: text.count("?")])
        reads = [outcome(lambda: db.execute(text, given).fetchall()) for _ in range(3)]
        before = reads[-1]  # compiled
        db.execute("ROLLBACK" if isinstance(before, str) else "COMMIT")
        if isinstance(before, Counter):
            assert before == outcome(lambda: oracle(db, text, given).fetchall()), (text, given)
            _check(db, text, params)
        return
    _check(db, text, params)


FROM_MEMORY = [
    "SELECT * FROM a JOIN b ON b.k = a.i WHERE a.k = ?",
    "SELECT * FROM a JOIN b ON b.k = a.t WHERE a.k IN (?, ?, 5)",
    "SELECT * FROM a LEFT JOIN b ON b.k = a.i WHERE a.k BETWEEN ? AND ?",
    "SELECT * FROM a JOIN c ON c.x = a.x AND c.i = a.i WHERE a.k = ?",
    "SELECT * FROM a SEMI JOIN b ON b.k = a.i WHERE a.k = ?",
    "SELECT a.k, count(e.i) FROM a LEFT JOIN e ON e.i = a.k WHERE a.k = ? GROUP BY 1",
    "SELECT a.k, (SELECT count(*) FROM e WHERE e.i = a.k) AS n FROM a WHERE a.k = ?",
    "SELECT * FROM a JOIN b ON b.k = a.i JOIN e ON e.i = b.k WHERE a.k = ? ORDER BY e.x",
    "SELECT * FROM a WHERE k IN (SELECT i FROM c WHERE x = 'b' AND i = ?)",
    "SELECT * FROM a JOIN a q ON q.k = a.i AND q.d > 0 WHERE a.k = 2",
    "SELECT * FROM b JOIN (VALUES (?, 1), (?, 2)) v(i, y) ON v.i = b.k",
    "SELECT k FROM b WHERE b.k IN (?, 300)",
    "SELECT * FROM a JOIN v ON v.k = a.k WHERE a.k = ?",
    "SELECT v.x, b.i FROM v JOIN b ON b.k = v.k",
    "SELECT a.x, (SELECT count(*) FROM v WHERE v.k = a.k) AS n FROM a WHERE a.k = ?",
    "SELECT * FROM a JOIN a q ON q.x = a.x AND q.k <> a.k WHERE a.k = ?",
]
BY_DUCKDB = [
    "SELECT * FROM a JOIN b ON b.x = a.x WHERE a.k = ?",
    "SELECT * FROM a RIGHT JOIN b ON b.k = a.i WHERE a.k IS NULL",
    "SELECT * FROM a LEFT JOIN b ON b.k = a.i WHERE b.k = ? OR b.k IS NULL",
    "SELECT * FROM a FULL JOIN b ON b.k = a.i",
    "SELECT * FROM a JOIN (SELECT k FROM b ORDER BY k LIMIT 2) g ON g.k = a.i WHERE a.k = ?",
    "SELECT * FROM a JOIN v ON v.k = a.t WHERE a.d = 1.5",
    "SELECT * FROM a WHERE k NOT IN (?, 2)",
]


@pytest.mark.parametrize("text", FROM_MEMORY)
def test_these_are_from_memory(db: ivm.Database, text: str) -> None:
    rows: dict[str, list[tuple[Any, ...]]] = {
        "a": [(1, 2, 2, "a", 1.5), (2, 2, 2, "b", 0.0), (3, None, 1, None, None)],
        "b": [(2, 2, "a", 1), (1, 1, None, None)],
        "c": [("a", 2, 1.0, 1), ("b", 1, None, 2)],
        "e": [(1, 1.0, "x"), (1, 1.0, "x"), (2, None, None)],
    }
    _replace(db, rows)
    assert _check(db, text, [1, 2])
    db.execute("UPDATE a SET i = 1 WHERE k = 1")
    db.execute("DELETE FROM e WHERE i = 1")
    assert _check(db, text, [1, 2])


@pytest.mark.parametrize("text", BY_DUCKDB)
def test_these_are_not(db: ivm.Database, text: str) -> None:
    """A table's rows are needed that no key of the others names."""
    _replace(db, {"a": [(1, 2, 2, "a", 1.5), (5, 7, 2, "b", 0.0)], "b": [(2, 2, "a", 1)]})
    assert not _check(db, text, [1])


@pytest.mark.full
def test_a_join_sees_one_moment() -> None:
    """A row moves between two tables in each commit: a join of both finds it once."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE p (k INTEGER PRIMARY KEY, o INTEGER)")
        db.execute("CREATE TABLE q (k INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("INSERT INTO p VALUES (1, 0)")
        db.execute("INSERT INTO q SELECT i, i FROM range(50) r(i)")
        text = "SELECT p.o, q.n FROM p JOIN q ON q.k = p.o WHERE p.k = 1"
        for n in range(1, 50):
            with db.transaction():
                db.execute("UPDATE p SET o = ? WHERE k = 1", [n])
                assert db.execute(text).fetchall() == [(n, n)]
                db.execute("DELETE FROM q WHERE k = ?", [n - 1])
            assert db.execute(text).fetchall() == [(n, n)]
        assert isinstance(db.execute(text), StateResult)


@pytest.mark.full
@pytest.mark.parametrize(("commits", "from_memory"), [(0, True), (2, True), (9, False)])
def test_a_view_and_a_table_are_of_one_epoch(
    commits: int, from_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits come between the reading of the view and that of its table."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT k, sum(n) AS n FROM t GROUP BY k")
        db.execute("INSERT INTO t VALUES (1, 0)")
        text = "SELECT t.n - w.n FROM t JOIN w ON w.k = t.k WHERE t.k = 1"
        for _ in range(3):
            assert db.execute(text).fetchall() == [(0,)]
        whole, left = HeldViews.whole, iter(range(1, commits + 1))

        def and_commit(*args: Any) -> Any:
            rows = whole(*args)
            for n in itertools.islice(left, 1):
                update = f"UPDATE t SET n = {n} WHERE k = 1"
                writer = threading.Thread(target=db.execute, args=(update,))
                writer.start()
                writer.join()
            return rows

        monkeypatch.setattr(HeldViews, "whole", and_commit)
        result = db.execute(text)
        assert result.fetchall() == [(0,)]
        assert isinstance(result, StateResult) == from_memory

"""Fields of structs keep their values whatever letter case a statement or a table gives them."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import ivm
from tests.support.view_oracle import assert_verified

TYPE = "STRUCT(Deep STRUCT(Kind INTEGER, Name VARCHAR), L STRUCT(X INTEGER)[], P INTEGER)"
TABLES = f"CREATE TABLE t (id INTEGER PRIMARY KEY, s {TYPE}); CREATE TABLE u (s {TYPE})"
VALUE = "{'deep': {'kind': 1, 'NAME': 'a'}, 'l': [{'x': 2}, NULL], 'p': 3}"
TURNED = "{'P': 3, 'L': [{'x': 2}, NULL], 'DEEP': {'name': 'a', 'kind': 1}}"
GIVEN = {"deep": {"kind": 1, "NAME": "a"}, "l": [{"x": 2}, None], "p": 3}
STATEMENTS = [
    "INSERT INTO t VALUES (1, {}), (2, NULL)",
    "INSERT INTO u SELECT {} FROM range(3)",
    "INSERT OR REPLACE INTO t VALUES (10, {})",
    "INSERT INTO t VALUES (11, NULL) ON CONFLICT (id) DO UPDATE SET s = {}",
    "UPDATE t SET s = {} WHERE id = 2",
    "DELETE FROM t WHERE id < 3",
    "INSERT INTO t SELECT i, {} FROM range(3) r(i)",
    "UPDATE t SET s = NULL WHERE id < 11",
    "UPDATE t SET s = {} WHERE s IS NULL AND id < 10",
    "UPDATE t SET s = {} FROM range(12) r(i) WHERE id = i",
    "MERGE INTO t USING (SELECT 10 AS k) r ON id = k WHEN MATCHED THEN UPDATE SET s = {}",
]
QUERIES = [
    "SELECT id, s FROM t",
    "SELECT s FROM u",
    "SELECT id, s::STRUCT(deep STRUCT(kind INTEGER, name VARCHAR), l STRUCT(x INTEGER)[], p"
    " INTEGER) AS c FROM t",
    f"SELECT coalesce(s, {VALUE}) AS c, CASE WHEN id > 1 THEN s ELSE {VALUE} END AS d FROM t",
    f"SELECT s FROM t UNION ALL SELECT {VALUE} FROM u",
    f"SELECT s, count(*) AS n FROM (SELECT s FROM t UNION ALL SELECT {VALUE} FROM u) GROUP BY s",
    f"SELECT t.id FROM t JOIN u ON t.s = u.s AND t.s <> {VALUE}",
]


class Pair:
    """The database with a view for each query, and DuckDB alone."""

    def __init__(self) -> None:
        self.db, self.duck = ivm.connect(), duckdb.connect()
        for text in (TABLES, f"INSERT INTO t VALUES (10, NULL), (11, {VALUE})"):
            self.db.execute(text)
            self.duck.execute(text)
        for i, query in enumerate(QUERIES):
            self.db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")

    def check(self) -> None:
        for i, query in enumerate(QUERIES):
            wanted = self.duck.execute(query).fetchall()
            for asked in (query, f"FROM v{i}"):
                found = self.db.execute(asked).fetchall()
                assert sorted(map(str, found)) == sorted(map(str, wanted)), asked
        for row in self.db.execute("VERIFY MATERIALIZED VIEWS").fetchall():
            assert row[-1], row


@pytest.mark.full
@pytest.mark.cases(5)
@pytest.mark.parametrize(
    "value", [VALUE, TURNED, f"{VALUE}::{TYPE}", "row(row(1, 'a'), NULL, 3)", "?"]
)
def test_statements(value: str) -> None:
    both = Pair()
    for sql in STATEMENTS:
        params = [GIVEN] if value == "?" and "{" in sql else None
        both.db.execute(sql.format(value), params)
        both.duck.execute(sql.format(value), params)
    both.check()


@pytest.mark.full
def test_many_rows() -> None:
    both = Pair()
    rows = [[i, GIVEN] for i in range(5)]
    both.db.executemany("INSERT INTO t VALUES (?, ?)", rows)
    both.duck.executemany("INSERT INTO t VALUES (?, ?)", rows)
    both.check()


@pytest.mark.full
def test_rows_of_python() -> None:
    both = Pair()
    given = pa.table({"id": [1, 2], "s": [GIVEN, None]})
    both.db.insert("t", given)
    both.db.insert("u", given.select(["s"]))
    both.db.insert("u", [{"s": GIVEN}])
    both.duck.execute("INSERT INTO t SELECT * FROM given")
    both.duck.execute("INSERT INTO u SELECT s FROM given")
    both.duck.execute("INSERT INTO u VALUES (?)", [GIVEN])
    both.check()


SPELLED_TWICE = [
    "FROM t UNION ALL FROM u",
    "SELECT s FROM t UNION ALL SELECT {'deep': 1} FROM u",
    "SELECT t.s, u.s AS z FROM t JOIN u ON t.s = u.s",
    "FROM u UNION ALL BY NAME FROM t",
    "FROM t EXCEPT ALL FROM u",
    "FROM t INTERSECT FROM u",
    "FROM t WHERE s IN (FROM u)",
    "SELECT max(s) FROM (FROM u UNION ALL FROM t)",
    "SELECT s, count(*) FROM (FROM u UNION ALL FROM t) GROUP BY s",
    "SELECT coalesce(t.s, u.s) FROM t FULL JOIN u ON t.s.deep = u.s.DEEP",
    "SELECT s FROM t FULL JOIN u USING (s)",
    "SELECT nullif(t.s, u.s), t.s = u.s, t.s IN (u.s, {'DEEP': 4}) FROM t, u",
    "SELECT lag(s) OVER (ORDER BY s) FROM (FROM t UNION ALL FROM u)",
    "WITH RECURSIVE r AS (FROM t UNION SELECT {'DEEP': s.deep + 1} FROM r WHERE s.deep < 5) FROM r",
]


@pytest.mark.parametrize("query", SPELLED_TWICE)
def test_two_spellings_in_a_query(query: str) -> None:
    with ivm.connect() as db:
        db.execute(
            "CREATE TABLE t (s STRUCT(Deep INTEGER)); CREATE TABLE u (s STRUCT(deep INTEGER))"
        )
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for change in (
            "INSERT INTO t VALUES ({'deep': 1}), (NULL), ({'Deep': NULL})",
            "INSERT INTO u SELECT {'DEEP': 1}",
            "INSERT INTO u FROM t",
            "DELETE FROM t WHERE s.deep = 1",
            "INSERT INTO t VALUES ({'DEEP': 1})",
        ):
            db.execute(change)
        assert_verified(db, "v")
        found, wanted = (
            db.execute("FROM v"),
            db.execute(f"SELECT * FROM ({query}) WHERE random() < 2"),
        )
        assert sorted(map(str, found.fetchall())) == sorted(map(str, wanted.fetchall()))
        assert found.types == wanted.types

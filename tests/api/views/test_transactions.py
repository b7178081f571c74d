"""Several changes in one transaction do to tables and views what they do in plain DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from tests.tiers import examples

KEYLESS = "CREATE TABLE t (i INTEGER, j INTEGER)"
KEYED = "CREATE TABLE t (i INTEGER PRIMARY KEY, j INTEGER)"
VIEWS = {
    "same": "SELECT * FROM t",
    "grouped": "SELECT j, count(*) AS n, sum(i) AS s, min(i) AS low FROM t GROUP BY j",
    "joined": "SELECT t.i, t.j, u.x FROM t JOIN u ON u.j = t.j",
}
SIZES = (1, 2, 3, 10, 63, 65, 2047, 2048, 2049, 5000)


class Pair:
    """A database with views and plain DuckDB, given the same statements."""

    def __init__(self, *setup: str) -> None:
        self.ours, self.plain = ivm.connect(), duckdb.connect()
        for sql in setup:
            self.run(sql)
        self.run("CREATE TABLE u (j INTEGER, x INTEGER)")
        self.run("INSERT INTO u SELECT range, 10 - range FROM range(10)")
        for name, query in VIEWS.items():
            self.ours.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def run(self, sql: str) -> None:
        answer = self.plain.execute(sql).fetchone()
        changed = self.ours.execute(sql).rowcount
        if answer is not None:
            assert changed == answer[0], sql

    def check(self) -> None:
        wanted = sorted(self.plain.execute("FROM t").fetchall())
        assert sorted(self.ours.execute("FROM t").fetchall()) == wanted
        for name, query in VIEWS.items():
            wanted = sorted(self.plain.execute(query).fetchall())
            assert sorted(self.ours.execute(f"FROM {name}").fetchall()) == wanted, name


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("create", [KEYLESS, KEYED])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE t SET j = 5 WHERE i >= abs(4)",
        "UPDATE t SET j = 5 WHERE i::BIGINT >= 4",
        "UPDATE t SET j = s.n FROM (SELECT 5 AS n, 4 AS x) s WHERE t.i >= s.x",
        "MERGE INTO t USING (SELECT unnest([4, 6]) AS x) s ON t.i = s.x"
        " WHEN MATCHED THEN UPDATE SET j = 5",
        "DELETE FROM t USING (SELECT unnest([4, 6]) AS x) s WHERE t.i = s.x",
    ],
)
def test_rows_of_before_and_of_the_transaction_are_changed(create: str, change: str) -> None:
    pair = Pair(create, "INSERT INTO t VALUES (1, 1), (4, 1)")
    pair.run("BEGIN")
    pair.run("INSERT INTO t VALUES (2, 1), (6, 1)")
    pair.run("DELETE FROM t WHERE i < 4")
    pair.run(change)
    pair.run("COMMIT")
    pair.check()


def test_delete_of_some_of_several_equal_rows_in_a_transaction() -> None:
    pair = Pair("CREATE TABLE t (i INTEGER, j INTEGER, g INTEGER AS (i + 1))")
    pair.run("INSERT INTO t (i, j) VALUES (1, 1), (4, 4), (4, 4)")
    with pair.ours.transaction():
        pair.ours.insert("t", [{"i": i, "j": i} for i in (2, 4, 4, 6)])
        pair.ours.execute("DELETE FROM t WHERE i < 4")
        assert pair.ours.delete("t", [{"i": 4, "j": 4}] * 3 + [{"i": 6, "j": 6}]) == 4
    assert pair.ours.execute("FROM t").fetchall() == [(4, 4, 5)]
    assert pair.ours.execute("FROM same").fetchall() == [(4, 4, 5)]


SOME = ("i % 3 = 1", "abs(i) >= 4", "i::BIGINT % 7 < 5", "i >= 10000", "t.j = 3", "true")


def _statements(first: int, size: int, some: str) -> list[str]:
    """Changes of every kind; new rows have `i` from `first` on, which no other has."""
    return [
        f"INSERT INTO t SELECT {first} + range, range % 10 FROM range({size})",
        f"INSERT INTO t VALUES ({first}, 3), ({first + 1}, 4)",
        f"DELETE FROM t WHERE {some}",
        f"UPDATE t SET j = (j + 1) % 10 WHERE {some}",
        f"UPDATE t SET j = u.x FROM u WHERE u.j = t.j AND {some}",
        f"MERGE INTO t USING (SELECT range AS k FROM range(0, {first + 9}, 3)) s ON s.k = t.i"
        f" WHEN MATCHED AND {some} THEN UPDATE SET j = 7 WHEN MATCHED AND i % 2 = 0 THEN DELETE",
        f"DELETE FROM t USING u WHERE u.j = t.j AND u.x % 2 = 0 AND t.i < {first}",
    ]


@st.composite
def _transactions(draw: st.DrawFn) -> list[list[str]]:
    first = iter(range(10_000, 1_000_000, 10_000))
    size, some = st.sampled_from(SIZES), st.sampled_from(SOME)
    return [
        [
            draw(st.sampled_from(_statements(next(first), draw(size), draw(some))))
            for _ in range(draw(st.integers(2, 5)))
        ]
        for _ in range(draw(st.integers(1, 2)))
    ]


@pytest.mark.full
@settings(max_examples=examples(8), deadline=None)
@given(st.booleans(), st.sampled_from(SIZES), _transactions(), st.booleans())
def test_random_transactions(
    keyed: bool, size: int, transactions: list[list[str]], read: bool
) -> None:
    pair = Pair(KEYED if keyed else KEYLESS)
    pair.run(f"INSERT INTO t SELECT range, range % 10 FROM range({size})")
    for statements in transactions:
        pair.run("BEGIN")
        for sql in statements:
            pair.run(sql)
            if read:  # what a read shows was written to the views' tables
                pair.check()
        pair.run("COMMIT")
        pair.check()


@pytest.mark.full
def test_a_view_is_dropped_beside_a_checkpoint(tmp_path: Path) -> None:
    """DuckDB lets one transaction delete a row: the epochs of a view are the checkpoint's."""
    with ivm.connect(tmp_path / "x.duckdb") as db, db.cursor() as other:
        db.execute("CREATE TABLE t (i INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
        for i in range(3):
            db.insert("t", {"i": [i]})
            db.flush()
        db.execute("BEGIN; CREATE TABLE u (i INTEGER)")
        other.execute("CHECKPOINT")
        db.execute("DROP MATERIALIZED VIEW v; COMMIT")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT i + 1 AS i FROM t")
        db.insert("t", {"i": [3]})
        assert sorted(db.execute("FROM v").fetchall()) == [(1,), (2,), (3,), (4,)]

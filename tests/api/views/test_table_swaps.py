"""Tables that change places by ALTER TABLE … RENAME within a transaction, below views.

Law: after each commit every view equals DuckDB's answer to its text; what would leave a view
without a table is refused, at the latest by COMMIT, and undone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from tests.tiers import examples

VIEWS = {
    "sums": "SELECT a, count(*) AS n FROM plain GROUP BY a",
    "above": "SELECT sum(n) AS s FROM sums",
    "mid": "SELECT median(a) AS m FROM t",
    "pairs": "SELECT t.id, u.a FROM t JOIN u USING (id)",
}
TABLES = """CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER);
CREATE TABLE u (id INTEGER, a INTEGER); CREATE INDEX i ON u (a);
INSERT INTO t SELECT i, i % 3 FROM range(8) r(i); INSERT INTO u SELECT i, 7 FROM range(5, 12) r(i);
CREATE VIEW plain AS SELECT * FROM t WHERE a <> 2"""
WAY_OUT = "give its table's name to another table in the same transaction"
UNABLE = "Cannot create index with outstanding updates"  # of DuckDB, for a change before it
LACKS = "lacks a table that this transaction has renamed"


def _opened(path: Path) -> ivm.Database:
    db = ivm.connect(path)
    db.execute(TABLES)
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.execute("UPDATE t SET a = 1 WHERE id = 1")
    return db


def _check(db: ivm.Database, plain: duckdb.DuckDBPyConnection) -> None:
    """All that is read is the same, where the materialized views are plain ones."""
    for name in ("t", "u", *VIEWS):
        wanted = Counter(plain.execute(f"FROM {name}").fetchall())
        assert Counter(db.execute(f"FROM {name}").fetchall()) == wanted, name


@pytest.mark.full
def test_a_table_is_replaced_by_one_that_was_made_anew(tmp_path: Path) -> None:
    with _opened(tmp_path / "shop.duckdb") as db, db.subscribe("sums") as feed:
        before = Counter(db.execute("FROM sums").fetchall())
        db.execute("BEGIN; CREATE TABLE made AS SELECT i::INTEGER AS id, 1 AS a FROM range(4) r(i)")
        db.execute("ALTER TABLE t RENAME TO backup")
        assert db.execute("SELECT count(*) FROM backup").fetchall() == [(8,)]
        db.execute("ALTER TABLE made RENAME TO t")
        assert db.execute("FROM sums").fetchall() == [(1, 4)]
        db.execute("INSERT INTO t VALUES (9, 1); COMMIT")
        assert db.execute("FROM above").fetchall() == [(5,)]
        assert db.execute("FROM mid").fetchall() == [(1.0,)]
        change = feed.poll(timeout=20)
        assert change is not None
        rows = {(row["a"], row["n"]): row["_weight"] for row in change[1].to_pylist()}
        assert rows == {(1, 5): 1, **dict.fromkeys(before, -1)}
        db.execute("DROP TABLE backup CASCADE; INSERT INTO t VALUES (10, 0)")
        assert Counter(db.execute("FROM sums").fetchall()) == Counter([(1, 5), (0, 1)])
        assert all(row[-1] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


@pytest.mark.full
def test_the_name_may_be_spelt_otherwise(tmp_path: Path) -> None:
    with _opened(tmp_path / "shop.duckdb") as db:
        db.execute("BEGIN; CREATE TABLE made AS SELECT 1 AS id, 1 AS a; ALTER TABLE T RENAME TO O")
        db.execute('ALTER TABLE made RENAME TO "T"; COMMIT; INSERT INTO t VALUES (2, 0)')
        assert Counter(db.execute("FROM sums").fetchall()) == Counter([(1, 1), (0, 1)])
        db.execute("DELETE FROM T WHERE id = 1")
        assert db.execute("FROM sums").fetchall() == [(0, 1)]
        assert all(row[-1] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


def test_a_view_without_its_table_is_not_read_and_not_committed(tmp_path: Path) -> None:
    with _opened(tmp_path / "shop.duckdb") as db:
        rows = {name: Counter(db.execute(f"FROM {name}").fetchall()) for name in VIEWS}
        with pytest.raises(ivm.errors.UnsupportedError, match=WAY_OUT):
            db.execute("ALTER TABLE t RENAME TO backup")
        for view in VIEWS:
            db.execute("BEGIN; ALTER TABLE t RENAME TO backup; INSERT INTO u VALUES (50, 7)")
            with pytest.raises(ivm.errors.UnsupportedError, match=LACKS):
                db.execute(f"FROM {view}")
            db.execute("ROLLBACK")
        db.execute("BEGIN; ALTER TABLE t RENAME TO backup; CREATE TABLE other (x INTEGER)")
        with pytest.raises(ivm.errors.UnsupportedError, match=LACKS):
            db.execute("COMMIT")
        assert rows == {name: Counter(db.execute(f"FROM {name}").fetchall()) for name in VIEWS}
        db.execute("INSERT INTO t VALUES (11, 0)")
        db.execute("BEGIN; CREATE TABLE odd (id INTEGER, b VARCHAR); ALTER TABLE t RENAME TO gone")
        with pytest.raises(ivm.errors.UnsupportedError, match="would break"):
            db.execute("ALTER TABLE odd RENAME TO t")
        db.execute("ROLLBACK")
        for name in reversed(VIEWS):
            db.execute(f"BEGIN; ALTER TABLE t RENAME TO gone; DROP MATERIALIZED VIEW {name}")
            db.execute("ALTER TABLE gone RENAME TO t; COMMIT")
        assert db.execute("SHOW MATERIALIZED VIEWS").fetchall() == []


NAMES = st.sampled_from(["t", "u", "x", "y"])
STEPS = st.one_of(
    st.tuples(NAMES, NAMES).map(lambda p: f"ALTER TABLE {p[0]} RENAME TO {p[1]}"),
    NAMES.map(
        lambda name: (
            f"CREATE TABLE {name} AS SELECT i::INT AS id, (i % 2)::INT AS a FROM range(6) r(i)"
        )
    ),
    st.tuples(NAMES, st.integers(20, 40)).map(lambda p: f"INSERT INTO {p[0]} VALUES ({p[1]}, 1)"),
    NAMES.map(lambda name: f"DELETE FROM {name} WHERE id = 3"),
)


@pytest.mark.full
@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=5), min_size=1, max_size=4))
def test_any_swaps(tmp_path_factory: pytest.TempPathFactory, blocks: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("swaps")
    with _opened(folder / "shop.duckdb") as db, duckdb.connect() as plain:
        plain.execute(f"{TABLES}; UPDATE t SET a = 1 WHERE id = 1; DROP INDEX i")
        for name, query in VIEWS.items():
            plain.execute(f"CREATE VIEW {name} AS {query}")
        for block in blocks:
            ours = _error(db, ["BEGIN", *block, "COMMIT"])
            end = "COMMIT" if ours is None else "ROLLBACK"
            theirs = _error(plain, ["BEGIN", *block, *[f"FROM {name}" for name in VIEWS], end])
            assert (ours is None) == (theirs is None) or UNABLE in str(ours), (ours, theirs)
            _check(db, plain)


def _error(db: ivm.Database | duckdb.DuckDBPyConnection, script: list[str]) -> Exception | None:
    """What ends a transaction before its last statement, or with it."""
    for statement in script:
        try:
            db.execute(statement).fetchall()
        except (ivm.errors.IvmError, duckdb.Error) as error:
            if statement != "COMMIT":
                db.execute("ROLLBACK")
            return error
    return None

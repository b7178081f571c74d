"""Rows of a view under the key of its groups, read from the state of its aggregate.

The oracle is DuckDB, on the file after a flush, with the same text and parameters.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.delta_ops.aggregates.group_lookup import GroupLookup
from ivm.engine.views import group_reads
from ivm.reads import compiling
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_reads_from_state import oracle
from tests.support.readers import reading
from tests.tiers import examples

VIEWS = {
    "plain": "SELECT a, b, count(*) AS n, sum(x) AS x, max(x) AS m FROM t GROUP BY a, b",
    "turned": "SELECT sum(y) / 3 AS y, b, -1 AS one, min(s) AS s, a FROM t GROUP BY a, b",
    "few": "SELECT a, b, avg(x) AS x FROM t GROUP BY b, a HAVING count(*) > 1 AND sum(x) < 9",
    "sets": "SELECT a, b, count(DISTINCT x) AS d, median(x) AS m, bool_or(x > 2) AS o FROM t "
    "GROUP BY a, b",
    "above": "SELECT a, b, x * 2 AS x, n FROM plain WHERE x IS NOT NULL AND n < 3",
}
"""Views whose groups have the key (a, b)."""
KEYS: dict[str, list[str]] = {
    "INTEGER": ["0", "1", "2"],
    "UBIGINT": ["0", "1", "18446744073709551615"],
    "VARCHAR": ["''", "'é'", "'a'"],
    "DATE": ["'2024-01-01'", "'infinity'", "'1969-12-31'"],
    "TIMESTAMP": ["'2024-02-29 01:02:03.000004'", "'1969-12-31'", "'infinity'"],
    "DOUBLE": ["0.0", "-0.0", "'nan'"],
    "ENUM('b', 'a', 'é')": ["'a'", "'b'", "'é'"],
    "UUID": [f"'8ceadae7-9c71-4d89-b5e1-00bd5b811d0{i}'" for i in range(3)],
}
Step = tuple[str, str, int, str]


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were found by each look-up of a group."""
    found: list[int] = []
    rows = GroupLookup.rows

    def counted(lookup: GroupLookup, key: Any) -> Any:
        batch = rows(lookup, key)
        found.append(len(batch))
        return batch

    monkeypatch.setattr(GroupLookup, "rows", counted)
    return found


def filled(type: str) -> ivm.Database:
    db = ivm.connect()
    db.execute(f"CREATE TABLE t (a {type}, b INTEGER, x INTEGER, y DOUBLE, s VARCHAR)")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def change(db: ivm.Database, type: str, step: Step) -> None:
    kind, a, b, x = step
    if kind == "insert":
        db.execute(f"INSERT INTO t VALUES ({a}::{type}, {b}, {x}, {x} + 0.1, 's' || {x})")
    elif kind == "delete":
        db.execute(f"DELETE FROM t WHERE b = {b}")
    elif kind == "move":
        db.execute(f"UPDATE t SET a = {a}::{type} WHERE b = {b}")
    else:
        db.execute(f"INSERT INTO t SELECT a, b, {x}, y, s FROM t WHERE a = {a}::{type}")


def check(db: ivm.Database, text: str, params: Any = None) -> bool:
    """Compares a query's answer with DuckDB's; returns whether it came from memory."""
    result, wanted = db.execute(text, params), oracle(db, text, params)
    assert result.types == [str(each[1]) for each in wanted.description]
    assert Counter(map(repr, result.fetchall())) == Counter(map(repr, wanted.fetchall())), text
    return isinstance(result, StateResult)


@pytest.mark.full
@pytest.mark.parametrize("type", KEYS)
def test_rows_under_a_key_are_duckdbs(type: str, lookups: list[int]) -> None:
    """After each of some changes of every kind, for keys that are there and that are not."""
    step = s.tuples(
        s.sampled_from(["insert", "insert", "delete", "move", "again"]),
        s.sampled_from([*KEYS[type], "NULL"]),
        s.integers(0, 2),
        s.sampled_from(["1", "4", "NULL"]),
    )
    cast = "" if type in ("INTEGER", "VARCHAR") else f"::{type}"
    with filled(type) as db:

        @settings(max_examples=examples(15), deadline=None)
        @given(s.lists(step, min_size=1, max_size=5), s.sampled_from([*VIEWS]))
        def changed(steps: list[Step], view: str) -> None:
            for each in steps:
                change(db, type, each)
                text = f"SELECT * FROM {view} WHERE b = {each[2]} AND a ="
                assert check(db, f"{text} {each[1]}{cast}")
            for a in KEYS[type]:
                assert check(db, f"{text.replace('*', 'a, b')} {a}{cast}")

        changed()
    assert set(lookups) == {0, 1}


def test_parameters_and_what_is_computed_of_the_row(lookups: list[int]) -> None:
    with filled("INTEGER") as db:
        for i in range(40):
            change(db, "INTEGER", ("insert", str(i % 4), i % 3, str(i)))
        for text in (
            "SELECT * FROM plain WHERE a = ? AND b = ?",
            "SELECT n + 1 AS n, b FROM plain WHERE a = $1 AND b = $2 AND m > 3",
            "SELECT upper('x') AS u, x FROM plain WHERE b = $2 AND a = $1",
        ):
            for key in ([1, 2], [3, 0], [9, 1], [2**40, 1], [1, -(2**31)]):
                for _ in range(3):
                    check(db, text, key)
                lookups.clear()
                assert check(db, text, key)
                assert len(lookups) == (0 if key[0] == 2**40 else 1)
        assert db._engine.held.sizes() == {}


@pytest.mark.full
def test_a_part_of_the_key_is_no_key_of_groups(lookups: list[int]) -> None:
    with filled("INTEGER") as db:
        change(db, "INTEGER", ("insert", "1", 2, "3"))
        for view, where in (("plain", "a = 1"), ("plain", "a = 1 AND b > 1"), ("turned", "b = 2")):
            assert check(db, f"SELECT * FROM {view} WHERE {where}")
        assert not lookups


@pytest.mark.full
def test_aggregates_that_read_whole_groups_are_held(lookups: list[int]) -> None:
    with filled("INTEGER") as db:
        db.execute("CREATE MATERIALIZED VIEW l AS SELECT a, list(x) AS l FROM t GROUP BY a")
        change(db, "INTEGER", ("insert", "1", 2, "3"))
        assert check(db, "SELECT * FROM l WHERE a = 1")
        assert not lookups


TEXT = "SELECT * FROM v WHERE k = ?"


def reopened(path: Path) -> ivm.Database:
    """A database whose state is not built yet."""
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (k INTEGER, d INTEGER)")
        db.execute("INSERT INTO t SELECT i, i FROM range(100) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(d) AS s FROM t GROUP BY k")
    return ivm.connect(path)


@pytest.mark.full
def test_a_view_of_any_size_is_read_once_its_state_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_MOST_KEYED", 10)
    monkeypatch.setattr("ivm.engine.views.held_views.MOST_ROWS", 10)
    with reopened(tmp_path / "x.duckdb") as db:
        for _ in range(4):
            assert not check(db, TEXT, [5])
        way = f"EXPLAIN {TEXT}"
        told = db.execute(way, [5]).fetchall()
        assert "not built yet" in str(told)
        db.execute("INSERT INTO t VALUES (5, 2)")
        assert check(db, TEXT, [5])
        assert db.execute(TEXT, [5]).fetchall() == [(5, 7)]
        assert "not built yet" not in str(db.execute(way, [5]).fetchall())
        assert db._engine.held.sizes() == {}


@pytest.mark.full
def test_transactions_read_their_own_changes() -> None:
    with filled("INTEGER") as db:
        text = "SELECT n FROM plain WHERE a = 1 AND b = 2"
        change(db, "INTEGER", ("insert", "1", 2, "3"))
        assert db.execute(text).fetchall() == [(1,)]
        with db.transaction():
            assert db.execute(text).fetchall() == [(1,)]
            change(db, "INTEGER", ("insert", "1", 2, "3"))
            assert db.execute(text).fetchall() == [(2,)]
            db.execute("DELETE FROM t")
            assert db.execute(text).fetchall() == []
        assert db.execute(text).fetchall() == []


@pytest.mark.full
def test_a_reader_waits_for_no_long_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reads, "_PATIENCE", 0.001)
    with filled("INTEGER") as db:
        change(db, "INTEGER", ("insert", "1", 2, "3"))
        text = "SELECT n FROM plain WHERE a = 1 AND b = 2"
        with db._engine.maintenance.still:
            assert db.execute(text).fetchall() == [(1,)]


@pytest.mark.full
def test_a_view_that_is_replaced_or_dropped_or_broken() -> None:
    with filled("INTEGER") as db:
        change(db, "INTEGER", ("insert", "1", 2, "3"))
        text = "SELECT * FROM above WHERE a = 1 AND b = 2"
        assert db.execute(text).fetchall() == [(1, 2, 6, 1)]
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW above AS {VIEWS['turned']}")
        assert check(db, text)
        with db._engine.alone():
            db._engine.broken.mark(["above"], "it does not like the letter x")
        with pytest.raises(ivm.errors.EvaluationError, match="the letter x"):
            db.execute(text)
        db.execute("REFRESH MATERIALIZED VIEW above")
        assert check(db, text)
        db.execute("DROP MATERIALIZED VIEW above")
        with pytest.raises(ivm.errors.SqlError):
            db.execute(text)


@pytest.mark.full
def test_readers_beside_a_writer_see_epochs_that_never_go_back() -> None:
    """A row of a group, and the same by DuckDB, while groups come and go and tables grow."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, d INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, max(d) AS m "
                   "FROM t GROUP BY k")  # fmt: skip
        db.execute("INSERT INTO t VALUES (0, 0)")
        texts = ["SELECT n, m FROM v WHERE k = 0"] * 5
        with reading(db, [*texts, "SELECT n, m, random() FROM v WHERE k = 0"]):
            for d in range(1, 50):
                db.execute(f"INSERT INTO t VALUES (0, {d}), ({d}, 1), ({d} + 1000, 1)")
                db.execute(f"DELETE FROM t WHERE k = {d}")

"""Rows of large views and tables are read by a range of a key, from memory, as DuckDB does."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.engine.tables import key_indexes
from ivm.engine.views import held_views, view_contents
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_parameters_from_state import outcome
from tests.api.reads.test_reads_from_state import oracle
from tests.tiers import examples

DAY, MOMENT = datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3)
VALUES: dict[str, list[Any]] = {
    "TINYINT": [0, 1, -128, 127],
    "INTEGER": [0, 1, -5, 2**31 - 1],
    "BIGINT": [0, 1, -(2**63), 2**63 - 1],
    "UBIGINT": [0, 1, 2**63],
    "DOUBLE": [0.0, -0.0, 1.5, float("nan"), float("-inf")],
    "DATE": [DAY, datetime.date(1, 1, 1), datetime.date(1960, 1, 1)],
    "TIMESTAMP": [MOMENT, datetime.datetime(1969, 12, 31, 23)],
    "DECIMAL(9,2)": [1.5, -1, 0],
    "VARCHAR": ["", "a", "b"],
    "BOOLEAN": [True, False],
}
OTHERS: list[Any] = [3, 300, 2**40, 0.5, "1", "2024-01-02", DAY, MOMENT]
CONDITIONS = [
    "a < ?",
    "a <= ?",
    "? < a",
    "a >= ? AND a < ?",
    "a BETWEEN ? AND ?",
    "a > ? AND b = 1",
    "a >= ? AND a >= ?",
    "NOT a < ?",
    "a > ? OR b = 2",
    "a BETWEEN SYMMETRIC ? AND ?",
    "a IN (?, ?)",
    "a IN (?, NULL) AND b < 3",
    "a NOT IN (?, ?)",
]
LITERAL_CONDITIONS = {
    "INTEGER": [
        "a IN (1, -5, 1)",
        "a IN (1, 3000000000)",
        "a IN (0, 1.5)",
        "a < 1",
        "a BETWEEN -5 AND 0",
        "a >= 3000000000",
        "a > -3000000000",
        "a < 1.5",
    ],
    "DATE": [
        "a IN ('2024-01-02', '1960-01-01')",
        "a >= '2024-01-02'",
        "a < DATE '2024-01-02'",
        "a <= TIMESTAMP '2024-01-02 01:00'",
    ],
    "DOUBLE": [
        "a IN (0, 'nan')",
        "a IN (1.5, -1e0)",
        "a > 0",
        "a <= 0",
        "a > 'nan'",
        "a >= 'nan'::DOUBLE",
        "a < 0.5",
    ],
    "VARCHAR": ["a IN ('a', '', 'a')", "a > 'a'", "a <= 'a'"],
}
FROM_MEMORY = ["TINYINT", "INTEGER", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP"]


def _texts(name: str) -> list[str]:
    where = [*CONDITIONS, *LITERAL_CONDITIONS.get(name, ())]
    return [f"SELECT {shown} FROM {{}} WHERE {w}" for w in where for shown in ("*", "b, a")]


def _read(db: ivm.Database, text: str, params: Sequence[Any], came: set[bool]) -> None:
    wanted = outcome(lambda: oracle(db, text, params).fetchall())
    for _ in range(3):
        found = outcome(lambda: db.execute(text, params).fetchall())
        assert isinstance(found, str) == isinstance(wanted, str), (text, params, found, wanted)
        assert isinstance(found, str) or found == wanted, (text, params)
    if not isinstance(wanted, str):
        came.add(isinstance(db.execute(text, params), StateResult))


def _as_committed(db: ivm.Database, text: str, given: Sequence[Any], tables: Sequence[str]) -> bool:
    """Reads in the open transaction what is read once it is committed; False if a read fails."""
    before = []
    for table in tables:
        read = functools.partial(db.execute, text.format(table), given)
        before.append(outcome(lambda read=read: read().fetchall()))
        if isinstance(before[-1], str):
            db.execute("ROLLBACK")
            return False
    db.execute("COMMIT")
    after = [outcome(oracle(db, text.format(table), given).fetchall) for table in tables]
    assert before == after, (text, given)
    return True


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("name", VALUES)
def test_ranges_of_any_type(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a view by its user's index, and in a table by an index and by its primary key."""
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (n INTEGER PRIMARY KEY, a {name}, b INTEGER)")
        db.execute("CREATE INDEX i ON t (a)")
        db.execute(f"CREATE TABLE keyed (a {name} PRIMARY KEY, b INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t")
        db.execute("CREATE INDEX j ON v (a)")
        db.execute("INSERT INTO t SELECT -i, NULL, i FROM range(1, 6) r(i)")
        came: dict[str, set[bool]] = {"v": set(), "t": set(), "keyed": set()}

        @settings(max_examples=examples(60), deadline=None)
        @given(
            rows=s.lists(s.tuples(s.sampled_from([*VALUES[name], None]), s.integers(0, 3))),
            text=s.sampled_from(_texts(name)),
            params=s.lists(s.sampled_from([*VALUES[name], *OTHERS]), min_size=2, max_size=2),
            within=s.booleans(),
        )
        def changed(
            rows: list[tuple[Any, int]], text: str, params: list[Any], within: bool
        ) -> None:
            if within:
                db.execute("BEGIN")
            for n, (a, b) in enumerate(rows):
                db.execute("INSERT OR REPLACE INTO t VALUES (?, ?, ?)", [n, a, b])
                if a is not None:
                    db.execute("INSERT OR REPLACE INTO keyed VALUES (?, ?)", [a, b])
            db.execute("DELETE FROM t WHERE n = ?", [len(rows)])
            given = params[: text.count("?")]
            if within and not _as_committed(db, text, given, [*came]):
                return
            for table, ways in came.items():
                _read(db, text.format(table), given, ways)

        changed()
        for ways in came.values():
            assert (True in ways) or name not in FROM_MEMORY


def test_ranges_with_many_rows_are_left_to_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    monkeypatch.setattr(view_contents, "MOST_FOUND", 10)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, d INTEGER)")
        db.execute("INSERT INTO t SELECT i, i FROM range(100) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(d) AS s FROM t GROUP BY k")
        text = "SELECT * FROM v WHERE k >= ? AND k < ? ORDER BY k"
        for first, last, from_memory in ((5, 14, True), (5, 50, False), (95, 200, True)):
            result = db.execute(text, [first, last])
            assert isinstance(result, StateResult) == from_memory
            assert result.fetchall() == [(i, i) for i in range(first, min(last, 100))]


def test_a_range_is_read_while_the_key_index_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_indexes, "LARGE", 0)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, d INTEGER)")
        db.execute("INSERT INTO t SELECT i, i FROM range(100) r(i)")
        with db.transaction():
            db.execute("UPDATE t SET d = 0 WHERE k = 5")
            found = db.execute("SELECT d FROM t WHERE k BETWEEN 4 AND 6 ORDER BY k").fetchall()
        assert found == [(4,), (0,), (6,)]

"""Statements that come again after their table, its indexes or its functions have changed."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from ivm.changes import joined_changes, keyed_changes
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

SETUP = """
CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER, s VARCHAR);
INSERT INTO t SELECT i, i % 4, 'a' || i % 3 FROM range(20) r(i);
CREATE TABLE apart (k INTEGER PRIMARY KEY, s VARCHAR, n BIGINT);
INSERT INTO apart SELECT i, 'b', i FROM range(5) r(i);
CREATE TABLE seen (k INTEGER PRIMARY KEY);
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM seen"
CHANGES: list[tuple[str, Any]] = [
    ("UPDATE t SET n = ? WHERE k = ?", s.tuples(s.integers(0, 5), s.integers(0, 20))),
    ("UPDATE t SET n = n + abs(?) WHERE n = ?", s.tuples(s.integers(-3, 3), s.integers(0, 5))),
    ("UPDATE t SET n = abs(n - ?) WHERE k < ?", s.tuples(s.integers(0, 3), s.integers(0, 20))),
    ("DELETE FROM t WHERE k = ? RETURNING abs(n), *", s.tuples(s.integers(0, 20))),
    ("DELETE FROM t WHERE n = ? RETURNING s", s.tuples(s.integers(4, 9))),
    (
        "UPDATE t SET n = q.m FROM (VALUES (?, ?)) q(k, m) WHERE q.k = t.k",
        s.tuples(s.integers(0, 20), s.integers(0, 5)),
    ),
]
OTHERS = [
    "CREATE INDEX by_n ON t (n)",
    "DROP INDEX by_n",
    "ALTER TABLE t RENAME COLUMN n TO m",
    "ALTER TABLE t RENAME COLUMN m TO n",
    "ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 7",
    "ALTER TABLE t DROP COLUMN x",
    "ALTER TABLE t ALTER n TYPE BIGINT",
    "CREATE MACRO abs(x) AS x + 100",
    "CREATE TEMP MACRO abs(x) AS x + 200",
    "DROP MACRO abs",
    "ALTER TABLE t RENAME TO was; ALTER TABLE apart RENAME TO t",
    "ALTER TABLE t RENAME TO apart; ALTER TABLE was RENAME TO t",
    "CREATE TEMP TABLE t AS SELECT * FROM apart",
    "DROP TABLE temp.t",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
]
STEPS = s.one_of(
    s.sampled_from([(sql, None) for sql in OTHERS]),
    *[values.map(lambda given, sql=sql: (sql, list(given))) for sql, values in CHANGES],
)


@pytest.mark.full
@settings(max_examples=examples(150), deadline=None)
@given(s.lists(STEPS, min_size=3, max_size=25))
def test_a_statement_means_each_time_what_it_means_to_duckdb(steps: list[tuple[str, Any]]) -> None:
    twin = Twin(SETUP, VIEW)
    with closing(twin.db), closing(twin.duck):
        for sql, params in steps:
            for one in sql.split("; "):
                if not twin.run(one, params):
                    twin.run("ROLLBACK")  # DuckDB goes on after some errors
        twin.run("COMMIT")
        twin.check()


def test_the_second_run_of_a_text_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    twin, planned = Twin(SETUP, VIEW), list[str]()
    for module in (keyed_changes, joined_changes):
        whole = module._planned

        def noted(session: Any, info: Any, statement: Any, *rest: Any, whole: Any = whole) -> Any:
            planned.append(statement.text)
            return whole(session, info, statement, *rest)

        monkeypatch.setattr(module, "_planned", noted)
    texts = ["UPDATE t SET n = ? WHERE k = ?", "UPDATE t SET n = n + ? WHERE k < ?"]
    with closing(twin.db), closing(twin.duck), watched() as natively:
        for _ in range(3):
            for text in texts:
                twin.run(text, [3, 4])
        twin.check()
        assert planned == texts
        twin.run("ALTER TABLE t ADD COLUMN x INTEGER")
        twin.run(texts[0], [2, 7])
        assert planned == [*texts, texts[0]]
    assert not natively


@pytest.mark.full
def test_a_macro_of_the_session_is_called_from_its_creation_on() -> None:
    twin = Twin(SETUP, VIEW)
    texts = [
        "DELETE FROM t WHERE k = ? RETURNING abs(n)",
        "DELETE FROM t WHERE k % 5 = ? RETURNING abs(n)",
    ]
    with closing(twin.db), closing(twin.duck), watched() as natively:
        for number, macro in enumerate(
            ("", "CREATE TEMP MACRO abs(x) AS x + 100", "DROP MACRO abs")
        ):
            if macro:
                twin.run(macro)
            for text in texts:
                natively.clear()
                assert twin.run(text, [number])
                assert natively == ([text] if number == 1 else [])
        twin.check()

"""Tables without a primary key are changed and read by their indexes, rows that repeat included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.engine.tables import key_indexes
from ivm.session.results.state_result import StateResult
from tests.support.change_ways import told_way
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (n INTEGER, s VARCHAR, x DOUBLE, m DECIMAL(9,2) DEFAULT 1);
INSERT INTO t SELECT i % 4, CASE WHEN i % 5 > 0 THEN 's' || i % 3 END, i % 2, i % 3
    FROM range(24) r(i);
INSERT INTO t VALUES (1, NULL, 'nan', NULL), (1, NULL, 'nan', NULL), (NULL, 's1', 0, 1);
INSERT INTO t VALUES (1, 's1', -0.0, 1), (1, 's1', 0.0, 1), (1, 's1', -0.0, 1);
CREATE INDEX by_n ON t (n);
CREATE INDEX by_both ON t ("s", m);
CREATE INDEX by_x ON t (x);
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS c, sum(n) AS n FROM t GROUP BY s;
CREATE MATERIALIZED VIEW w AS SELECT a.n, b.m FROM t AS a JOIN t AS b ON a.n = b.n AND a.x > b.m
"""

numbers = st.sampled_from([0, 1, 2, 3, None])
texts = st.sampled_from(["s0", "s1", "s2", None, ""])
floats = st.sampled_from([0.0, -0.0, 1.0, float("nan"), None])
decimals = st.integers(0, 3)
BY_INDEX: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    ("UPDATE t SET m = m + 1 WHERE n = ?", [numbers]),
    ("UPDATE t SET n = n + 1 WHERE n IN (?, ?) AND m > 1 RETURNING n, s", [numbers, numbers]),
    ("UPDATE t SET s = ? WHERE s = ? AND m IN (0, 2.0)", [texts, texts]),
    ("UPDATE t SET x = ?, s = upper(s) WHERE n = ? RETURNING *", [floats, numbers]),
    ("UPDATE t SET x = ? WHERE x = ?", [floats, floats]),
    ("UPDATE t SET n = ?, s = ?, x = ?, m = 2 WHERE n = 3", [numbers, texts, floats]),
    ("DELETE FROM t WHERE n = ? AND s = 's1' RETURNING x, m", [numbers]),
    ("DELETE FROM t WHERE x = ? AND n = ?", [floats, numbers]),
    ("DELETE FROM t WHERE s = ? AND m = ?", [texts, decimals]),
]
READS: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    ("SELECT * FROM t WHERE n = ?", [numbers]),
    ("SELECT s, m + 1 AS more FROM t WHERE s = ? AND m = ? AND n < 3", [texts, decimals]),
    ("SELECT count(*) AS c, count(s) AS d FROM t WHERE n = ?", [numbers]),
    ("SELECT s FROM t WHERE n BETWEEN ? AND 2", [numbers]),
]
OTHERS: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    ("INSERT INTO t VALUES (?, ?, ?, ?)", [numbers, texts, floats, decimals]),
    ("INSERT INTO t VALUES (?, ?, 0.0, 1), (1, 's1', 0.0, 1)", [numbers, texts]),
    ("INSERT INTO t SELECT * FROM t WHERE n = ?", [numbers]),
    ("INSERT INTO t (n) SELECT i % 4 FROM range(5) r(i)", []),
    ("UPDATE t SET n = 2 WHERE m > ?", [decimals]),
    ("DELETE FROM t WHERE m + n = ?", [numbers]),
]
statements = st.one_of(
    *[
        st.tuples(st.just(sql), st.tuples(*params).map(list))
        for sql, params in [*BY_INDEX, *BY_INDEX, *READS, *OTHERS]
    ]
)


@pytest.mark.full
@pytest.mark.parametrize("large", [False, True])
@settings(max_examples=examples(12), deadline=None)
@given(
    history=st.lists(
        st.tuples(st.sampled_from(["", "COMMIT", "ROLLBACK"]), st.lists(statements, max_size=6)),
        max_size=5,
    ),
    reopens=st.integers(0, 5),
)
def test_any_history(
    large: bool,
    history: list[tuple[str, Any]],
    reopens: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(key_indexes, "LARGE", 0)
        both = Twin(TABLES, VIEWS, path=tmp_path_factory.mktemp("twin") / "t.duckdb")
        for number, (end, run) in enumerate(history):
            if end:
                both.run("BEGIN")
            for sql, params in run:
                assert both.run(sql, params or None)
            if end:
                both.run(end)
            both.check()
            if number == reopens:
                both.reopen()
        both.db.close()


KNOWN: dict[Any, list[Any]] = {
    numbers: [1, 2, 0],
    texts: ["s1", "s2"],
    floats: [0.0, 1.0, -0.0],
    decimals: [1, 2],
}


def _values(strategies: list[st.SearchStrategy[Any]], number: int) -> list[Any]:
    found = [KNOWN[one] for one in strategies]
    return [values[(i + number) % len(values)] for i, values in enumerate(found)]


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), BY_INDEX)
def test_no_duckdb_is_needed(sql: str, params: list[Any], tmp_path: Path) -> None:
    both = Twin(TABLES, VIEWS, path=tmp_path / "t.duckdb")
    for number in range(3):
        with watched() as seen:
            assert both.run(sql, _values(params, number))
            assert both.run("INSERT INTO t VALUES (1, 's1', 0.0, 1)")
            assert both.run("DELETE FROM t WHERE n = 2 AND m < 1")
            assert seen == []
        both.check()
        both.reopen()
    both.db.close()


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), READS)
def test_rows_are_read_from_memory(sql: str, params: list[Any]) -> None:
    both = Twin(TABLES, VIEWS)
    for number in range(4):
        assert both.run("INSERT INTO t VALUES (1, 's1', 0.0, 1)")
        assert both.run(sql, _values(params, number))
    if "count" not in sql:
        assert isinstance(both.db.execute(sql, _values(params, 0)), StateResult)
    for end in ("COMMIT", "ROLLBACK"):
        assert both.run("BEGIN")
        assert both.run("DELETE FROM t WHERE n = 1 AND m = 0")
        assert both.run("UPDATE t SET s = 's1', m = 1 WHERE n = 2")
        assert both.run(sql, _values(params, 0))
        assert both.run(end)
        assert both.run(sql, _values(params, 0))
    both.check()


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("UPDATE t SET m = m + ? WHERE n = ?", [[1, 1], [2, 2], [3, 1], [1, 9], [1, None]]),
        ("UPDATE t SET s = ? WHERE x = ? AND m > 0", [["a", 0.0], ["b", 1.0], ["c", -0.0]]),
        ("DELETE FROM t WHERE n = ? AND s = ?", [[1, "s1"], [1, "s1"], [2, "s0"]]),
        ("UPDATE t SET n = n + 1 WHERE n = ?", [[1], [2], [3]]),
    ],
)
def test_executemany(sql: str, rows: list[list[Any]]) -> None:
    both = Twin(TABLES, VIEWS)
    with watched() as seen:
        both.db.executemany(sql, rows)
        assert seen == []
    both.duck.executemany(sql, rows)
    both.check()


@pytest.mark.full
def test_ways_are_told() -> None:
    both = Twin(TABLES, VIEWS)
    by_index = "fast path: rows are found in an arrangement of the index (n)"
    assert told_way(both, "UPDATE t SET m = 1 WHERE n = 1") == by_index
    no_index = "the WHERE clause compares no index of it with values; CREATE INDEX on the columns"
    assert no_index in told_way(both, "UPDATE t SET m = 1 WHERE m = 1")
    assert both.run("DROP INDEX by_n")
    assert told_way(both, "DELETE FROM t WHERE n = 1").startswith("DuckDB, captured")
    assert both.run("DELETE FROM t WHERE n = 1")
    assert both.run("CREATE INDEX again ON t (n)")
    assert told_way(both, "DELETE FROM t WHERE n = 2") == by_index
    assert both.run("ALTER TABLE t ADD COLUMN z INTEGER")
    assert both.run("UPDATE t SET z = 9 WHERE n = 3")
    assert both.run("UPDATE t SET z = 8 WHERE x = 0")
    both.check()


def test_what_an_unreadable_index_finds_is_left_to_duckdb() -> None:
    """An index over an expression, a unique one, and a column with a collation."""
    setup = """
    CREATE TABLE t (a INTEGER, b INTEGER UNIQUE, c VARCHAR);
    CREATE TABLE c (a VARCHAR COLLATE NOCASE, b INTEGER);
    INSERT INTO t SELECT i % 3, i, 'c' || i FROM range(9) r(i);
    INSERT INTO c VALUES ('a', 1), ('A', 2), ('a', 1);
    CREATE INDEX e ON t ((a + 1));
    CREATE INDEX plain ON t (a);
    CREATE INDEX ca ON c (a);
    """
    both = Twin(
        setup, "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a", "tc"
    )
    for sql in (
        "UPDATE t SET c = 'x' WHERE b = 4",
        "UPDATE t SET b = b + 100 WHERE a = 1",
        "UPDATE t SET b = 2 WHERE a = 1",
        "DELETE FROM t WHERE a + 1 = 3",
        "INSERT INTO t VALUES (1, 5, 'y')",
        "UPDATE c SET b = 7 WHERE a = 'a'",
        "DELETE FROM c WHERE a = 'A'",
    ):
        both.run(sql)
        both.check()

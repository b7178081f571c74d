"""The rows that a change takes from a query that memory answers: those that DuckDB computes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.reads.compiling import ReadCompiler
from tests.support.change_ways import sources_in_memory
from tests.support.duckdb_twin import Twin
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER, x DOUBLE, s VARCHAR, m DECIMAL(9,2), d DATE);
CREATE TABLE u (k INTEGER PRIMARY KEY, a DOUBLE, b VARCHAR);
CREATE INDEX u_b ON u (b);
INSERT INTO t SELECT i, i, i / 2, 's' || i, i, '2024-01-01'::DATE + i::INTEGER FROM range(8) r(i);
INSERT INTO u SELECT i, i / 4, chr(97 + i::INTEGER % 3) FROM range(12) r(i);
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT k, a, b FROM u;
CREATE MATERIALIZED VIEW g AS SELECT b, count(*) AS c, sum(k) AS total FROM u GROUP BY b;
CREATE MATERIALIZED VIEW w AS SELECT k::BIGINT AS i, TRY_CAST(k AS SMALLINT) AS c,
    TRY_CAST(a AS DECIMAL(9,2)) AS m, k * 1_000_000 AS total, DATE '2024-01-01' + k AS d FROM u
"""
PLAIN = """
CREATE VIEW v AS SELECT k, a, b FROM u;
CREATE VIEW g AS SELECT b, count(*) AS c, sum(k) AS total FROM u GROUP BY b;
CREATE VIEW w AS SELECT k::BIGINT AS i, TRY_CAST(k AS SMALLINT) AS c,
    TRY_CAST(a AS DECIMAL(9,2)) AS m, k * 1_000_000 AS total, DATE '2024-01-01' + k AS d FROM u
"""

integers = st.sampled_from([0, 1, -1, 3, 7, 130, 40_000, 2**31, -(2**31), 2**40])
few = st.integers(-2, 12)
positive = st.integers(1, 12)
wide = st.sampled_from(
    [
        "0",
        "1",
        "2",
        "7",
        "- 3",
        "300",
        "2147483647",
        "3000000000",
        "1.5",
        "1e2",
        "9223372036854775807",
        "9223372036854775808",
        "'4'",
        "NULL",
        "2 * 3",
    ]
)
signs = st.sampled_from(["+", "-", "*", "%", "//", "/", "**", "<<", "&"])
numbers = st.sampled_from([0.0, -0.0, 1.5, float("nan"), 1e300, 3.0])
texts = st.sampled_from(["a", "b", "", "it's", "ä", "2024-02-29", "12"])
others = st.sampled_from([None, True, Decimal("3"), datetime.date(2024, 2, 29), b"x", "a", 5])

PARAMETERS: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    ("INSERT OR IGNORE INTO t (id, x) VALUES (? + 0, ?)", [few, numbers]),
    ("INSERT OR REPLACE INTO t (id, n, s) SELECT ?, ?, ?", [few, integers, texts]),
    ("INSERT OR REPLACE INTO t (id, m) SELECT ? AS q, ?", [few, integers]),
    ("INSERT OR IGNORE INTO t (id, x, s) SELECT k + ?, a, b FROM v WHERE k = ?", [integers, few]),
    ("INSERT OR IGNORE INTO t (id, n, s) SELECT total, c + ?, b FROM g WHERE b = ?", [few, texts]),
    ("INSERT OR IGNORE INTO t (id, x) SELECT k + ?, a FROM u WHERE k = ?", [few, few]),
    ("INSERT OR IGNORE INTO t (id, s) SELECT k, b FROM u WHERE b = ? AND a > ?", [texts, numbers]),
    ("INSERT OR REPLACE INTO t BY NAME SELECT k AS id, b AS s FROM v WHERE k > ? LIMIT 0", [few]),
    (
        "INSERT INTO t (id, s) SELECT ?, ? "
        "ON CONFLICT (id) DO UPDATE SET s = excluded.s RETURNING *",
        [few, texts],
    ),
    (
        "UPDATE t SET n = o.n, s = o.s FROM (VALUES (2 * ?, ?, ?), (2 * ? + 1, ?, ?)) o(i, n, s) "
        "WHERE id = o.i",
        [few, integers, texts, few, integers, texts],
    ),
    ("UPDATE t SET x = v.a FROM (SELECT k, a FROM v WHERE a >= ?) v WHERE id = v.k", [numbers]),
    (
        "UPDATE t SET n = o.q FROM (SELECT ? AS i, ? AS q) o WHERE id = i AND n <> q",
        [few, integers],
    ),
    ("DELETE FROM t USING (VALUES (?), (?)) o(i) WHERE id = i RETURNING id", [few, few]),
    ("DELETE FROM t USING generate_series(?, ?) r(i) WHERE id = r.i", [few, few]),
    (
        "MERGE INTO t USING (VALUES (2 * ?, ?), (2 * ? - 1, ?)) o(i, s) ON id = i "
        "WHEN MATCHED THEN UPDATE SET s = o.s "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (o.i, o.s)",
        [few, texts, few, texts],
    ),
    (
        "MERGE INTO t USING (SELECT total, c FROM g WHERE c > ?) o ON id = total WHEN MATCHED THEN "
        "DELETE WHEN NOT MATCHED THEN INSERT (id, n) VALUES (total, c)",
        [few],
    ),
    ("INSERT OR REPLACE INTO u SELECT ?, ?, ?", [few, numbers, texts]),
    ("DELETE FROM u WHERE k = ?", [few]),
]
LITERALS: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    ("INSERT OR IGNORE INTO t (id, n) SELECT i, 7 FROM range({}, {}) r(i)", [few, few]),
    ("INSERT OR REPLACE INTO t (id, n) SELECT i, i % 3 FROM range({}) r(i)", [few]),
    (
        "INSERT OR IGNORE INTO t (id) SELECT i FROM generate_series({}, {}, {}) r(i)",
        [few, few, few],
    ),
    ("INSERT OR IGNORE INTO t (id, s) SELECT k, b FROM v WHERE k = {}", [few]),
    (
        "UPDATE t SET n = o.q FROM (SELECT i, i % 5 + 2 AS q FROM range({}, {}) r(i)) o "
        "WHERE id = i",
        [few, few],
    ),
    (
        "MERGE INTO t USING (SELECT i, 'm' FROM range({}, {}) r(i)) o(i, s) ON id = o.i "
        "WHEN MATCHED THEN UPDATE SET s = o.s "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (o.i, o.s)",
        [few, few],
    ),
    ("DELETE FROM t USING range({}, {}) r(i) WHERE id = r.i AND n > {}", [few, few, few]),
    (
        "UPDATE t SET x = o.q FROM (SELECT i, 3 * (i % {}) - {} AS q FROM range({}) r(i)) o "
        "WHERE id = o.i",
        [positive, positive, few],
    ),
    ("INSERT OR REPLACE INTO t (id, n, x) SELECT k + {}, k // {}, a * {} FROM v", [positive] * 3),
    (
        "INSERT OR REPLACE INTO t (id, x) SELECT n + {}, a - {} FROM (SELECT k AS n, a FROM u "
        "WHERE k = {})",
        [positive, positive, few],
    ),
]
LEFT: list[tuple[str, list[st.SearchStrategy[Any]]]] = [
    (
        "INSERT OR IGNORE INTO t (id, n) FROM range({}, {}) a, range({}) b(c) WHERE c <> {}",
        [few] * 4,
    ),
    ("INSERT OR REPLACE INTO t (id, n) SELECT i, -{} FROM range({}) r(i)", [few, few]),
    ("INSERT OR IGNORE INTO t (id) SELECT unnest(range({}, {}))", [few, few]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT k, k {} 2 + {} FROM v", [signs, wide]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT k, {} {} k FROM v", [wide, signs]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT k, (a {} {}) FROM v WHERE k > 3", [signs, wide]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT i, c {} {} FROM w", [signs, wide]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT i, m {} {} FROM w", [signs, wide]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT i, {} - total {} {} FROM w", [wide, signs, wide]),
    ("INSERT OR REPLACE INTO t (id, s) SELECT i, $$x$$ || i {} {} FROM w", [signs, wide]),
    ("INSERT OR REPLACE INTO t (id, d) SELECT i, d + {} FROM w", [wide]),
    (
        "INSERT OR REPLACE INTO t (id, s) SELECT i, CASE WHEN i % {} = 0 THEN {} ELSE i + {} END "
        "FROM w",
        [wide, wide, wide],
    ),
]


def twin(path: Path | None = None) -> Twin:
    both = Twin(TABLES, VIEWS, ("t", "u"), path)
    both.duck.execute(PLAIN)
    return both


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, list[Any] | None]:
    if draw(st.booleans()):
        text, values = draw(st.sampled_from([*LITERALS, *LEFT]))
        return text.format(*[draw(value) for value in values]), None
    text, values = draw(st.sampled_from(PARAMETERS))
    odd = draw(st.integers(0, 5)) == 0
    return text, [draw(others if odd else value) for value in values]


ends = st.sampled_from(["", "", "BEGIN", "COMMIT", "ROLLBACK"])


@settings(max_examples=examples(60), deadline=None)
@given(history=st.lists(st.tuples(ends, statements()), max_size=25))
def test_any_history_leaves_what_duckdb_has(history: list[tuple[str, Any]]) -> None:
    both, begun = twin(), False
    with sources_in_memory():
        for end, (sql, params) in history:
            if end and begun != (end == "BEGIN"):
                assert both.run(end)
                begun = not begun
            if not both.run(sql, params) and begun:
                assert both.run("ROLLBACK")
                begun = False
    if begun:
        assert both.run("COMMIT")
    both.check()
    both.db.close()


KNOWN: dict[str, list[Any]] = {
    "few": [3, 1, 5],
    "positive": [2, 7, 4],
    "integers": [9, 70_000],
    "numbers": [1.5],
    "texts": ["a", "b"],
}


def _values(strategies: list[st.SearchStrategy[Any]], number: int) -> list[Any]:
    named = {
        few: "few",
        positive: "positive",
        integers: "integers",
        numbers: "numbers",
        texts: "texts",
    }
    found = [KNOWN[named[strategy]] for strategy in strategies]
    return [values[(i + number) % len(values)] for i, values in enumerate(found)]


@pytest.mark.full
@pytest.mark.parametrize(("text", "values"), PARAMETERS[:-2], ids=range(len(PARAMETERS) - 2))
def test_the_rows_are_in_memory(text: str, values: list[st.SearchStrategy[Any]]) -> None:
    both = twin()
    with sources_in_memory() as answered:
        for number in range(3):
            assert both.run(text, _values(values, number))
    assert len(answered) == 3
    both.check()


@pytest.mark.full
@pytest.mark.parametrize(("text", "values"), LITERALS, ids=range(len(LITERALS)))
def test_texts_that_differ_in_literals_are_one(
    text: str, values: list[st.SearchStrategy[Any]]
) -> None:
    both = twin()
    with sources_in_memory() as answered:
        for number in range(3):
            assert both.run(text.format(*_values(values, number)))
    assert len(answered) == 3
    both.check()


@pytest.mark.full
def test_a_text_is_compiled_the_third_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile = ReadCompiler.compile

    def spied(self: ReadCompiler, text: str, *rest: Any, **further: Any) -> Any:
        compiled.append(text)
        return compile(self, text, *rest, **further)

    monkeypatch.setattr(ReadCompiler, "compile", spied)
    both = twin()
    for number in range(4):
        assert both.run("INSERT INTO t (id, s) SELECT ?, ?", [100 + number, "x"])
        assert len(compiled) == (number >= 2)


@pytest.mark.full
def test_what_names_mean_otherwise_in_a_session_is_left_to_duckdb() -> None:
    both = twin()
    insert = "INSERT INTO t (id, x) SELECT k + 100 + ?, a FROM v WHERE k = 3"
    with sources_in_memory() as answered:
        assert both.run(insert, [0])
        assert len(answered) == 1
        assert both.run("CREATE TEMP TABLE v AS SELECT 3 AS k, 77 AS a")
        assert both.run(insert, [10])
        assert len(answered) == 1
        assert both.run("DROP TABLE temp.v")
        assert both.run(insert, [20])
    both.check()


@pytest.mark.full
def test_own_changes_are_seen_in_a_transaction() -> None:
    both = twin()
    with sources_in_memory() as answered:
        for sql in (
            "BEGIN",
            "INSERT INTO u VALUES (50, 1, 'new')",
            "INSERT INTO t (id, s) SELECT k + 100, b FROM u WHERE k = 50",
            "UPDATE u SET b = 'newer' WHERE k = 50",
            "INSERT INTO t (id, s) SELECT k + 200, b FROM u WHERE k = 50",
            "INSERT INTO t (id, s) SELECT k + 300, b FROM u WHERE b = 'newer'",
        ):
            assert both.run(sql)
        assert len(answered) == 2
        assert both.run("INSERT INTO t (id, s) SELECT k + 400, b FROM v WHERE k = 50")
        assert len(answered) == 2
        assert both.run("COMMIT")
    both.check()

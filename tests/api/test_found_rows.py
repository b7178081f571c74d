"""UPDATE and DELETE by any condition: whoever finds the rows, DuckDB's own run is the twin."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.ingest.key_index import KeyIndex
from ivm.session import joined
from tests.support.change_ways import (
    demand_fast,
    demand_native,
    demand_refused,
    few_rows_expected,
    run_history,
)
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n TINYINT DEFAULT 7, s VARCHAR DEFAULT 'd',
                x DOUBLE CHECK (x < 1000), m DECIMAL(9,2) NOT NULL DEFAULT 1);
CREATE TABLE pair (a VARCHAR, "B b" UTINYINT, v INTEGER, PRIMARY KEY (a, "B b"));
CREATE TABLE plain (k INTEGER, v VARCHAR);
CREATE TABLE u (id INTEGER, w VARCHAR, c DOUBLE);
INSERT INTO t SELECT i, i % 5, 's' || i, i / 2, i FROM range(12) r(i);
INSERT INTO t VALUES (77, NULL, NULL, NULL, 0);
INSERT INTO pair VALUES ('x', 1, 10), ('x', 2, 20), ('it''s', 1, 30);
INSERT INTO plain VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
INSERT INTO u SELECT 2 * i, chr(97 + i::INTEGER), i / 4 FROM range(9) r(i);
INSERT INTO u VALUES (NULL, 'none', 1);
CREATE MACRO odd(i) AS i % 2 = 1;
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1;
CREATE MATERIALIZED VIEW w AS SELECT t.s, v, a FROM t JOIN pair ON n = "B b"
"""
NAMES = ("t", "pair", "plain", "u")
FAST: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 1, s = s || '!' WHERE n > 2", None),
    ("UPDATE t SET n = n + 1 WHERE x < 3 OR s LIKE '%1' RETURNING id, n, s AS text", None),
    ("UPDATE T AS k SET N = k.n + 1, x = NULL WHERE K.Id BETWEEN 3 AND 6", None),
    ("UPDATE t SET m = m * ?, s = ? WHERE n IN (?, ?) AND length(s) > ?", [2, "z", 1, 2, 1]),
    ("UPDATE t SET m = $m WHERE n >= $n AND $n IS NOT NULL", {"m": 3, "n": 2}),
    ("UPDATE t SET n = 1 WHERE id IN (SELECT id FROM u WHERE c > 1)", None),
    ("UPDATE t SET n = 1 WHERE EXISTS (FROM u WHERE u.id = t.id AND u.w <> t.s)", None),
    ("UPDATE t SET n = 1 WHERE id = (SELECT max(id) FROM t)", None),
    ("UPDATE t SET n = 1 WHERE n = (SELECT max(n) FROM t AS o WHERE o.id < t.id)", None),
    ("UPDATE main.t SET n = 1 WHERE main.t.n = 3", None),
    ("UPDATE t SET n = 1 WHERE odd(id)", None),
    ("UPDATE t SET n = 1 WHERE n -- only the third, WHERE\n = 3 /* RETURNING */ AND id > 3", None),
    ("WITH big AS (SELECT id FROM u WHERE id > 3) UPDATE t SET n = 0 WHERE id IN (FROM big)", None),
    ("UPDATE t SET n = 9 WHERE false", None),
    ("UPDATE t SET n = 9 WHERE upper(s) LIKE '%1' OR abs(id - 5) % 4 = ?", [1]),
    ("DELETE FROM t WHERE s LIKE 's%' AND substr(s, 2)::INTEGER > 4", None),
    ("UPDATE t SET n = 9 WHERE n IS NULL RETURNING *", None),
    ("UPDATE t SET n = 9", None),
    ("UPDATE pair SET v = v + 1 WHERE v > 10", None),
    ("UPDATE pair SET v = \"B b\" WHERE a LIKE 'it%'", None),
    ("DELETE FROM t WHERE n = 1", None),
    ("DELETE FROM t AS k WHERE k.x > 2 AND k.s <> 's7' RETURNING k.id, m", None),
    ('DELETE FROM t WHERE n IN (SELECT "B b" FROM pair) OR n IS NULL', None),
    ("DELETE FROM t WHERE id % ? = ?", [3, 1]),
    ("DELETE FROM pair WHERE \"B b\" = 1 OR a = 'x'", None),
    ("UPDATE t SET s = w FROM u WHERE n + 1 = u.id", None),
    ("UPDATE t SET n = o.c FROM u AS o WHERE o.id = t.id + 2 AND o.w > 'b' RETURNING id", None),
    ('UPDATE pair SET v = q.k FROM (SELECT 2 AS k) q WHERE "B b" = q.k', None),
    ("DELETE FROM t USING u WHERE n = u.id AND u.c < 2", None),
    ("DELETE FROM t USING u AS o WHERE t.id > o.id + 4 RETURNING t.id", None),
    ("DELETE FROM t USING (VALUES (1), (1)) q(k) WHERE n = k", None),
]
NATIVE: list[tuple[str, Any]] = [
    ("UPDATE t SET n = DEFAULT WHERE n = 1", None),
    ("UPDATE t SET id = id + 100 WHERE n = 2", None),
    ("UPDATE t SET n = (SELECT max(id) FROM u) WHERE n = 1", None),
    ("UPDATE t SET s = w FROM u WHERE n >= u.id AND u.id = 0 AND t.id = t.n", None),
    ("UPDATE plain SET v = 'x' WHERE k = 1", None),
    ("DELETE FROM plain WHERE k IS NULL", None),
    ("UPDATE t SET n = 1 FROM u, pair WHERE n = u.id AND v > 10", None),
]
WRONG: list[tuple[str, Any]] = [
    ("WITH t AS (SELECT 3 AS k) UPDATE t SET n = 9 WHERE id IN (SELECT k FROM t)", None),
    ('WITH "T" (id) AS (SELECT 3) DELETE FROM t WHERE n = 3 AND id IN (SELECT id FROM t)', None),
    ("UPDATE t SET n = 300 WHERE n = 1", None),
    ("UPDATE t SET n = n + 127 WHERE n > 1", None),
    ("UPDATE t SET m = NULL WHERE n = 1", None),
    ("UPDATE t SET x = 5000 WHERE n = 1", None),
    ("UPDATE t SET nope = 1 WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE nope = 1", None),
    ("UPDATE t SET n = 1 WHERE s::INTEGER = 1", None),
    ("UPDATE t SET n = 1 WHERE (id * 50)::TINYINT > 3", None),
    ("UPDATE t SET n = 1 WHERE __ivm_key_0 = 1", None),
    ("UPDATE t SET n = __ivm_key_0 WHERE n = 1", None),
    ("UPDATE t SET n = __ivm_found.__ivm_key_0 WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE count(*) = 1", None),
    ("UPDATE t SET n = row_number() OVER () WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE row_number() OVER () = 1", None),
    ("UPDATE t SET n = unnest([1]) WHERE n = 1", None),
    ("UPDATE t AS k SET n = 1 WHERE t.n = 1", None),
    ("UPDATE t SET n = ? WHERE n = ?", [1]),
    ("UPDATE t SET n = ? WHERE n = 1", [1, 2]),
    ("UPDATE t SET n = 1 FROM (SELECT t.n AS k) q WHERE n = k", None),
    ("UPDATE t SET n = 1 FROM u WHERE n = u.id AND w = nope", None),
    ("DELETE FROM t WHERE n = 1 RETURNING nope", None),
    ("DELETE FROM t WHERE n = 1 GROUP BY n", None),
    ("DELETE FROM t USING nope WHERE n = 1", None),
]


def twin() -> Twin:
    return Twin(TABLES, VIEWS, NAMES)


@pytest.mark.parametrize(("sql", "params"), FAST)
def test_the_rows_are_found_and_changed_in_memory(sql: str, params: Any) -> None:
    both = twin()
    demand_fast(both, sql, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined, "MOST_LOOKED_AT", -1)
        demand_fast(both, sql, params)
        demand_fast(both, sql, params)  # over few rows, by now


@pytest.mark.parametrize(("sql", "params"), NATIVE)
def test_anything_else_is_left_to_duckdb(sql: str, params: Any) -> None:
    demand_native(twin(), sql, params)


@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_is_refused(sql: str, params: Any) -> None:
    demand_refused(twin(), sql, params, "UPDATE t SET n = 3 WHERE n = 1")


statements = st.lists(st.sampled_from([*FAST, *FAST, *NATIVE, *WRONG]), max_size=8)


@settings(max_examples=examples(20), deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), statements), max_size=4),
    few=st.booleans(),
    most=st.sampled_from([-1, 1 << 20]),
)
def test_any_history_leaves_what_duckdb_has(
    history: list[tuple[bool, Any]], few: bool, most: int
) -> None:
    with (
        few_rows_expected() if few else contextlib.nullcontext(),
        pytest.MonkeyPatch.context() as p,
    ):
        p.setattr(joined, "MOST_LOOKED_AT", most)
        run_history(twin(), history)


@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_a_look_at_all_entries_finds_the_rows_as_they_are_now(data: st.DataObject) -> None:
    """Random rows, changed so often that the index has many runs, with entries that cancel."""
    both = Twin(
        "CREATE TABLE t (a VARCHAR, b INTEGER, n INTEGER, s VARCHAR, PRIMARY KEY (a, b))",
        "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, min(s) AS s FROM t GROUP BY n",
        ("t",),
    )
    numbers = st.one_of(st.none(), st.integers(0, 4))
    for _ in range(data.draw(st.integers(1, 12))):
        n, m = data.draw(numbers), data.draw(numbers)
        sql, params = data.draw(
            st.sampled_from(
                [
                    (
                        f"INSERT OR REPLACE INTO t SELECT 'k' || i % 3, i, {m or 0}, 's' || i"
                        f" FROM range({n or 9}) r(i)",
                        None,
                    ),
                    ("UPDATE t SET n = ?, s = s || a WHERE n = ? OR s IS NULL", [n, m]),
                    ("UPDATE t SET n = n + 1 WHERE n BETWEEN ? AND ? RETURNING *", [m, n]),
                    ("UPDATE t SET s = NULL WHERE n IS NOT DISTINCT FROM ?", [n]),
                    ("DELETE FROM t WHERE n < ? AND s LIKE ?", [m, "s%"]),
                    ("DELETE FROM t WHERE a > 'k1' AND n = ?", [n]),
                    ("BEGIN", None),
                    ("COMMIT", None),
                    ("ROLLBACK", None),
                ]
            )
        )
        both.run(sql, params)
    both.run("ROLLBACK")
    both.check()


def test_a_transaction_stays_fast_until_duckdb_must_see_its_changes() -> None:
    both = twin()
    with watched() as seen:
        for sql in (
            "BEGIN",
            "UPDATE t SET n = 4 WHERE n = 1",
            "UPDATE t SET s = 'q' WHERE id = 2",
            "UPDATE t SET x = 0 WHERE n = 4 OR s = 'q' RETURNING id",
        ):
            assert both.run(sql)
        assert seen == []
        assert both.run("UPDATE t SET x = 1 WHERE n = (SELECT max(n) FROM t) RETURNING id")
        assert len(seen) == 1
        assert both.run("UPDATE t SET x = 2 WHERE s = 'q'")
        assert both.run("COMMIT")
    both.check()


RANGES = {
    "BIGINT": ["-5", "0", "3", "9223372036854775807", "3.5", "NULL"],
    "UTINYINT": ["0", "3", "255", "256", "-1"],
    "DATE": ["'2024-01-01'", "DATE '2024-01-05'", "'infinity'"],
    "TIMESTAMP": ["'2024-01-01'", "TIMESTAMP '2024-01-01 12:00:00'", "DATE '2024-01-03'"],
    "DOUBLE": ["0.5", "'nan'", "'-inf'", "-0.0", "2"],
    "VARCHAR": ["''", "'b'", "'k1'"],
}
STORED = {
    "BIGINT": "i - 3", "UTINYINT": "i", "DATE": "DATE '2024-01-01' + i::INTEGER",
    "TIMESTAMP": "TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR", "DOUBLE": "i / 2 - 1",
    "VARCHAR": "'k' || i",
}  # fmt: skip


@pytest.mark.parametrize("type", RANGES)
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_ranges_of_the_key(type: str, data: st.DataObject) -> None:
    """Bounds of any kind and to any side, with further conditions, on rows that have changed."""
    both = Twin(
        f"CREATE TABLE t (n INTEGER, k {type} PRIMARY KEY, m INTEGER);"
        f"INSERT INTO t SELECT i, {STORED[type]}, 0 FROM range(20) r(i)",
        "CREATE MATERIALIZED VIEW v AS SELECT m, count(*) AS c, sum(n) AS n FROM t GROUP BY m",
        ("t",),
    )
    values = st.sampled_from(RANGES[type])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined, "MOST_LOOKED_AT", data.draw(st.sampled_from([-1, 1 << 20])))
        for _ in range(data.draw(st.integers(1, 5))):
            a, b = data.draw(values), data.draw(values)
            found = data.draw(
                st.sampled_from(
                    [
                        f"k BETWEEN {a} AND {b}",
                        f"k >= {a} AND k < {b}",
                        f"{a} < k AND n % 2 = 0",
                        f"(k > {a} OR n = 3) AND k <= {b}",
                        f"n > 5 AND ({b} >= t.k AND (k <> {a}))",
                        f"NOT k > {a}",
                    ]
                )
            )
            verb = data.draw(
                st.sampled_from(["UPDATE t SET m = m + 1, n = n + 1", "DELETE FROM t"])
            )
            both.run(f"{verb} WHERE {found} RETURNING *")
            both.check()


def test_a_range_of_the_key_needs_no_look_at_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    both = twin()
    both.run("UPDATE t SET n = 1 WHERE id = 3")  # the index is there
    monkeypatch.setattr(KeyIndex, "where", None)
    monkeypatch.setattr(joined, "described", None)
    both.run("DELETE FROM t WHERE id > ? AND id <= ? AND n < 9 RETURNING *", [3, 7])
    both.check()


def test_a_python_function_is_called_once_a_row() -> None:
    both = twin()
    calls: list[int] = []

    def counted(n: int) -> int:
        calls.append(n)
        return n

    both.db.create_function(ivm.Function("counted", counted, ["BIGINT"], "BIGINT"))
    both.db.execute("DELETE FROM t WHERE counted(id) = 3")
    assert sorted(calls) == [*range(12), 77]
    assert both.db.execute("SELECT count(*) FROM t").fetchone() == (12,)


def test_what_is_drawn_by_chance_is_drawn_once() -> None:
    """Whatever rows are chosen, the views and the count tell of the same ones."""
    both = twin()
    for _ in range(5):
        (gone,) = both.db.execute("DELETE FROM t WHERE random() < 0.3").fetchone() or ()
        left = both.db.execute("SELECT count(*) FROM t").fetchone()
        assert both.db.execute("SELECT coalesce(sum(c), 0) FROM v").fetchone() == left
        both.db.execute(
            f"INSERT INTO t (id) SELECT 1000 + max(id) + i FROM t, range({gone}) r(i) GROUP BY i"
        )


@pytest.mark.parametrize("most", [-1, 1 << 20])
def test_many_rows_are_left_to_duckdb(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("ivm.capture.evaluation.MOST_ROWS", 5)
    monkeypatch.setattr(joined, "MOST_ROWS", 5)
    monkeypatch.setattr(joined, "MOST_LOOKED_AT", most)
    demand_native(twin(), "UPDATE t SET n = 3 WHERE id > 1")

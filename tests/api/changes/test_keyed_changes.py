"""UPDATE and DELETE of one row by its key do what DuckDB does, with and without DuckDB."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.session import dml
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n TINYINT, s VARCHAR DEFAULT 'd', x DOUBLE CHECK (x < 1000),
                m DECIMAL(9,2) NOT NULL, d DATE, w TIMESTAMP);
CREATE TABLE pair (a VARCHAR, b UTINYINT, v INTEGER, PRIMARY KEY (a, b));
INSERT INTO t SELECT i, i, 's' || i, i / 2, i, DATE '2024-01-01' + i::INTEGER, NULL
FROM range(6) r(i);
INSERT INTO pair VALUES ('x', 1, 10), ('x', 2, 20), ('it''s', 1, 30);
"""
VIEW = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1
"""

DAYS = datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)
FAST: list[tuple[str, Any]] = [
    ("UPDATE t SET x = 2.5 WHERE id = 1", None),
    ("update T set X = -1e2, s = 'it''s' where ID = 3", None),
    ('UPDATE main.t SET "s" = NULL, n = 7 WHERE "id" = 0;', None),
    ("UPDATE t SET x = x + n, n = n * 2 WHERE id = 4", None),
    ("UPDATE t SET n = x, x = n WHERE id = 4", None),
    ("UPDATE t SET s = upper(s), m = m / 3 WHERE id = 5", None),
    ("UPDATE t SET x = -0.0, s = 'ß' WHERE id = 0", None),
    ("UPDATE t SET m = 1.005, n = 2.5, d = '2024-02-29' WHERE id = 2", None),
    ("UPDATE t SET w = TIMESTAMP '2020-01-01', x = 1e2 WHERE id = 2", None),
    ("UPDATE t SET m = ?, s = ? WHERE id = ?", [1.25, "p", 3]),
    ("UPDATE t SET m = $2 WHERE id = $1", [3, 9]),
    ("UPDATE t SET n = n + 1, s = $s WHERE id = $id", {"s": "named", "id": 5}),
    ("UPDATE t SET n = 1 WHERE id = 77", None),
    ("UPDATE pair SET v = v + 1 WHERE a = 'x' AND b = 2", None),
    ("UPDATE pair SET v = 5 WHERE b = 1 AND a = 'it''s'", None),
    ("UPDATE t SET (s, n) = (upper(s), ?), x = 3 WHERE id = 4 RETURNING *", [3]),
    ("UPDATE t SET (m, n) = ROW (n, 7), (x) = (m + 1) WHERE id IN (1, 2)", None),
    ("UPDATE t SET (m, n,) = (1.5, 2,), (s) = 'p' WHERE id = 3", None),
    ("DELETE FROM t WHERE id = 2", None),
    ("UPDATE t SET id = 100 WHERE id = 1", None),
    ("UPDATE t SET id = 5 - id WHERE id IN (0, 5) RETURNING id, s", None),
    ("UPDATE t SET id = 7, n = 2 WHERE id = 88", None),
    ("UPDATE t SET id = id WHERE id IN (3, 4)", None),
    ("UPDATE pair SET b = b + 5, a = ? WHERE a = 'x' AND b IN (1, 2)", ["z"]),
    ("DELETE FROM t WHERE id = -2", None),
    ("DELETE FROM t WHERE id = ?", [4]),
    ("DELETE FROM pair WHERE a = ? AND b = ?", ["x", 1]),
    ("UPDATE t SET n = 1 WHERE id = NULL", None),
    ("UPDATE t SET n = 1 WHERE id = 1 AND n = 2", None),
    ("UPDATE t SET n = 1 WHERE id = 1 RETURNING id", None),
    ("UPDATE t SET n = n + ? WHERE id = 1", [2]),
    ("UPDATE t AS u SET n = 1 WHERE u.id = 1", None),
    ("DELETE FROM t WHERE id = 1 RETURNING *", None),
    ("UPDATE t SET n = n + 1, s = s || ? WHERE id IN (?, ?, ?, ?)", ["+", 1, 2, 1, 88]),
    ("UPDATE t SET n = 9 WHERE id IN (5, NULL, 1) AND x < 2 AND s IS NOT NULL RETURNING *", None),
    ("UPDATE t u SET m = u.m + 1 WHERE u.id = 3 AND (x > 1 OR n = 0) RETURNING u.m, id AS k", None),
    ("UPDATE t SET n = ? WHERE id = ? AND d BETWEEN ? AND ?", [3, 3, *DAYS]),
    ("UPDATE t SET n = 1 WHERE id = ?", [None]),
    ("DELETE FROM t WHERE id IN (1, 3) AND s = $s RETURNING id, s, m * 2", {"s": "s3"}),
    ("DELETE FROM t AS u WHERE u.id IN (5, 4)", None),
    ("UPDATE pair SET v = v + b WHERE a IN ('x', 'y') AND b IN (2, 1)", None),
    ("DELETE FROM pair WHERE b = 1 AND a IN ('x', 'it''s') AND v > 10 RETURNING *", None),
    ("UPDATE t SET n = 1 WHERE id = 1 AND n IS DISTINCT FROM 1", None),
    (
        "UPDATE t SET n = 1 WHERE id IN (2, 3) AND w is /* no */ not distinct -- row\n from NULL",
        None,
    ),
    (
        "UPDATE t SET n = (n IS DISTINCT FROM ?)::TINYINT, s = n IS DISTINCT FROM 3 WHERE id = 3",
        [3],
    ),
    ("UPDATE t SET n = extract(day FROM d), s = substring(s FROM 2 FOR 1) WHERE id = 4", None),
    ("UPDATE t SET s = trim(BOTH 's' FROM s) WHERE id = 4 AND extract(year FROM d) = 2024", None),
    ("UPDATE t SET w = CAST('2024-02-29' AS TIMESTAMP WITH TIME ZONE) WHERE id = 2", None),
]
BY_FOUND_KEYS: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 1 WHERE id = 1.4", None),
    ("UPDATE t SET n = 1 WHERE id = '1'", None),
    ("UPDATE t SET n = 1 WHERE id = ?", [1.4]),
    ("UPDATE t SET n = 1 WHERE id = ?", [True]),
    ("UPDATE t SET n = 1 WHERE id = 99999999999999999999", None),
    ("UPDATE t SET n = 1 WHERE n = 1", None),
    ("UPDATE t SET n = 1 WHERE id = 1 AND n + 1 > 0", None),
    ("UPDATE t SET n = 1 WHERE id = 1 AND id = 1 OR n = 2", None),
    ("UPDATE t SET n = 1 WHERE NOT id = 1", None),
    ("UPDATE t SET n = ? WHERE id = 1 AND n > ?", [1, None]),
    ("UPDATE t SET n = 1 WHERE id = 1 OR id = 2", None),
    ("UPDATE t SET n = 1", None),
    ("UPDATE pair SET v = 1 WHERE a = 'x'", None),
    ("UPDATE t SET n = (VALUES (3)) WHERE id = 1", None),
    ("UPDATE t SET n = (SELECT max(v) FROM pair) WHERE id = 1", None),
    ("UPDATE pair SET v = 1 WHERE a = 'it'\n's' AND b = 1", None),
    ("DELETE FROM pair WHERE a IN ('y', 'it' -- one\n's') AND b = 1", None),
]
NATIVE: list[tuple[str, Any]] = [
    ("UPDATE t SET s = DEFAULT WHERE id = 1", None),
    ("UPDATE t SET s = id IN (FROM range(3)) WHERE id = 1", None),
    ("UPDATE t SET s = 4 IN (WITH c AS (VALUES (4)) TABLE c) WHERE id = 1", None),
    ("WITH gone AS (DELETE FROM pair RETURNING *) DELETE FROM t WHERE id = 1", None),
]
WRONG: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 300 WHERE id = 1", None),
    ("UPDATE pair SET b = 2 WHERE a = 'x' AND b = 1", None),
    ("UPDATE pair SET b = 9 WHERE a = 'x' AND b IN (1, 2)", None),
    ("UPDATE pair SET a = NULL WHERE a = 'x' AND b IN (1, 2)", None),
    ("UPDATE t SET n = n + 127 WHERE id = 1", None),
    ("UPDATE t SET m = NULL WHERE id = 1", None),
    ("UPDATE t SET x = 2000 WHERE id = 1", None),
    ("UPDATE t SET x = x + 2000 WHERE id = 1", None),
    ("UPDATE t SET d = 'no date' WHERE id = 1", None),
    ("UPDATE t SET nope = 1 WHERE id = 1", None),
    ("UPDATE t SET n = nope WHERE id = 1", None),
    ("UPDATE t SET n = 1, n = 2 WHERE id = 1", None),
    ("UPDATE t SET n = ? WHERE id = ?", [1]),
]


class Twin:
    """The same tables in ivm and in DuckDB."""

    def __init__(self) -> None:
        self.db = ivm.connect()
        self.duck = duckdb.connect()
        self.duck.execute(TABLES)
        self.db.execute(TABLES)
        self.db.execute(VIEW)

    def run(self, sql: str, params: Any) -> bool:
        """Run it in both; whether it went well."""
        try:
            counted = self.duck.execute(sql, params)
            shown = [str(column[1]) for column in counted.description or ()]
            rows = sorted(counted.fetchall(), key=repr)
        except duckdb.Error:
            with pytest.raises((errors.IvmError, duckdb.Error)):
                self.db.execute(sql, params)
            return False
        result = self.db.execute(sql, params)
        assert result.types == (shown if result.kind != "done" else [])
        assert sorted(result.fetchall(), key=repr) == (rows if result.kind != "done" else [])
        return True

    def check(self) -> None:
        for table in ("t", "pair"):
            query = f"SELECT *, COLUMNS(*)::VARCHAR FROM {table} ORDER BY 1, 2"
            assert self.db.execute(query).fetchall() == self.duck.execute(query).fetchall()
        assert_verified(self.db)


@pytest.fixture
def ran_natively(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that DuckDB has run."""
    seen: list[str] = []
    whole = dml.run_in_duckdb

    def watched(session: Any, transaction: Any, statement: Any, info: Any, params: Any) -> Any:
        seen.append(statement.text)
        return whole(session, transaction, statement, info, params)

    monkeypatch.setattr(dml, "run_in_duckdb", watched)
    return seen


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize(("sql", "params"), [*FAST, *BY_FOUND_KEYS])
def test_no_row_is_changed_by_duckdb(ran_natively: list[str], sql: str, params: Any) -> None:
    twin = Twin()
    ran_natively.clear()
    assert twin.run(sql, params)
    assert ran_natively == []
    twin.check()


@pytest.mark.full
@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u200b", "\u3000", "\ufeff"])
def test_a_change_with_blanks_beyond_ascii_reaches_the_views(blank: str) -> None:
    twin = Twin()
    row = "9, 9, 'a', 1, 2, NULL, NULL"
    texts = ["DELETE FROM t WHERE id = 1", "UPDATE t SET n = 9 WHERE id = 2"]
    for sql in (*texts, f"INSERT INTO t VALUES ({row})", "INSERT INTO pair SELECT 'y', 2, 3"):
        twin.run(sql.replace(" ", blank), None)
        twin.check()


@pytest.mark.cases(4)
@pytest.mark.parametrize(("sql", "params"), NATIVE)
def test_anything_else_is_left_to_duckdb(ran_natively: list[str], sql: str, params: Any) -> None:
    twin = Twin()
    ran_natively.clear()
    assert twin.run(sql, params)
    assert len(ran_natively) == 1
    twin.check()


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_is_refused(ran_natively: list[str], sql: str, params: Any) -> None:
    twin = Twin()
    assert not twin.run(sql, params)
    twin.check()
    assert twin.run("UPDATE t SET n = 3 WHERE id = 1", None)
    twin.check()


steps = st.lists(st.sampled_from([*FAST, *FAST, *BY_FOUND_KEYS, *NATIVE, *WRONG]), max_size=8)


@pytest.mark.full
@settings(max_examples=examples(25), deadline=None)
@given(history=st.lists(st.tuples(st.booleans(), steps), max_size=4))
def test_any_history_leaves_what_duckdb_has(history: list[tuple[bool, Any]]) -> None:
    """Statements alone and in transactions, of which some are rolled back."""
    twin = Twin()
    for keep, statements in history:
        twin.run("BEGIN", None)
        going = all(twin.run(sql, params) for sql, params in statements)
        twin.run("COMMIT" if keep and going else "ROLLBACK", None)
        if statements:
            twin.run(*statements[0])
        twin.check()

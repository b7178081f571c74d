"""A change that meets no row is refused where DuckDB refuses its expressions."""

from __future__ import annotations

import pytest

from tests.support.duckdb_twin import Twin

TABLE = """
CREATE TABLE t (k INTEGER PRIMARY KEY, i INTEGER, h HUGEINT, d DATE, l INTEGER[], s VARCHAR,
                v INTERVAL)
"""
VIEW = "CREATE MATERIALIZED VIEW w AS SELECT i, count(*) AS n FROM t GROUP BY i"
MANY = "INSERT INTO t (k, i, s) SELECT i, i, 'x' FROM range(3000, 6000) r(i)"
STATEMENTS = [
    "UPDATE t SET v = to_days(h) WHERE k = 1",
    "UPDATE t SET v = to_days(h) WHERE k IN (1, 2)",
    "UPDATE t SET v = to_days(h) WHERE k > 9000",
    "UPDATE t SET v = to_days(h) WHERE k % 9000 = 1",
    "UPDATE t SET v = v * v WHERE i = (SELECT 1)",
    "UPDATE t SET i = i + 'x' WHERE k = 1",
    "UPDATE t SET i = l[1][2] WHERE k = 1",
    "UPDATE t SET s = s[1:2:3] WHERE k = 1",
    "UPDATE t SET v = NULL + INTERVAL 24 HOURS WHERE k = 1",
    "UPDATE t SET d = date_trunc('month', NULL) WHERE k = 1",
    "UPDATE t SET i = nope(i) WHERE k = 1",
    "UPDATE t SET i = l WHERE k = 1",
    "UPDATE t SET d = i WHERE i = 7",
    "UPDATE t SET i = sum(i) WHERE k = 1",
    "DELETE FROM t WHERE nope(i)",
    "DELETE FROM t WHERE v = to_days(h)",
    "DELETE FROM t WHERE k = 1 AND v = to_days(h)",
    "DELETE FROM t WHERE k = 1 RETURNING nope(k)",
    "DELETE FROM t WHERE k = [1]",
    "DELETE FROM t WHERE d = 5",
    "DELETE FROM t USING (SELECT 1 AS a WHERE false) o WHERE k = o.a AND nope(o.a)",
    "UPDATE t SET i = o.x FROM (SELECT 1 AS a, [1] AS x WHERE false) o WHERE k = o.a",
    "UPDATE t SET v = to_days(o.x) FROM (SELECT 1 AS a, 1::HUGEINT AS x) o WHERE k = o.a",
    "MERGE INTO t USING (SELECT 1 AS a) o ON k = o.a WHEN MATCHED AND v = to_days(h) THEN DELETE",
    "MERGE INTO t USING (SELECT 1 AS a) o ON k = o.a WHEN MATCHED THEN UPDATE SET v = to_days(h)",
    "INSERT INTO t (k, i) SELECT 1, [1] WHERE false",
    "INSERT INTO t (k, d) SELECT 1, 5 WHERE false",
    "INSERT INTO t (k) VALUES (7) ON CONFLICT (k) DO UPDATE SET v = to_days(t.h)",
    "INSERT INTO t (k) VALUES (7) ON CONFLICT (k) DO UPDATE SET i = [1]",
    "INSERT INTO t (k) VALUES (7) ON CONFLICT (k) DO UPDATE SET i = 'x'",
    "INSERT INTO t (k) VALUES (7) ON CONFLICT (k) DO UPDATE SET i = 1 WHERE t.v = to_days(t.h)",
    "UPDATE t SET i = 'x' WHERE k = 1",
    "UPDATE t SET v = to_days(i) WHERE k = 1",
    "UPDATE t SET v = to_days(i) WHERE k % 9000 = 1",
    "UPDATE t SET s = md5(s) WHERE k > 9000 RETURNING *",
]


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_both_take_it_or_refuse_it(sql: str, filled: bool) -> None:
    both = Twin(TABLE, VIEW, ("t",))
    if filled:
        both.run(MANY)
        both.run("UPDATE t SET i = i + 1 WHERE k % 7 = 0")
    both.run(sql)  # the same outcome on both sides
    both.check()

"""Upserts of a query's rows compare their keys, and compute with them, in the query's own types."""

from __future__ import annotations

import pytest

from tests.support.duckdb_twin import Twin, watched

TABLES = """
CREATE TABLE t (k VARCHAR PRIMARY KEY, v INTEGER);
CREATE TABLE n (k INTEGER PRIMARY KEY, v INTEGER, s VARCHAR);
CREATE TABLE given AS SELECT 1 AS k, 2.6 AS v;
INSERT INTO t VALUES ('1', 1), ('01', 2);
INSERT INTO n VALUES (1, 1, 'a');
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT v, count(*) AS c FROM t GROUP BY v;
CREATE MATERIALIZED VIEW w AS SELECT sum(v) AS v, max(s) AS s FROM n
"""
IN_OWN_TYPES = [
    "INSERT INTO n (k, v) SELECT 1, 2.6 ON CONFLICT (k) DO UPDATE SET v = excluded.v * 2",
    "INSERT INTO n (v, k) SELECT v, k FROM given ON CONFLICT DO UPDATE SET v = n.v + excluded.v",
    "INSERT INTO n BY NAME FROM given ON CONFLICT (k) DO UPDATE SET v = 7 WHERE excluded.v < 2.7",
    "INSERT INTO n SELECT 1, 2, 3 ON CONFLICT DO UPDATE SET s = excluded.s + 4 RETURNING s",
    "WITH g AS (SELECT 2.6) INSERT INTO n SELECT 1, *, '' FROM g ON CONFLICT DO UPDATE "
    "SET v = excluded.v * (2 + random() * 0)",
    "INSERT OR REPLACE INTO t SELECT 1, 5",
    "INSERT INTO t SELECT i, 5 FROM range(1, 4) r(i) ON CONFLICT (k) DO UPDATE SET v = 6",
    "INSERT OR IGNORE INTO n SELECT 1.4, 2, NULL",
    "INSERT INTO n SELECT 1.0, 2, NULL ON CONFLICT DO UPDATE SET v = 3",
]
FAST = [
    "INSERT INTO n (k, v) VALUES (1, 2.6) ON CONFLICT (k) DO UPDATE SET v = excluded.v * 2",
    "INSERT INTO n (k, v) VALUES (1, 5.2 / 2) ON CONFLICT (k) DO UPDATE SET v = excluded.v * 2",
    "INSERT INTO n (k, v) SELECT 1, 2.6 ON CONFLICT (k) DO UPDATE SET v = excluded.v, s = n.s",
    "INSERT OR REPLACE INTO n SELECT '1', 2.6, 3",
    "INSERT INTO t SELECT '0' || '1', 5::BIGINT ON CONFLICT (k) DO NOTHING",
    "INSERT INTO n (k, v) SELECT 1::TINYINT, NULL ON CONFLICT (k) DO UPDATE SET v = -excluded.v",
]


@pytest.mark.full
@pytest.mark.parametrize("sql", IN_OWN_TYPES)
def test_rows_are_compared_and_computed_with_as_the_query_gives_them(sql: str) -> None:
    twin = Twin(TABLES, VIEWS, tables=("t", "n"))
    for _ in range(4):  # memory may give the rows from the third time on
        twin.run(sql)
        twin.check()


@pytest.mark.parametrize("sql", FAST)
def test_where_the_types_make_no_difference_duckdb_changes_nothing(sql: str) -> None:
    twin = Twin(TABLES, VIEWS, tables=("t", "n"))
    with watched() as ran:
        for _ in range(4):
            twin.run(sql)
    twin.check()
    assert ran == []

"""MERGE computes the values of all branches for every row, as DuckDB does, which may refuse it."""

from __future__ import annotations

import itertools

import pytest

from tests.support.change_ways import demand_fast
from tests.support.duckdb_twin import Twin

TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, u UTINYINT); INSERT INTO t VALUES (1, 7)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT u, count(*) AS n FROM t GROUP BY u"
MATCHED = [
    "THEN UPDATE SET u = s.b",
    "THEN UPDATE SET u = 1 // (s.b - s.b)",
    "THEN UPDATE SET u = t.u + s.b",
    "AND s.b > 1000 THEN UPDATE SET u = 300",
    "AND s.b > 1000 THEN UPDATE SET u = t.u + s.b",
    "AND t.u IS NULL THEN UPDATE SET u = CAST('x' || s.b AS INTEGER)",
    "AND s.b > 1000 THEN DELETE WHEN MATCHED AND s.b < 9 THEN UPDATE SET u = s.b",
    "THEN DELETE",
]
UNMATCHED = [
    "THEN INSERT (k, u) VALUES (s.a, s.b)",
    "THEN INSERT",
    "THEN INSERT (k) VALUES (s.a)",
    "THEN DO NOTHING",
    "AND s.b > 1000 THEN INSERT (k, u) VALUES (s.a, 1 // (s.b - s.b))",
]
SOURCES = ["(1, 300)", "(9, 300)", "(1, 5), (9, 300)", "(1, 300), (9, 5)", "(1, 5), (9, 6)"]


@pytest.mark.full
@pytest.mark.parametrize("matched", MATCHED)
def test_both_take_it_or_refuse_it(matched: str) -> None:
    both = Twin(TABLE, VIEW, ("t",))
    for unmatched, source in itertools.product(UNMATCHED, SOURCES):
        both.run("BEGIN")
        both.run(
            f"MERGE INTO t USING (VALUES {source}) s(a, b) ON k = s.a"
            f" WHEN MATCHED {matched} WHEN NOT MATCHED {unmatched}"
        )
        both.run("ROLLBACK")
    both.check()


def test_values_that_fit_need_no_duckdb() -> None:
    both = Twin(TABLE, VIEW, ("t",))
    merge = "MERGE INTO t USING (VALUES (1, 5), (9, 6)) s(a, b) ON k = s.a"
    branches = "WHEN MATCHED THEN UPDATE SET u = t.u + s.b WHEN NOT MATCHED THEN INSERT"
    demand_fast(both, f"{merge} {branches}", None)

"""Expressions inside calls of aggregates and window functions have the kernels of a SELECT list."""

from __future__ import annotations

import pytest

import ivm
from tests.support.view_oracle import assert_verified

SCHEMA = """
    CREATE TABLE bids (id INTEGER PRIMARY KEY, buyer INTEGER, page VARCHAR, ts TIMESTAMP);
    INSERT INTO bids SELECT i, i % 3, ['ab', 'Ba', NULL, 'b/c'][i % 4 + 1],
        TIMESTAMP '2026-01-01' + INTERVAL 7 HOUR * i FROM range(20) t(i);
"""
CALLS = [
    "max(upper(page))",
    "sum(year(ts))",
    "max(date_trunc('hour', ts))",
    "max(split_part(page, '/', 1) || strftime(ts, '%Y-%m-%d'))",
    "count(DISTINCT strftime(ts, '%H'))",
    "count(DISTINCT lower(page)) FILTER (WHERE lower(page) <> 'ab')",
    "string_agg(upper(page), ',' ORDER BY lower(page) DESC, id)",
    "list(DISTINCT upper(page))",
    "list({'u': upper(page), 'y': year(ts)} ORDER BY id)",
    "arg_max(lower(page), hour(ts))",
    "quantile_cont(day(ts), 0.5)",
    "percentile_disc(0.25) WITHIN GROUP (ORDER BY day(ts))",
    "mode() WITHIN GROUP (ORDER BY upper(page))",
    "bool_or(CASE WHEN hour(ts) > 8 THEN lower(page) = 'b/c' END)",
]
OVER = "OVER (PARTITION BY upper(page) ORDER BY date_trunc('day', ts), id)"
QUERIES = [
    *[f"SELECT buyer, {call} FROM bids GROUP BY buyer" for call in CALLS],
    "SELECT upper(page) AS p, count(*) FROM bids GROUP BY 1 HAVING count(DISTINCT hour(ts)) > 1",
    "SELECT buyer FROM bids GROUP BY buyer HAVING length(max(lower(page))) > 2",
    f"SELECT id, sum(hour(ts)) {OVER} FROM bids",
    f"SELECT id, lag(lower(page), 1, 'none') {OVER} FROM bids",
    f"SELECT id, first_value(lower(page) IGNORE NULLS) {OVER} FROM bids",
    f"SELECT id, count(lower(page)) FILTER (WHERE hour(ts) > 8) {OVER} FROM bids",
    f"SELECT id, count(DISTINCT lower(page)) FILTER (WHERE hour(ts) > 8) {OVER} FROM bids",
]


@pytest.mark.parametrize("query", QUERIES)
def test_functions_in_a_call_are_no_statement_of_duckdb(query: str) -> None:
    _check(query)


def test_functions_in_the_call_of_a_macro_that_hides_one_are_no_statement() -> None:
    _check("SELECT id, reverse(lower(page)) FROM bids", "CREATE MACRO reverse(x) AS x || '!'")


def _check(query: str, macros: str = "") -> None:
    with ivm.connect() as db:
        db.execute(SCHEMA + macros)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        lines = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()
        assert not [line for line in lines if "by a DuckDB statement" in str(line)]
        db.execute("DELETE FROM bids WHERE id % 5 = 1; UPDATE bids SET page = 'cA' WHERE id < 4")
        assert_verified(db, "v")

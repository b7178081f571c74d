"""Views of ASOF joins against DuckDB under random changes of both sides.

Times and keys may be missing, times infinite and equal. Of right rows at one time DuckDB may take
any, so what a query shows of them is their key and time alone, or its right side has one a time.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.delta_ops.joins.nearest_join import NearestJoin
from tests.support.row_changes import Change, assert_follows
from tests.tiers import examples

TABLES = (
    "CREATE TABLE l (id INTEGER PRIMARY KEY, k INTEGER, ts TIMESTAMP, v INTEGER);"
    "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER, ts TIMESTAMP, v INTEGER);"
)
FIRST = "(SELECT DISTINCT ON (k, ts) k, ts, v, id FROM r ORDER BY k, ts, v NULLS LAST, id)"
"""The right rows, of those with one key and time the first: DuckDB's choice has no ties then."""
RIGHT = "(SELECT k, ts, v, id FROM r)"
QUERIES = [
    "SELECT l.id, r.* FROM l ASOF JOIN {} r ON l.k = r.k AND l.ts >= r.ts",
    "SELECT l.*, r.* FROM l ASOF LEFT JOIN {} r ON l.k = r.k AND l.ts > r.ts",
    "SELECT l.id, r.v + l.v AS w FROM l ASOF JOIN {} r ON l.k = r.k AND l.ts <= r.ts",
    "SELECT l.id, r.id FROM l ASOF LEFT JOIN {} r ON l.k IS NOT DISTINCT FROM r.k AND l.ts < r.ts",
    "SELECT l.id, r.ts FROM l ASOF LEFT JOIN r ON l.ts >= r.ts",
    "SELECT l.id, r.ts FROM l ASOF JOIN r ON l.ts < r.ts + INTERVAL '1 day'",
    "SELECT l.id, r.id FROM l ASOF JOIN {} r ON l.k = r.k AND l.ts >= r.ts WHERE r.v > l.v",
    "SELECT l.id, r.id FROM l ASOF JOIN {} r ON l.k = r.k AND l.ts >= r.ts WHERE r.v = 1",
    "SELECT r.v, count(*), sum(l.v) FROM l ASOF JOIN {} r ON l.k = r.k AND l.ts >= r.ts"
    " GROUP BY r.v",
    "SELECT 7 AS seven FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts",
    "SELECT k, m.ts, r.id FROM (SELECT k, max(ts) AS ts FROM l GROUP BY k) m ASOF JOIN {} r"
    " USING (k, ts)",
]
TIMES = [None, "-infinity", "infinity", *[f"2024-01-0{day}" for day in range(1, 6)]]
ROW = st.tuples(
    st.sampled_from("lr"),
    st.integers(0, 12),
    st.sampled_from([None, 0, 1]),
    st.sampled_from(TIMES),
    st.sampled_from([None, 0, 1, 2]),
)
CHANGE = st.one_of(ROW, ROW, ROW, st.tuples(st.sampled_from("lr"), st.integers(0, 12)))
STEPS = st.lists(st.lists(CHANGE, min_size=1, max_size=8), min_size=2, max_size=6)


def demand_nearest(db: ivm.Database) -> None:
    circuit = db._engine.maintenance.circuit
    assert any(isinstance(circuit.node(i).operator, NearestJoin) for i in circuit.numbers)


@pytest.mark.cases(4)
@pytest.mark.parametrize("query", QUERIES)
@settings(deadline=None, max_examples=examples(12))
@given(first=st.lists(ROW, max_size=12), steps=STEPS)
def test_follows_duckdb(query: str, first: list[Change], steps: list[list[Change]]) -> None:
    ours, wanted = query.format(RIGHT), query.format(FIRST)
    assert_follows(TABLES, ours, wanted, first, steps, demand_nearest)

"""Groups of sessions against DuckDB, which finds gaps and islands, under random changes.

Keys and times may be missing, times infinite and equal; sessions are merged, split and emptied.
"""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.delta_ops.joins.join import Join
from tests.support.row_changes import Change, assert_follows
from tests.tiers import examples

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x DOUBLE, ts TIMESTAMP, v INTEGER)"
ISLANDS = (
    "(SELECT *, min(ts) OVER w AS window_start, max(ts) OVER w + INTERVAL '10 minutes'"
    " AS window_end FROM (SELECT *, sum(new) OVER ({0} ORDER BY ts RANGE UNBOUNDED PRECEDING) AS n"
    " FROM (SELECT *, (ts - INTERVAL '10 minutes' <= lag(ts) OVER ({0} ORDER BY ts)) IS NOT TRUE"
    " AS new FROM t WHERE isfinite(ts))) WINDOW w AS (PARTITION BY {1}n))"
)
CALLS = {
    "": (ISLANDS.format("", ""), "session(t, ts, INTERVAL '10 minutes')"),
    "k": (
        ISLANDS.format("PARTITION BY k", "k, "),
        "session(t, ts, INTERVAL '10 minutes', partition_by := [k])",
    ),
    "k, x": (
        ISLANDS.format("PARTITION BY k, x", "k, x, "),
        "session(t, ts, INTERVAL '10 minutes', partition_by := [k, x])",
    ),
}
SPLIT = [
    ("", "SELECT window_start, window_end, count(*), sum(v), max(v) FROM {} GROUP BY ALL"),
    ("", "SELECT window_end, window_start, avg(v), count(DISTINCT k) FROM {} GROUP BY ALL"),
    ("k", "SELECT k, window_start, window_end, count(*), min(v + 1) FROM {} GROUP BY ALL"),
    ("k", "SELECT window_end, k, window_start, sum(v) FROM {} WHERE v > 0 GROUP BY ALL"),
    ("k", "SELECT window_end - window_start AS l, n FROM (SELECT k, window_start, window_end,"
     " count(*) AS n FROM {} GROUP BY ALL HAVING sum(v) > 1)"),
    ("k", "SELECT k, v, window_start, window_end, count(*) FROM {} GROUP BY ALL"),
    ("k, x", "SELECT k, x, window_start, window_end, max(ts), sum(v) FROM {} GROUP BY ALL"),
]  # fmt: skip
OTHERS = [
    ("k", "SELECT window_start, window_end, count(*) FROM {} GROUP BY ALL"),
    ("k", "SELECT k, window_end, count(*) FROM {} GROUP BY ALL"),
    ("k", "SELECT k, window_start, window_end, max(window_end - ts) FROM {} GROUP BY ALL"),
    ("k", "SELECT k, window_start, window_end, count(*) FROM {} WHERE window_end > '2024-01-01"
     " 00:30:00' GROUP BY ALL"),
]  # fmt: skip
TIMES = [None, "-infinity", "infinity", *[f"2024-01-01 00:{m:02}:00" for m in range(0, 60, 4)]]
ROW = st.tuples(
    st.just("t"),
    st.integers(0, 20),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, 0.0, -0.0, 1.5]),
    st.sampled_from(TIMES),
    st.sampled_from([None, 0, 1, 2]),
)
STEPS = st.lists(
    st.lists(
        st.one_of(ROW, ROW, st.tuples(st.just("t"), st.integers(0, 20))), min_size=1, max_size=8
    ),
    min_size=2,
    max_size=6,
)


def joins(db: ivm.Database) -> int:
    """Joins in the circuit."""
    circuit = db._engine.maintenance.circuit
    return sum(isinstance(circuit.node(i).operator, Join) for i in circuit.numbers)


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("parts", "query", "split"), [*[(*q, True) for q in SPLIT], *[(*q, False) for q in OTHERS]]
)
@settings(deadline=None, max_examples=examples(10))
@given(first=st.lists(ROW, max_size=20), steps=STEPS)
def test_follows_duckdb(
    parts: str,
    query: str,
    split: bool,
    first: list[Change],
    steps: list[list[Change]],
) -> None:
    islands, call = CALLS[parts]

    def demand_split(db: ivm.Database) -> None:
        assert joins(db) == split

    wanted = query.format(islands)
    assert_follows(TABLE, query.format(call), wanted, first, steps, demand_split)


def test_a_row_that_extends_a_session_touches_few_rows() -> None:
    with ivm.connect() as db:
        db.execute(TABLE)
        db.execute(
            "INSERT INTO t SELECT i, 1, 0, TIMESTAMP '2024-01-01' + to_seconds(i), i"
            " FROM range(3000) r(i)"
        )
        db.execute(f"CREATE MATERIALIZED VIEW m AS {SPLIT[2][1].format(CALLS['k'][1])}")
        circuit = db._engine.maintenance.circuit
        db.execute("INSERT INTO t VALUES (3000, 1, 0, TIMESTAMP '2024-01-01 00:50:00', 7)")
        works = [circuit.node(i).work for i in circuit.numbers]
        assert 0 < sum(work.rows_out for work in works) < 60
        assert db.execute("SELECT window_end FROM m").fetchall() == [(datetime(2024, 1, 1, 1),)]

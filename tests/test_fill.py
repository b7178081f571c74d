"""fill() over an order without ties: kept by what stands up to the second value around a change."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import ivm
from ivm.delta_ops.duck_eval import run_sql

QUERIES = [
    "SELECT ts, fill(x) OVER (ORDER BY ts) AS x, fill(n) OVER (ORDER BY ts) AS n FROM t",
    "SELECT ts, fill(x) OVER (PARTITION BY p ORDER BY ts DESC) AS x FROM t",
    # Keys may be NULL and infinite; they are unique, being grouped by.
    "SELECT k, fill(x) OVER (ORDER BY k) AS x, fill(d) OVER (ORDER BY k DESC NULLS FIRST) AS d"
    " FROM (SELECT k, min(x) AS x, max(n)::DECIMAL(9, 2) AS d FROM t GROUP BY k)",
    "SELECT day, fill(n) OVER (ORDER BY day) AS n FROM"
    " (SELECT DATE '2026-01-01' + (ts * 7 % 40) AS day, min(n) AS n FROM t GROUP BY ALL)",
]
FLOATS = [None, None, None, 1.5, -2.0, 100.0, float("inf"), float("nan")]
KEYS = [None, *[float(i) for i in range(40)], float("inf"), float("-inf"), float("nan")]
NUMBERS = [None, None, None, 1, 50, -7]


def _row(random: Random, ts: int) -> dict[str, Any]:
    floats, numbers = random.choice(FLOATS), random.choice(NUMBERS)
    return {"ts": ts, "p": ts % 3, "k": random.choice(KEYS), "x": floats, "n": numbers}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_values_around_a_change_are_filled_anew(query: str, seed: int) -> None:
    random = Random(seed)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (ts INTEGER PRIMARY KEY, p INTEGER, k DOUBLE, x DOUBLE, n INT)")
        db.insert("t", [_row(random, ts) for ts in range(0, 60, 2)])
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert db.views()[0].strategy == "group recompute"
        for _ in range(12):
            with db.transaction():
                chosen = random.sample(range(60), random.choice([1, 2, 8]))
                db.execute(f"DELETE FROM t WHERE ts IN ({', '.join(map(str, chosen))})")
                come = [ts for ts in chosen if random.random() < 0.7]
                if come:
                    db.insert("t", [_row(random, ts) for ts in come])
            shown = [db.execute(sql).fetchall() for sql in ("FROM v", query)]
            assert sorted(map(repr, shown[0])) == sorted(map(repr, shown[1]))


def test_a_change_touches_the_rows_up_to_the_second_value(monkeypatch: pytest.MonkeyPatch) -> None:
    lent: list[int] = []

    def counted(*arguments: Any) -> Any:
        lent.append(len(arguments[2]["delta"][0]))
        return run_sql(*arguments)

    with ivm.connect() as db:
        db.execute("CREATE TABLE t (ts INTEGER PRIMARY KEY, x DOUBLE)")
        db.execute("INSERT INTO t SELECT i, CASE WHEN i % 10 = 0 THEN i END FROM range(10000) s(i)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT ts, fill(x) OVER (ORDER BY ts) AS x FROM t"
        )
        monkeypatch.setattr("ivm.delta_ops.window_recompute.run_sql", counted)
        db.execute("UPDATE t SET x = 7 WHERE ts = 5000")
        assert db.execute("SELECT x FROM v WHERE ts = 4995").fetchall() == [(2498.5,)]
        assert lent
        assert max(lent) < 100

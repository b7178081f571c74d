"""fill(): kept by what stands up to the second value around a change, also where keys tie."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

import ivm
from ivm.delta_ops.linear.duck_eval import run_sql

UNIQUE = [
    "SELECT ts, fill(x) OVER (ORDER BY ts) AS x, fill(n) OVER (ORDER BY ts) AS n FROM t",
    "SELECT ts, fill(x) OVER (PARTITION BY p ORDER BY ts DESC ROWS 1 PRECEDING) AS x FROM t",
    # Keys may be NULL and infinite; they are unique, being grouped by.
    "SELECT k, fill(x) OVER (ORDER BY k) AS x, fill(d) OVER (ORDER BY k DESC NULLS FIRST) AS d"
    " FROM (SELECT k, min(x) AS x, max(n)::DECIMAL(9, 2) AS d FROM t GROUP BY k)",
    "SELECT day, fill(n) OVER (ORDER BY day) AS n FROM"
    " (SELECT DATE '2026-01-01' + (ts * 7 % 40) AS day, min(n) AS n FROM t GROUP BY ALL)",
    "SELECT ts, fill(day) OVER (ORDER BY ts) AS day, fill(seen) OVER (ORDER BY ts DESC) AS seen,"
    " fill(seen::TIMESTAMP_S) OVER (ORDER BY ts) AS second FROM t",
    "SELECT day, fill(x) OVER (ORDER BY day) AS x, fill(seen) OVER (ORDER BY day DESC) AS seen"
    " FROM (SELECT day, min(x) AS x, min(seen) AS seen FROM t GROUP BY day)",
]
# Rows with one key stand in the order of the columns that the query uses.
TIED = [
    ("SELECT p, x, fill(x) OVER (ORDER BY p) AS f FROM t",
     "SELECT p, x, fill(x ORDER BY p) OVER (ORDER BY p, x) AS f FROM t"),
    ("SELECT p, k, fill(n) OVER (PARTITION BY p ORDER BY k DESC NULLS FIRST) AS n FROM t",
     "SELECT p, k, fill(n ORDER BY k DESC NULLS FIRST) OVER"
     " (PARTITION BY p ORDER BY k DESC NULLS FIRST, n) AS n FROM t"),
    ("SELECT p, x, fill(seen) OVER (ORDER BY day GROUPS 1 PRECEDING) AS seen FROM t",
     "SELECT p, x, fill(seen ORDER BY day) OVER (ORDER BY day, p, x, seen) AS seen FROM t"),
    ("SELECT p, fill(day) OVER (PARTITION BY p % 2 ORDER BY n % 4) AS day FROM t",
     "SELECT p, fill(day ORDER BY n % 4) OVER (PARTITION BY p % 2 ORDER BY n % 4, p, n, day) AS day"
     " FROM t"),
]  # fmt: skip
CASES = [(query, query) for query in UNIQUE] + TIED
FLOATS = [None, None, None, 1.5, -2.0, 100.0, float("inf"), float("nan")]
KEYS = [None, *[float(i) for i in range(40)], float("inf"), float("-inf"), float("nan")]
NUMBERS = [None, None, None, 1, 50, -7]
DAYS = [None, None, "2026-01-01", "2026-01-09", "1969-12-01", "infinity", "-infinity"]
TIMES = [None, None, "2026-01-01 10:20:30.5", "1960-07-01", "infinity", "-infinity"]


def _row(random: Random, ts: int) -> dict[str, Any]:
    floats, numbers = random.choice(FLOATS), random.choice(NUMBERS)
    row = {"ts": ts, "p": ts % 3, "k": random.choice(KEYS), "x": floats, "n": numbers}
    return row | {"day": random.choice(DAYS), "seen": random.choice(TIMES)}


def _insert(db: ivm.Database, random: Random, numbers: Iterable[int]) -> None:
    rows = [tuple(_row(random, ts).values()) for ts in numbers]
    if rows:
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        db.execute(f"INSERT INTO t VALUES {places}", [v for row in rows for v in row])


@pytest.mark.full
@pytest.mark.cases(12)
@pytest.mark.parametrize(("query", "wanted"), CASES)
@pytest.mark.parametrize("seed", range(2))
def test_values_around_a_change_are_filled_anew(query: str, wanted: str, seed: int) -> None:
    random = Random(seed)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (ts INTEGER PRIMARY KEY, p INTEGER, k DOUBLE, x DOUBLE, n INT,"
                   " day DATE, seen TIMESTAMP)")  # fmt: skip
        _insert(db, random, range(0, 60, 2))
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert db.views()[0].strategy == "group recompute"
        for _ in range(12):
            with db.transaction():
                chosen = random.sample(range(60), random.choice([1, 2, 8]))
                db.execute(f"DELETE FROM t WHERE ts IN ({', '.join(map(str, chosen))})")
                come = [ts for ts in chosen if random.random() < 0.7]
                _insert(db, random, come)
            shown, expected = [
                db.execute(f"SELECT columns(*)::VARCHAR FROM {source}").fetchall()
                for source in ("v", f"({wanted})")
            ]
            assert sorted(map(repr, shown)) == sorted(map(repr, expected))


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_a_change_touches_the_rows_up_to_the_second_value(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[int] = []

    def counted(*arguments: Any) -> Any:
        registered.append(len(arguments[2]["delta"][0]))
        return run_sql(*arguments)

    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (ts INTEGER {key}, x DOUBLE)")
        db.execute("INSERT INTO t SELECT i, CASE WHEN i % 10 = 0 THEN i END FROM range(10000) s(i)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT ts, fill(x) OVER (ORDER BY ts) AS x FROM t"
        )
        monkeypatch.setattr("ivm.delta_ops.ordered.duck_window.run_sql", counted)
        db.execute("UPDATE t SET x = 7 WHERE ts = 5000")
        assert db.execute("SELECT x FROM v WHERE ts = 4995").fetchall() == [(2498.5,)]
        assert registered
        assert max(registered) < 100

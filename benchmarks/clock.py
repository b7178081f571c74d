"""What a tick costs, whatever the number of rows: two views that read the time, and a retention.

Events stand every 10 ms; the clock is moved by a second at a time, by hand, so that 100 rows pass
the bounds of both views at each tick, and 100 rows are older than the table keeps them. Beside it
DuckDB recomputes the views' queries over the same rows. Commits are timed in turns with those of a
twin, whose views lack the condition on the time, at durability interval, since the sync of a busy
disk would hide the rest. On a busy machine compare the ratios alone.

    python -m benchmarks.clock [--rows 1000000 10000000] [--ticks 60]
"""

from __future__ import annotations

import argparse
import contextlib
import re
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import ivm

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
PASSING = 100  # rows a second
HOURLY = "ts > now() - INTERVAL 1 HOUR"
VIEWS = {
    "filter and aggregate": f"SELECT kind, count(*) AS n, sum(amount) AS s FROM events "
    f"WHERE {HOURLY} GROUP BY kind",
    "join": "SELECT c.region, count(*) AS n FROM events e JOIN customers c ON e.customer = c.id "
    "WHERE e.ts > now() - INTERVAL 30 MINUTE GROUP BY c.region",
}


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)] * 1000


class Run:
    """One number of rows.

    Args:
        folder: for the file.
        rows: how many events.
        name: of the file.
        durability: of the database.
    """

    def __init__(self, folder: Path, rows: int, name: str, durability: str) -> None:
        self.rows = rows
        self.now = BEGIN + timedelta(seconds=rows / PASSING)
        self.next_id = rows
        file = folder / f"{name}{rows}.duckdb"
        self.db = ivm.connect(file, clock=lambda: self.now, durability=durability)
        self.db.execute("""
            CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR);
            CREATE TABLE events (id BIGINT PRIMARY KEY, ts TIMESTAMPTZ, customer INTEGER,
                kind VARCHAR, amount INTEGER);
            INSERT INTO customers SELECT i, 'region ' || i % 20 FROM range(10000) r(i);
        """)
        self.db.execute(
            "INSERT INTO events SELECT i, make_timestamptz(epoch_us(TIMESTAMPTZ "
            f"'{BEGIN}') + i * 10000), i % 10000, 'kind ' || i % 8, i % 1000"
            f" FROM range({rows}) r(i)"
        )

    def views(self, *, timed: bool = True) -> None:
        for number, query in enumerate(VIEWS.values()):
            text = query if timed else re.sub("WHERE.*GROUP", "GROUP", query)
            self.db.execute(f"CREATE MATERIALIZED VIEW view{number} AS {text}")

    def commits(self, count: int) -> list[float]:
        """The seconds of commits of one new event each."""
        return [self._timed(self._insert) for _ in range(count)]

    def _insert(self) -> None:
        row = {"id": self.next_id, "ts": self.now, "customer": self.next_id % 10000}
        self.db.insert("events", [{**row, "kind": "kind 1", "amount": 7}])
        self.next_id += 1

    def ticks(self, count: int) -> list[float]:
        """The seconds of ticks at which rows pass."""
        found = []
        for _ in range(count):
            self.now += timedelta(seconds=1)
            found.append(self._timed(self.db.tick))
        return found

    @staticmethod
    def _timed(act: Callable[[], None]) -> float:
        started = time.perf_counter()
        act()
        return time.perf_counter() - started

    def recompute(self) -> float:
        """The seconds of DuckDB's answers to both queries at the last tick."""
        cursor = self.db._engine.warehouse.cursor()
        self.db.flush()
        found = []
        for _ in range(5):
            started = time.perf_counter()
            for query in VIEWS.values():
                text = query.replace("now()", f"TIMESTAMPTZ '{self.now}'")
                cursor.execute(text).fetchall()
            found.append(time.perf_counter() - started)
        return median(found)

    def verify(self) -> None:
        found = self.db.execute("VERIFY MATERIALIZED VIEWS").fetchall()
        assert all(row[4] for row in found), found


def measure(folder: Path, rows: int, ticks: int) -> None:
    """Prints the lines of one number of rows."""
    kept = timedelta(seconds=rows / PASSING - 10)
    retain = f"SET (retain = '{kept.total_seconds():.0f} seconds', retain_by = ts)"
    run = Run(folder, rows, "durable", "commit")
    with contextlib.closing(run.db):
        run.views()
        run.ticks(5)
        line(rows, "tick, two views", run.ticks(ticks), _recomputed(run))
        run.verify()
        run.db.execute(f"ALTER TABLE events {retain}")
        run.ticks(8 + ticks // 4)
        line(rows, "tick, 100 rows deleted", run.ticks(ticks))
        run.verify()
    run, twin = [Run(folder, rows, name, "interval") for name in ("mine", "twin")]
    with contextlib.closing(run.db), contextlib.closing(twin.db):
        run.views()
        twin.views(timed=False)
        run.ticks(5)
        line(rows, "tick, not synced", run.ticks(ticks))
        in_turns(rows, "commit", run, twin)
        run.db.execute(f"ALTER TABLE events {retain}")
        run.ticks(8 + ticks // 4)
        line(rows, "tick, 100 deleted, not synced", run.ticks(ticks))
        in_turns(rows, "commit, with retention", run, twin)


def _recomputed(run: Run) -> str:
    return f"DuckDB recomputes both: {run.recompute() * 1000:.1f} ms"


def in_turns(rows: int, what: str, run: Run, twin: Run) -> None:
    """Prints commits of both, which are made in turns, a tick now and then between them."""
    mine: list[float] = []
    others: list[float] = []
    for turn in range(40):
        others += twin.commits(20)
        mine += run.commits(20)
        if turn % 4 == 0:
            run.ticks(1)
    ratio = median(mine) / median(others)
    line(rows, what, mine, f"{ratio:.2f} × the twin's ({percentile(others, 0.5):.3f} ms)")


def line(rows: int, what: str, times: list[float], note: str = "") -> None:
    told = f"p50 {percentile(times, 0.5):7.3f} ms   p99 {percentile(times, 0.99):7.3f} ms"
    print(f"{rows:>11,}  {what:<30} {told}   {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--ticks", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rows in given.rows:
            measure(Path(folder), rows, given.ticks)


if __name__ == "__main__":
    main()

"""What a tick costs, whatever the number of rows: two views that read the time, and a retention.

Events stand every 10 ms; the clock is moved by a second at a time, by hand, so that 100 rows pass
the bounds of both views at each tick, and 100 rows are older than the table keeps them. Beside it
DuckDB recomputes the views' queries over the same rows. Commits are timed with and without the
views that read the time, in turns. On a busy machine compare the ratios alone.

    python -m benchmarks.clock [--rows 1000000 10000000] [--ticks 60]
"""

from __future__ import annotations

import argparse
import contextlib
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
BESIDE = "SELECT customer, count(*) AS n FROM events GROUP BY customer"


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)] * 1000


class Run:
    """One number of rows.

    Args:
        folder: for the file.
        rows: how many events.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self.rows = rows
        self.now = BEGIN + timedelta(seconds=rows / PASSING)
        self.next_id = rows
        self.db = ivm.connect(folder / f"{rows}.duckdb", clock=lambda: self.now)
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
        self.db.execute(f"CREATE MATERIALIZED VIEW beside AS {BESIDE}")

    def views(self) -> None:
        for number, query in enumerate(VIEWS.values()):
            self.db.execute(f"CREATE MATERIALIZED VIEW timed{number} AS {query}")

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
    run = Run(folder, rows)
    with contextlib.closing(run.db):
        run.commits(50)  # warms up
        before = run.commits(300)
        run.views()
        run.ticks(5)
        both = run.ticks(ticks)
        after = run.commits(300)
        run.verify()
        recomputed = run.recompute()
        line(rows, "tick, two views", both, f"DuckDB recomputes both: {recomputed * 1000:.1f} ms")
        line(rows, "commit before the views", before)
        line(rows, "commit beside them", after, f"{median(after) / median(before):.2f} × as long")
        kept = timedelta(seconds=rows / PASSING - 10)
        run.db.execute(
            f"ALTER TABLE events SET (retain = '{kept.total_seconds():.0f} seconds', "
            "retain_by = ts)"
        )
        run.ticks(8)
        line(rows, "tick, and 100 rows deleted", run.ticks(ticks))
        line(rows, "commit beside all", run.commits(300))
        run.verify()


def line(rows: int, what: str, times: list[float], note: str = "") -> None:
    told = f"p50 {percentile(times, 0.5):7.3f} ms   p99 {percentile(times, 0.99):7.3f} ms"
    print(f"{rows:>11,}  {what:<28} {told}   {note}", flush=True)


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

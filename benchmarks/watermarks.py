"""What a watermark and a final view cost a commit, and how long many rows take to become final.

Clicks come one a commit, a second apart. Commits are timed in turns with those of twins: one whose
table has no watermark and no final view, one with a watermark alone, and one with a view that is
always up to date in the place of the final one; without syncing, since the sync of a busy disk
would hide the rest. Then many groups of one window become final by one row. On a busy machine
compare the ratios alone.

    python -m benchmarks.watermarks [--rows 1000000] [--commits 2000] [--groups 100000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import ivm

BEGIN = datetime(2026, 1, 1)
SECOND = timedelta(seconds=1)
TURN = 20  # commits of one database before it is another's turn
QUERY = (
    "SELECT window_end, person, count(*) AS n FROM tumble(clicks, ts, INTERVAL '1 hour')"
    " GROUP BY ALL"
)
UP_TO_DATE = f"CREATE MATERIALIZED VIEW hours AS {QUERY}"
KINDS = {
    "no watermark, no view": (False, ""),
    "a watermark alone": (True, ""),
    "a view always up to date": (False, UP_TO_DATE),
    "a watermark and a final view": (True, f"{UP_TO_DATE} EMIT ON WINDOW CLOSE"),
}


def percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)] * 1000


class Run:
    """One database of some rows, a second apart."""

    def __init__(self, folder: Path, rows: int, *, marked: bool, view: str) -> None:
        self.rows = rows
        self.db = ivm.connect(
            folder / f"{len(list(folder.iterdir()))}.duckdb", durability="interval"
        )
        clause = ", WATERMARK FOR ts AS ts - INTERVAL '5 minutes'" if marked else ""
        self.db.execute(
            f"CREATE TABLE clicks (id BIGINT PRIMARY KEY, ts TIMESTAMP, person BIGINT{clause})"
        )
        self.db.execute(
            f"INSERT INTO clicks SELECT i, TIMESTAMP '{BEGIN}' + i * INTERVAL 1 SECOND, i % 5000"
            f" FROM range({rows}) r(i)"
        )
        if view:
            self.db.execute(view)

    def commits(self, count: int) -> list[float]:
        """The seconds of commits of one row each."""
        found = []
        for _ in range(count):
            row = {"id": self.rows, "ts": BEGIN + self.rows * SECOND, "person": self.rows % 5000}
            started = time.perf_counter()
            self.db.insert("clicks", [row])
            found.append(time.perf_counter() - started)
            self.rows += 1
        return found


def in_turns(folder: Path, rows: int, count: int) -> None:
    """Prints what commits cost, those of all databases in turns."""
    with ExitStack() as stack:
        runs = {name: Run(folder, rows, marked=m, view=v) for name, (m, v) in KINDS.items()}
        for run in runs.values():
            stack.enter_context(run.db)
            run.commits(TURN)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(count // TURN):
            for name, run in runs.items():
                times[name] += run.commits(TURN)
        for name, found in times.items():
            ratios = {other: median(found) / median(times[other]) for other in list(times)[::2]}
            told = ", ".join(f"{ratio:.2f} × {other}" for other, ratio in ratios.items())
            print(
                f"{rows:>11,}  {name:<30} p50 {percentile(found, 0.5):.3f} ms"
                f"   p99 {percentile(found, 0.99):.3f} ms   {told}",
                flush=True,
            )


def closing(folder: Path, groups: int) -> None:
    """Prints how long the commit takes by which all groups of a window become final."""
    run = Run(folder, 0, marked=True, view=f"{UP_TO_DATE} EMIT ON WINDOW CLOSE")
    with run.db as db:
        db.execute(
            f"INSERT INTO clicks SELECT i, TIMESTAMP '{BEGIN}' + i * INTERVAL 1 MILLISECOND, i"
            f" FROM range({groups}) r(i)"
        )
        run.rows = 7200
        started = time.perf_counter()
        db.insert("clicks", [{"id": -1, "ts": BEGIN + 7200 * SECOND, "person": 0}])
        took = time.perf_counter() - started
        ((final,),) = db.execute("SELECT count(*) FROM hours").fetchall()
        assert final == groups
        print(f"{groups:>11,}  groups final in one commit: {took * 1000:.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--groups", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        in_turns(Path(folder), given.rows, given.commits)
        closing(Path(folder), given.groups)


if __name__ == "__main__":
    main()

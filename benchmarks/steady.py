"""One-row commits for a minute, from the first one on: `python -m benchmarks.steady`.

A file of orders is opened with V1 on them, and rows are inserted one by one for so many seconds,
as fast as they are committed; the key index is read and runs are merged beside them. Shown are the
percentiles of all commits in milliseconds, of the syncs of the log that are in them, and of the
same inserts by plain DuckDB without any view.

    python -m benchmarks.steady [--orders 1e5 1e6 1e7] [--seconds 60] [--keep]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import ivm
from benchmarks.harness import workload
from benchmarks.harness.page import Page, with_keep

INSERT = "INSERT INTO orders VALUES (?, ?, ?, ?, ?)"
PARTS = (50, 90, 99, 99.9, 100)
HEAD = """| ms | commits | p50 | p90 | p99 | p99.9 | worst |
|---|---|---|---|---|---|---|"""


def commits(run: Callable[[list[Any]], object], seconds: float) -> list[float]:
    """Milliseconds of each commit."""
    found, began = list[float](), time.perf_counter()
    while (start := time.perf_counter()) < began + seconds:
        run([10**9 + len(found), len(found) % 1000, 9.5, "paid", "2024-05-01 10:00:00"])
        found.append((time.perf_counter() - start) * 1e3)
    return found


@contextmanager
def timed_syncs() -> Iterator[list[float]]:
    """Collects the milliseconds of our syncs."""
    found, sync = list[float](), os.fdatasync

    def timed(file: Any) -> None:
        start = time.perf_counter()
        sync(file)
        found.append((time.perf_counter() - start) * 1e3)

    os.fdatasync = timed  # type: ignore[assignment]
    try:
        yield found
    finally:
        os.fdatasync = sync


def line(name: str, times: list[float]) -> str:
    """One line of the table, in Markdown."""
    shown = " | ".join(f"{value:.3g}" for value in np.percentile(times, PARTS))
    return f"| {name} | {len(times):,} | {shown} |"


def measure(folder: Path, orders: int, seconds: float) -> Iterator[str]:
    """The lines of one number of orders."""
    file = folder / f"{orders}.duckdb"
    workload.create(file, orders, "double")
    with ivm.connect(file) as db:
        db.execute(f"CREATE MATERIALIZED VIEW v1 AS {workload.VIEWS['v1']}")
    with ivm.connect(file) as db, timed_syncs() as syncs:
        times = commits(lambda row: db.execute(INSERT, row), seconds)
        yield line(f"{orders:g} orders", times)
        yield line("of these, syncs", syncs)
        db.execute("DELETE FROM orders WHERE id >= 1000000000")
        db.execute("DROP MATERIALIZED VIEW v1")
    with duckdb.connect(str(file)) as plain:
        times = commits(lambda row: plain.execute(INSERT, row).fetchall(), seconds)
        yield line("DuckDB without a view", times)
    file.unlink()


def main() -> None:
    """Measure each number of orders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady", description=__doc__)
    parser.add_argument("--orders", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--seconds", type=float, default=60, help="of commits (default 60)")
    given = with_keep(parser)
    page = Page("steady.md")
    page.add(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for orders in given.orders:
            for each in measure(Path(folder), int(orders), given.seconds):
                page.add(each)
    if given.keep:
        page.keep()


if __name__ == "__main__":
    main()

"""Loads of many rows beside plain DuckDB's: `python -m benchmarks.load`.

New orders come out of a Parquet file into a table of the same form that is empty, by COPY and by
INSERT … SELECT; ours without a view and with V1 on the table, DuckDB's without. Each load is the
first work on a new file, which holds the customers, and they take turns. Shown are the median
seconds, and how many times DuckDB's ours is; the goals are of the project's own.

    python -m benchmarks.load [--orders 1e7] [--times 3] [--keep]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb

import ivm
from benchmarks.harness import workload
from benchmarks.harness.page import Page, with_keep

WAYS = {
    "COPY": "COPY orders FROM '{}'",
    "INSERT … SELECT": "INSERT INTO orders SELECT * FROM '{}'",
}
GOALS = {"no view": 1.1, "V1": 2.0}
HEAD = """| s | DuckDB | no view | ratio | goal | | V1 | ratio | goal | |
|---|---|---|---|---|---|---|---|---|---|"""


def prepare(folder: Path, orders: int) -> tuple[Path, Path]:
    """The database that each load begins with, and the file of the orders."""
    whole, base, file = [folder / name for name in ("whole.duckdb", "base.duckdb", "new.parquet")]
    workload.create(whole, orders, "double")
    with duckdb.connect(str(base)) as duck:
        duck.execute(workload.SCHEMA.format(amount=workload.AMOUNT_TYPES["double"])).fetchall()
        duck.execute(f"ATTACH '{whole}' AS whole (READ_ONLY)").fetchall()
        duck.execute("INSERT INTO customers FROM whole.customers").fetchall()
        duck.execute(f"COPY whole.orders TO '{file}' (FORMAT parquet)").fetchall()
    whole.unlink()
    return base, file


def seconds(db: Any, text: str) -> float:
    """How long a statement takes."""
    began = time.perf_counter()
    db.execute(text).fetchall()
    return time.perf_counter() - began


def load(base: Path, side: str, text: str) -> float:
    """The seconds of one load, into a copy of the base."""
    path = base.with_name("load.duckdb")
    shutil.copyfile(base, path)
    if side == "DuckDB":
        with duckdb.connect(str(path)) as plain:
            took = seconds(plain, text)
    else:
        with ivm.connect(path) as db:
            if side == "V1":
                db.execute(f"CREATE MATERIALIZED VIEW v1 AS {workload.VIEWS['v1']}")
            took = seconds(db, text)
    path.unlink()
    shutil.rmtree(f"{path}.ivm", ignore_errors=True)
    return took


def line(way: str, found: dict[str, list[float]]) -> str:
    """One way's line of the table, in Markdown."""
    base = statistics.median(found["DuckDB"])
    cells = [f"{base:.3g}"]
    for side, goal in GOALS.items():
        ours = statistics.median(found[side])
        reached = "yes" if ours <= goal * base else "no"
        cells.append(f"{ours:.3g} | {ours / base:.2f} × | {goal:g} × | {reached}")
    return f"| {way} | {' | '.join(cells)} |"


def main() -> None:
    """Load by each way on each side, in turns."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--orders", type=float, default=1e7, help="rows (default 1e7)")
    parser.add_argument("--times", type=int, default=3, help="loads of each kind (default 3)")
    given = with_keep(parser)
    page = Page("load.md")
    page.add(f"{given.orders:g} orders", "", HEAD)
    with tempfile.TemporaryDirectory() as place:
        base, file = prepare(Path(place), int(given.orders))
        for way, text in WAYS.items():
            found: dict[str, list[float]] = defaultdict(list)
            for _ in range(given.times):
                for side in ("DuckDB", *GOALS):
                    found[side].append(load(base, side, text.format(file)))
            page.add(line(way, found))
    if given.keep:
        page.keep()


if __name__ == "__main__":
    main()

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
from benchmarks import workload
from benchmarks.report import machine
from benchmarks.run import RESULTS

WAYS = {
    "COPY": "COPY orders FROM '{}'",
    "INSERT … SELECT": "INSERT INTO orders SELECT * FROM '{}'",
}
GOALS = {"no view": 1.1, "V1": 2.0}
HEAD = """| s | DuckDB | no view | ratio | goal | | V1 | ratio | goal | |
|---|---|---|---|---|---|---|---|---|---|"""


def prepare(folder: Path, orders: int) -> tuple[Path, Path]:
    """The database that each load begins with, and the file of the orders."""
    base, file = folder / "base.duckdb", folder / "orders.parquet"
    workload.create(base, orders, "double")
    with duckdb.connect(str(base)) as duck:
        duck.execute(f"COPY orders TO '{file}' (FORMAT parquet)").fetchall()
    base.unlink()
    workload.create(base, 10, "double")
    count = orders // workload.CUSTOMERS_PER_ORDER
    with duckdb.connect(str(base)) as duck:
        duck.execute("DELETE FROM orders").fetchall()
        duck.execute(
            "INSERT OR IGNORE INTO customers SELECT i, 'region-' || i % 25, 's' || i % 5"
            f" FROM range({count}) r(i)"
        ).fetchall()
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
    parser.add_argument("--keep", action="store_true", help="write the table to benchmarks/results")
    given = parser.parse_args()
    lines = [machine(), "", f"{given.orders:g} orders", "", *HEAD.splitlines()]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as place:
        base, file = prepare(Path(place), int(given.orders))
        for way, text in WAYS.items():
            found: dict[str, list[float]] = defaultdict(list)
            for _ in range(given.times):
                for side in ("DuckDB", *GOALS):
                    found[side].append(load(base, side, text.format(file)))
            lines.append(line(way, found))
            print(lines[-1], flush=True)
    if given.keep:
        (RESULTS / "load.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

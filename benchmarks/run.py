"""Run the benchmark and print its table: `make bench`, or `python -m benchmarks.run --quick`.

Each cell runs in a process of its own on a copy of a prepared DuckDB file; peers run in the same
run on the same machine, so the ratios hold also where the absolute numbers do not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import plan, report, stream, workload
from benchmarks.harness.cells import Cell
from benchmarks.harness.page import RESULTS

ROOT = Path(__file__).parent.parent
SEED = 20


class Workshop:
    """A folder with prepared database files and change streams, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def base(self, cell: Cell) -> Path:
        """The database file that a cell starts from."""
        path = self.folder / f"base-{cell.orders}-{cell.amount}.duckdb"
        if not path.exists():
            workload.create(path, cell.orders, cell.amount)
        return path

    def stream(self, cell: Cell) -> Path:
        """The change stream that a cell takes."""
        path = self.folder / f"stream-{cell.stream_key}.arrow"
        if not path.exists():
            count = cell.warmup + cell.transactions
            shop = stream.Shop(self.base(cell), SEED, spare=count * cell.size)
            stream.write(stream.generate(shop, count, cell.size), path)
        return path

    def run(self, cell: Cell) -> dict[str, Any]:
        """Measure a cell on a fresh copy, in a process of its own."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            file = Path(place) / "shop.duckdb"
            shutil.copyfile(self.base(cell), file)
            order = {"cell": asdict(cell), "file": str(file), "stream": str(self.stream(cell))}
            os.sync()  # or the system writes the copies back while the clock runs
            command = [sys.executable, "-m", "benchmarks.harness.cell", json.dumps(order)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            raise SystemExit(f"{cell} failed:\n{done.stderr}")
        return dict(json.loads(done.stdout))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "--orders", type=float, default=1e7, help="leave out cells with more orders (default 1e7)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="up to 1e6 orders, a tenth of the commits"
    )
    parser.add_argument(
        "--amount", choices=list(workload.AMOUNT_TYPES), default="double", help="type of amounts"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for table, JSON, picture (default benchmarks/results)"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=None,
        help="folder for prepared data, kept (default: temporary)",
    )
    return parser.parse_args()


def shortened(cell: Cell) -> Cell:
    """The cell with a tenth of its transactions."""
    return replace(cell, transactions=max(3, cell.transactions // 10))


def measure(work: Path, cells: list[Cell], quick: bool) -> dict[Cell, Mapping[str, Any]]:
    """Run the cells one after another, telling of each."""
    workshop = Workshop(work)
    numbers: dict[Cell, Mapping[str, Any]] = {}
    for place, cell in enumerate(cells, 1):
        started = time.perf_counter()
        numbers[cell] = workshop.run(shortened(cell) if quick else cell)
        print(
            f"[{place}/{len(cells)}] {describe(cell)}: p50 {numbers[cell]['p50_ms']:.3g} ms, "
            f"{numbers[cell]['changes_per_s']:,.0f} changes/s "
            f"({time.perf_counter() - started:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
    return numbers


def describe(cell: Cell) -> str:
    """A cell in a few words."""
    read = ", read" if cell.read else ""
    return (
        f"{cell.engine} {'+'.join(cell.views)}, {cell.orders:,} orders, "
        f"{cell.size:,} a commit, {cell.durability}{read}"
    )


def main() -> None:
    """Measure, print, keep."""
    options = arguments()
    largest = min(int(options.orders), plan.MIDDLE if options.quick else plan.LARGE)
    table, picture = plan.lines(options.amount), plan.curves(options.amount)
    cells = plan.cells(table, picture, largest)
    if options.work is not None:
        options.work.mkdir(parents=True, exist_ok=True)
        numbers = measure(options.work, cells, options.quick)
    else:
        with tempfile.TemporaryDirectory(prefix="ivm-bench-") as work:
            numbers = measure(Path(work), cells, options.quick)
    text = report.markdown(report.rows(table, numbers))
    command = " ".join(["python -m benchmarks.run", *sys.argv[1:]])
    folder = options.out or (RESULTS / "quick" if options.quick else RESULTS)
    report.save(folder, text, numbers, command)
    report.draw(folder / "latency.png", picture, numbers)
    print(f"{report.machine()}\n\n{text}\n\nkept in {folder}")


if __name__ == "__main__":
    main()

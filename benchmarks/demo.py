"""The demo: TPC-H data, eight live views, a stream of orders: `make demo`.

It generates the data, creates the views, commits transactions of mixed size while it reads the
views, then verifies every view against its query, restarts and verifies again.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

import ivm
from benchmarks.harness import maintain, stream
from benchmarks.tpch import tpch, tpch_stream
from benchmarks.tpch.panel import Panel, Tally, ViewTimes, milliseconds, speed_line, view_table

READ_EVERY = 5
"""Transactions between two reads of a view."""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument("--seconds", type=float, default=30, help="length of the stream")
    parser.add_argument("--keep", type=Path, help="make the database in this folder and keep it")
    return parser.parse_args()


@contextlib.contextmanager
def step(console: Console, what: str) -> Iterator[None]:
    """Tell what is done and how long it took."""
    started = time.perf_counter()
    yield
    console.print(f"{what}: {time.perf_counter() - started:.2f} s", highlight=False)


def prepare(console: Console, folder: Path, scale: float) -> Path:
    """Generate the data and load it into a DuckDB file."""
    file = folder / "tpch.duckdb"
    with step(console, f"generate TPC-H at scale {scale:g} (tpchgen-cli, Parquet)"):
        tpch.generate(folder, scale)
    with step(console, "load into a DuckDB file, with primary keys"):
        tpch.load(folder, file)
    return file


def create_views(console: Console, db: ivm.Database) -> None:
    """Create the eight views, telling the time of each."""
    for name, query in tpch.VIEWS.items():
        with step(console, f"create materialized view {name}"):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def recompute_times(db: ivm.Database) -> dict[str, float]:
    """Seconds that DuckDB needs for each view's query (the second of two runs)."""
    times = {}
    for name in tpch.VIEWS:
        for _ in range(2):
            started = time.perf_counter()
            db.execute(tpch.standalone(name)).arrow()
            times[name] = time.perf_counter() - started
    return times


def run_stream(
    console: Console, db: ivm.Database, pools: dict[str, list[tpch_stream.Pool]], seconds: float
) -> Tally:
    """Commit transactions and read views until the time or the stream is over."""
    recompute = recompute_times(db)
    strategies = {info.name: info.strategy for info in db.views()}
    tally = Tally([ViewTimes(name, strategies[name], recompute[name]) for name in tpch.VIEWS])
    with Panel(console, tally) as panel:
        for number, transaction in enumerate(tpch_stream.transactions(pools)):
            started = time.perf_counter()
            maintain.commit(db, transaction)
            size = min(change.rows.num_rows for change in transaction)
            tally.committed(time.perf_counter() - started, stream.changes_in(transaction), size)
            if number % READ_EVERY == 0:
                read(db, tally, number // READ_EVERY)
            panel.show()
            if tally.elapsed > seconds:
                break
    return tally


def read(db: ivm.Database, tally: Tally, number: int) -> None:
    """Read one view, each in its turn."""
    view = tally.views[number % len(tally.views)]
    started = time.perf_counter()
    db.execute(f"SELECT * FROM {view.name}").arrow()
    tally.read(view, time.perf_counter() - started)


def verify(console: Console, db: ivm.Database) -> None:
    """VERIFY every view; a difference ends the demo."""
    for name in tpch.VIEWS:
        with step(console, f"verify materialized view {name}"):
            maintain.verify(db, name)


def summarize(console: Console, tally: Tally, line: str) -> None:
    """The last word."""
    console.rule("summary")
    console.print(view_table(tally))
    console.print(line, soft_wrap=True)
    recompute = sum(view.recompute for view in tally.views)
    single = sorted(tally.single)[len(tally.single) // 2]
    console.print(
        f"{len(tally.commits):,} commits, {tally.changes:,} changes; "
        f"{len(tally.views)} views right, before and after a restart.\n"
        f"One order or price: all views are right in {milliseconds(single)}; "
        f"DuckDB recomputes them in {milliseconds(recompute)}.",
        highlight=False,
    )


def demo(console: Console, folder: Path, scale: float, seconds: float) -> None:
    """The whole demo in a folder."""
    started = time.perf_counter()
    file = prepare(console, folder, scale)
    pools = tpch_stream.pools(file)
    with ivm.connect(str(file)) as db:
        create_views(console, db)
        tally = run_stream(console, db, pools, seconds)
        line = speed_line(tally)
        verify(console, db)
        with step(console, "close"):
            db.close()
    with step(console, "open again"):
        db = ivm.connect(str(file))
    with db:
        verify(console, db)
    summarize(console, tally, line)
    console.print(f"{time.perf_counter() - started:.0f} s in all", highlight=False)


def main() -> None:
    """Run the demo in a temporary folder, or in one that is kept."""
    options = arguments()
    console = Console()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        demo(console, options.keep, options.scale, options.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="ivm-demo-") as folder:
        demo(console, Path(folder), options.scale, options.seconds)


if __name__ == "__main__":
    main()

"""Time first fills on Spark beside DuckDB's: `python -m benchmarks.spark.fills`.

Each of TPC-H's 22 views is filled once by Spark and once by DuckDB, in copies of one file. Shown
are the seconds of Spark's phases (export, stages, load), of the whole, and of DuckDB's whole, which
is CREATE MATERIALIZED VIEW; how the tasks' seconds divide (scan: what needs no shuffle before it;
state: what does; exchange: writing shuffles and waiting for them), the MB shuffled and written, and
the rows that were loaded per second. With `--lake` the tables stay in their Parquet files. Then all
views follow a refresh transaction of each kind, and are compared with DuckDB's answers to their
queries, before it and after.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import duckdb

import ivm
from benchmarks.harness.maintain import commit, verify
from benchmarks.harness.report import machine
from benchmarks.harness.spark_metrics import StatusStore, Tasks
from benchmarks.tpch import tpch
from benchmarks.tpch.tpch_queries import QUERIES
from benchmarks.tpch_refresh import apply_plainly, refreshes
from ivm.backfill.progress import FillProgress

OPTIONS = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
PHASES = ("exporting", "stage", "loading", "catching up")


HEAD = ("export", "stages", "load", "whole", "DuckDB", "scan", "state", "exchange", "MB shuf",
        "MB written", "rows/s")  # fmt: skip


class Phases:
    """The seconds that a fill spends in each of its phases, and the rows that its stages have."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.rows = 0
        self._phase, self._since = "", time.perf_counter()

    def look(self, progress: FillProgress) -> None:
        """Notes the phase that the fill is in."""
        now = time.perf_counter()
        if self._phase in self.seconds:
            self.seconds[self._phase] += now - self._since
        self._phase, self._since = progress.phase, now
        self.rows = progress.rows


def leave_in_files(parquet: Path, file: Path) -> None:
    """Makes a database of tables that stay in the Parquet files, primary keys included."""
    with ivm.connect(file) as db:
        for table, key in tpch.KEYS.items():
            began = time.perf_counter()
            place = f"PARQUET '{parquet / table}.parquet' WITH (stored = false)"
            db.execute(f"CREATE TABLE {table} (PRIMARY KEY ({key})) FROM {place}")
            print(f"{table}: {time.perf_counter() - began:.2f} s, its key checked")


def fill_by_spark(db: ivm.Database, name: str) -> tuple[float, Phases]:
    """The seconds of a fill, and those of its phases."""
    phases, began = Phases(), time.perf_counter()
    db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (backfill = 'spark') AS {QUERIES[name]}")
    db.backfill(name, on_progress=phases.look)
    return time.perf_counter() - began, phases


def fill_by_duckdb(db: ivm.Database, name: str) -> float:
    """The seconds until a view of DuckDB's can follow changes."""
    began = time.perf_counter()
    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]}")
    return time.perf_counter() - began


def measure(folder: Path, names: list[str]) -> None:
    """Fills the views on both, and lets them follow.

    Args:
        folder: has the Parquet files, and the database.
        names: of the views.
    """
    ours, theirs = folder / "spark.duckdb", folder / "duckdb.duckdb"
    shutil.copy(ours, theirs)
    print(f"{'view':6}" + "".join(f"{text:>11}" for text in HEAD))
    with ivm.connect(ours, spark=OPTIONS) as db:
        db.execute("CREATE MATERIALIZED VIEW warm WITH (backfill = 'spark') AS FROM region")
        db.backfill("warm")
        store = StatusStore(db._engine.spark())
        store.tasks()
        for name in names:
            with ivm.connect(theirs) as other:
                peer = fill_by_duckdb(other, name)
                other.execute(f"DROP MATERIALIZED VIEW {name}")
            whole, phases = fill_by_spark(db, name)
            print(line(name, phases, whole, peer, store.tasks()), flush=True)
        for name in names:
            verify(db, name)
        with duckdb.connect() as con:
            for table in tpch.KEYS:
                con.execute(f"CREATE TABLE {table} AS FROM '{folder}/parquet/{table}.parquet'")
            for transaction in refreshes(con, 1):
                commit(db, transaction)
                apply_plainly(con, transaction)
        for name in names:
            verify(db, name)
    print("all views are equal to DuckDB's answers, before and after three refresh transactions")


def line(name: str, phases: Phases, whole: float, peer: float, tasks: Tasks) -> str:
    """One line of the table."""
    exporting, stages, load, _ = phases.seconds.values()
    rate = phases.rows / load if load else 0
    sums = [tasks.scan, tasks.state, tasks.exchange, tasks.shuffled / 1e6, tasks.written / 1e6]
    shown = [exporting, stages, load, whole, peer, *sums]
    return f"{name:6}" + "".join(f"{value:11.2f}" for value in shown) + f"{rate:11,.0f}"


def main() -> None:
    """Measure at a scale."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.fills", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H's scale factor")
    parser.add_argument("--views", nargs="*", default=list(QUERIES), help="default all 22")
    parser.add_argument("--lake", action="store_true", help="leave the tables in their files")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        parquet = Path(folder) / "parquet"
        tpch.generate(parquet, arguments.scale)
        (leave_in_files if arguments.lake else tpch.load)(parquet, Path(folder) / "spark.duckdb")
        measure(Path(folder), arguments.views)


if __name__ == "__main__":
    main()

"""Time first fills on Spark beside DuckDB's: `python -m benchmarks.spark`.

Each of TPC-H's 22 views is filled once by Spark and once by DuckDB, in copies of one file. Shown
are the seconds of Spark's phases (export, stages, load), of the whole, and of DuckDB's whole, which
is CREATE MATERIALIZED VIEW. With `--lake` the tables stay in their Parquet files. Then all views
follow a refresh transaction of each kind, and are compared with DuckDB's answers to their queries,
before it and after.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import duckdb

import ivm
from benchmarks import tpch
from benchmarks.maintain import commit, verify
from benchmarks.report import machine
from benchmarks.tpch_queries import QUERIES
from benchmarks.tpch_refresh import apply_plainly, refreshes
from ivm.backfill.progress import FillProgress

OPTIONS = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
PHASES = ("exporting", "stage", "loading", "catching up")


class Phases:
    """The seconds that a fill spends in each of its phases."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._phase, self._since = "", time.perf_counter()

    def look(self, progress: FillProgress) -> None:
        """Notes the phase that the fill is in."""
        now = time.perf_counter()
        if self._phase in self.seconds:
            self.seconds[self._phase] += now - self._since
        self._phase, self._since = progress.phase, now


def leave_in_files(parquet: Path, file: Path) -> None:
    """Makes a database of tables that stay in the Parquet files, primary keys included."""
    with ivm.connect(file) as db:
        for table, key in tpch.KEYS.items():
            began = time.perf_counter()
            place = f"PARQUET '{parquet / table}.parquet' WITH (stored = false)"
            db.execute(f"CREATE TABLE {table} (PRIMARY KEY ({key})) FROM {place}")
            print(f"{table}: {time.perf_counter() - began:.2f} s, its key checked")


def fill_by_spark(db: ivm.Database, name: str) -> tuple[float, dict[str, float]]:
    """The seconds of a fill, and those of its phases."""
    phases, began = Phases(), time.perf_counter()
    db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (backfill = 'spark') AS {QUERIES[name]}")
    db.backfill(name, on_progress=phases.look)
    return time.perf_counter() - began, phases.seconds


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
    print(f"{'view':6}{'export':>9}{'stages':>9}{'load':>9}{'whole':>9}{'DuckDB':>9}  seconds")
    with ivm.connect(ours, spark=OPTIONS) as db:
        db.execute("CREATE MATERIALIZED VIEW warm WITH (backfill = 'spark') AS FROM region")
        db.backfill("warm")
        for name in names:
            with ivm.connect(theirs) as other:
                peer = fill_by_duckdb(other, name)
                other.execute(f"DROP MATERIALIZED VIEW {name}")
            whole, phases = fill_by_spark(db, name)
            shown = [phases["exporting"], phases["stage"], phases["loading"], whole, peer]
            print(f"{name:6}" + "".join(f"{seconds:9.2f}" for seconds in shown), flush=True)
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


def main() -> None:
    """Measure at a scale."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
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

"""Measure the memory of first fills: `python -m benchmarks.spark.memory`.

A history of several times the memory given stays in its Parquet files; views of several kinds are
filled on Spark, each in a process of its own. DuckDB has `--memory` in our process, Spark's driver
1 GB. Shown are the seconds, the state that the view keeps, and the peaks: of our process, of ours
less the state, of the JVM and of the largest of Spark's Python workers. Then the view follows three
refresh transactions, for which the tables' key indexes are built; the peak of that is shown too,
less the state and these indexes. Before and after, the view is compared with DuckDB's answer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

import ivm
from benchmarks.harness.cells import peak_bytes
from benchmarks.harness.maintain import commit, verify
from benchmarks.harness.report import machine
from benchmarks.spark.fills import OPTIONS, Phases
from benchmarks.tpch import tpch
from benchmarks.tpch_refresh import apply_plainly, refreshes
from ivm.ingest.key_index import LateIndex

VIEWS = {
    "lanes": """SELECT l_partkey, count(*) AS n, sum(l_quantity) AS q,
        sum(l_extendedprice * (1 - l_discount)) AS r FROM lineitem GROUP BY l_partkey""",
    "join": """SELECT o_orderpriority, l_shipmode, count(*) AS n, sum(l_extendedprice) AS s
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY ALL""",
    "extremes": """SELECT l_suppkey, min(l_extendedprice) AS least, max(l_shipdate) AS last
        FROM lineitem GROUP BY l_suppkey""",
    "distinct": "SELECT DISTINCT l_partkey, l_suppkey FROM lineitem",
}


@dataclass
class Numbers:
    """What a fill took: seconds, and bytes."""

    seconds: float = 0
    loading: float = 0
    state: int = 0
    peak: int = 0
    jvm: int = 0
    worker: int = 0
    followed: int = 0
    kept: int = 0


class Children(threading.Thread):
    """Watches the processes below this one (Linux alone tells of them).

    Attributes:
        jvm: the peak of all programs of Java.
        worker: that of the largest program of Python.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jvm = self.worker = 0
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(0.1):
            found = list(_children())
            self.jvm = max(self.jvm, sum(size for name, size in found if name == "java"))
            # A process that the JVM has just forked has the JVM's memory, and another name.
            workers = [size for name, size in found if name.startswith("python")]
            self.worker = max(self.worker, *workers, 0)

    def end(self) -> None:
        """Ends watching."""
        self._ending.set()
        self.join()


def _children() -> list[tuple[str, int]]:
    """The program and the resident bytes of each process below this one."""
    parents, found = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
        except OSError:  # it has ended
            continue
        fields = rest.split()
        parents[int(folder.name)] = int(fields[1])
        found[int(folder.name)] = (name, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
    mine = {os.getpid()}
    for _ in range(4):  # the JVM, Spark's daemon, its workers
        mine |= {number for number, parent in parents.items() if parent in mine}
    return [found[number] for number in mine - {os.getpid()}]


def fill(db: ivm.Database, name: str) -> Numbers:
    """Fills a view, and measures."""
    children, phases, began = Children(), Phases(), time.perf_counter()
    children.start()
    db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (backfill = 'spark') AS {VIEWS[name]}")
    db.backfill(name, on_progress=phases.look)
    seconds = time.perf_counter() - began
    children.end()
    sizes = {"jvm": children.jvm, "worker": children.worker}
    return Numbers(seconds, phases.seconds["loading"], state_bytes(db), peak_bytes(), **sizes)


def state_bytes(db: ivm.Database) -> int:
    """What the operators of all views keep."""
    circuit = db._engine.maintenance.circuit
    nodes = {n for view in circuit.views for n in circuit.nodes_of(view)}
    return sum(circuit.node(n).operator.state_bytes() for n in nodes)


def follow(db: ivm.Database, name: str, parquet: Path, folder: Path) -> int:
    """Lets the view follow a refresh transaction of each kind.

    Returns:
        The bytes of the key indexes.
    """
    with duckdb.connect(str(folder / "peer.duckdb"), config={"memory_limit": "512MiB"}) as peer:
        for table in tpch.KEYS:
            peer.execute(f"CREATE TABLE {table} AS FROM '{parquet}/{table}.parquet'").fetchall()
        for transaction in refreshes(peer, 1):
            commit(db, transaction)
            apply_plainly(peer, transaction)
    verify(db, name)
    return sum(index_bytes(db, table) for table in tpch.KEYS)


def index_bytes(db: ivm.Database, table: str) -> int:
    """The bytes of a table's key index, once it is built."""
    while isinstance(index := db._engine.indexes.find(table), LateIndex):
        time.sleep(0.1)
    return 0 if index is None else index.nbytes


def measure(folder: Path, parquet: Path, name: str, memory: int) -> Numbers:
    """Fills one view of a history in files, and lets it follow.

    Args:
        folder: for the database.
        parquet: of the files.
        name: of the view.
        memory: bytes of DuckDB's.
    """
    with ivm.connect(folder / f"{name}.duckdb", spark=OPTIONS, memory_limit=memory) as db:
        for table, key in tpch.KEYS.items():
            place = f"PARQUET '{parquet / table}.parquet' WITH (stored = false, check = false)"
            db.execute(f"CREATE TABLE {table} (PRIMARY KEY ({key})) FROM {place}")
        numbers = fill(db, name)
        verify(db, name)
        indexes = follow(db, name, parquet, folder)
        numbers.followed, numbers.kept = peak_bytes(), state_bytes(db) + indexes
        return numbers


def line(name: str, n: Numbers) -> str:
    """One line of the table."""
    sizes = (n.state, n.peak, n.peak - n.state, n.jvm, n.worker, n.kept, n.followed - n.kept)
    return f"{name:10}{n.seconds:9.1f}{n.loading:8.1f}" + "".join(f"{s / 1e6:9.0f}" for s in sizes)


HEAD = f"{'view':10}{'s':>9}{'load s':>8}" + "".join(
    f"{text:>9}" for text in ("state", "peak", "beside", "JVM", "worker", "indexes+", "beside")
)


def main() -> None:
    """Measure at a scale."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.memory", description=__doc__)
    parser.add_argument("--scale", type=float, default=10.0, help="TPC-H's scale factor")
    parser.add_argument("--memory", type=int, default=512, help="MiB of DuckDB's memory")
    parser.add_argument("--views", nargs="*", default=list(VIEWS), choices=list(VIEWS))
    parser.add_argument("--parquet", type=Path, help="TPC-H's files, if there are some")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parquet = given.parquet or Path(folder) / "parquet"
        if given.one:
            numbers = measure(Path(folder), parquet, given.views[0], given.memory << 20)
            print(json.dumps(asdict(numbers)))
            return
        if given.parquet is None:
            tpch.generate(parquet, given.scale)
        size = sum(file.stat().st_size for file in parquet.iterdir())
        print(f"{machine()}\n{size / 1e6:.0f} MB of files, {size / (given.memory << 20):.1f} × "
              f"DuckDB's memory; sizes in MB\n{HEAD}", flush=True)  # fmt: skip
        for name in given.views:
            print(line(name, Numbers(**_apart(parquet, name, given.memory))), flush=True)


def _apart(parquet: Path, name: str, memory: int) -> dict[str, Any]:
    """What `measure` tells of one view in another process."""
    command = [sys.executable, "-m", "benchmarks.spark.memory", "--one", "--views", name]
    command += ["--parquet", str(parquet), "--memory", str(memory)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(told.splitlines()[-1])  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()

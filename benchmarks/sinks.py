"""What sinks cost the commits of their views, and how fast they write.

Usage: python -m benchmarks.sinks [COMMITS] [ROWS]

Commits of one row into a table of 1 000 with an aggregate view (durability="interval", so that the
disk does not decide): without a sink, with one that is not run, and with one that is. Then a
backlog of ten large epochs, and one of many small ones that is read from the file, in Debezium's
format.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import ivm


def latency(db: ivm.Database, first: int, count: int) -> str:
    """Milliseconds a commit of one row takes."""
    seconds = []
    for i in range(count):
        start = time.perf_counter()
        db.insert("t", {"id": [first + i], "g": [i % 100], "x": [1.5]})
        seconds.append(time.perf_counter() - start)
    seconds.sort()
    shares = {name: seconds[int(count * share)] for name, share in (("p50", 0.5), ("p99", 0.99))}
    return ", ".join(f"{name} {1e3 * value:.2f} ms" for name, value in shares.items())


def drained(db: ivm.Database) -> float:
    """Seconds until the sinks have nothing left to write."""
    start = time.perf_counter()
    db.start_sinks()
    while any(sink.lag_epochs for sink in db.sinks()):
        time.sleep(0.002)
    return time.perf_counter() - start


def sink(db: ivm.Database, view: str, folder: Path) -> None:
    path = str(folder / view)
    db.create_sink(view, view, ivm.sinks.Files(path=path, format="debezium"))


def commits(folder: Path, count: int) -> None:
    with ivm.connect(folder / "commits.duckdb", durability="interval") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x DOUBLE)")
        query = "SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g"
        db.execute(f"CREATE MATERIALIZED VIEW sums AS {query}")
        db.execute("INSERT INTO t SELECT range, range % 100, 1 FROM range(1000)")
        latency(db, 10_000, 300)
        print("no sink:       ", latency(db, 100_000, count))
        sink(db, "sums", folder)
        print("sink, not run: ", latency(db, 200_000, count))
        drained(db)
        print("sink, running: ", latency(db, 300_000, count))


def backlog(folder: Path, count: int, total: int) -> None:
    file = folder / "backlog.duckdb"
    with ivm.connect(file, durability="interval") as db:
        db.execute("CREATE TABLE u (id INTEGER, g INTEGER, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW copy AS FROM u")
        sink(db, "copy", folder)
        for i in range(10):
            rows = f"range({i * total // 10}, {(i + 1) * total // 10})"
            db.execute(f"INSERT INTO u SELECT range, range % 7, 'text ' || range FROM {rows}")
        print(f"large epochs:   {total / drained(db):,.0f} rows/s")
        db.stop_sinks()
        for i in range(count):
            db.insert("u", {"id": [i], "g": [1], "s": ["x"]})
    with ivm.connect(file) as db:
        print(f"small epochs:   {count / drained(db):,.0f} epochs/s")


def main() -> None:
    count, rows = (int(text) for text in (*sys.argv[1:], *("1500", "500000")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        commits(Path(folder), count)
        backlog(Path(folder), count, rows)


if __name__ == "__main__":
    main()

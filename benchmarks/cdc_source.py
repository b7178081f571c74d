"""Time a FILES source, and its memory with a long backlog: `python -m benchmarks.cdc_source`.

1. A file of Debezium's events (see `change_events`) is read, decoded and applied by a running
   source, as `ivm ingest --once` does, with `read_json` of the same file in the same run as the
   bound. Meanwhile another thread inserts single rows, and is timed.
2. Two backlogs, one a hundred times longer, of updates of the same rows: each is worked off by a
   process of its own, whose peak memory is taken.
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
from pathlib import Path

import ivm
from benchmarks.cdc import read_json, tell, timed
from benchmarks.harness.change_events import QUERY, TABLE, ChangeEvents
from benchmarks.harness.maintain import verify
from benchmarks.harness.report import machine

KEYS = 50_000
_BESIDE = 0.01  # seconds between the rows that another thread inserts


def run_source(db: ivm.Database) -> None:
    """Runs the sources until everything is applied."""
    db.start_sources()
    while not all(source.caught_up for source in db.sources()):
        [source] = db.sources()
        if source.state == "stopped":
            raise SystemExit(source.reason)
        time.sleep(0.05)


def create(db: ivm.Database, file: Path) -> None:
    """The table, its view and the source."""
    db.execute(f"{TABLE}; CREATE MATERIALIZED VIEW revenue AS {QUERY}; CREATE TABLE other (i INT)")
    files = ivm.sources.Files(
        path=str(file),
        format="debezium",
        times="us",
        decimals="text",
        max_dead_letters=1_000_000,
    )
    db.create_source("shop", files, into="orders")


def inserts_beside(db: ivm.Database, over: threading.Event, times: list[float]) -> None:
    """Inserts single rows, and notes the seconds that each takes."""
    number = 0
    while not over.is_set():
        start = time.perf_counter()
        db.insert("other", {"i": [number]})
        times.append(time.perf_counter() - start)
        number += 1
        time.sleep(_BESIDE)


def time_source(folder: Path, count: int) -> None:
    """Part 1."""
    file = folder / "events.jsonl"
    stream = ChangeEvents(count)
    stream.write(file)
    bound = read_json(file)
    tell("read_json", bound, count, bound)
    with ivm.connect(folder / "timed.duckdb") as db:
        create(db, file)
        with timed() as found:
            run_source(db)
        tell("FILES source", found, count, bound)
        verify(db, "revenue")
        [source] = db.sources()
        if source.dead_letters != len(stream.dirt):
            raise SystemExit(f"{source.dead_letters} dead letters, not {len(stream.dirt)}")
    with ivm.connect(folder / "beside.duckdb") as db:
        create(db, file)
        over, times = threading.Event(), list[float]()
        beside = threading.Thread(target=inserts_beside, args=(db, over, times))
        beside.start()
        run_source(db)
        over.set()
        beside.join()
    times.sort()
    shown = ", ".join(f"{n} {times[int(len(times) * s)] * 1e3:.1f}" for n, s in _SHARES.items())
    print(f"an insert beside it, ms: {shown}, most {times[-1] * 1e3:.1f}", flush=True)


_SHARES = {"p50": 0.5, "p99": 0.99}

CHILD = """
import re, sys
from pathlib import Path
import ivm
from benchmarks.cdc_source import run_source
with ivm.connect(sys.argv[1]) as db:
    run_source(db)
# Not getrusage, which begins with what the parent had.
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


def peak_memory(folder: Path, count: int) -> int:
    """Part 2: the peak memory, in MiB, of a process that works off a backlog."""
    inbox, file = folder / f"{count}.jsonl", folder / f"{count}.duckdb"
    with inbox.open("w", encoding="utf-8") as lines:
        for start in range(0, count, KEYS):
            lines.write("".join([_update(i, start) for i in range(min(KEYS, count - start))]))
    with ivm.connect(file) as db:
        create(db, inbox)
    child = [sys.executable, "-c", CHILD, str(file)]
    found = subprocess.run(child, check=True, stdout=subprocess.PIPE, env=os.environ)
    inbox.unlink()
    return int(found.stdout)


def _update(key: int, round: int) -> str:
    row = {"id": key, "customer": key % 1000, "amount": f"{round % 977}.5", "note": "n" * 40}
    return json.dumps({"op": "u", "after": row}) + "\n"


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cdc_source", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="lines (default 2_000_000)")
    parser.add_argument("--backlog", type=int, default=10_000_000, help="of part 2")
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="ivm-cdc-") as folder:
        time_source(Path(folder), options.events)
        short = peak_memory(Path(folder), options.backlog // 100)
        long = peak_memory(Path(folder), options.backlog)
        print(f"peak memory: {short} MiB with {options.backlog // 100:,} events, {long} MiB with")
        print(f"{options.backlog:,}: {long - short:+} MiB")


if __name__ == "__main__":
    main()

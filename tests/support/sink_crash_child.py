"""A process that changes views with sinks until it kills itself at a given point.

Usage: python -m tests.support.sink_crash_child FOLDER MODULE CLASS METHOD before|after|half NTH
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ivm
from ivm.cdc.sinks import files, job
from ivm.storage.durable_files import write_all
from tests.support.crash_child import die_at

VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(m(x))::INT AS s FROM t GROUP BY g",
    "rows": "SELECT g, x FROM t",
    "whole": "SELECT mad(x) AS m FROM t",
    "over": "SELECT g, m FROM sums, whole WHERE n > 2",
}


def die_in_the_middle(nth: int) -> None:
    """Let the nth write to a sink's file write a half and kill the process."""
    calls = 0

    def write(fd: int, parts: Sequence[Any]) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            [part] = parts
            write_all(fd, [part[: max(1, len(part) // 2)]])
            os.kill(os.getpid(), signal.SIGKILL)
        write_all(fd, list(parts))

    files.write_all = write  # type: ignore[attr-defined]


def change(db: ivm.Database, number: int) -> None:
    """One epoch or more: every kind of change that sinks hear of."""
    ids = [10 * number + i for i in range(4)]
    db.insert("t", [{"id": id, "g": "abc"[id % 3], "x": id} for id in ids])
    if number % 2:
        db.execute(f"UPDATE t SET x = x + 1 WHERE id % 4 = {number % 4}")
    if number % 3 == 0:
        db.execute("FROM over, whole").fetchall()
    if number % 4 == 0:
        with db.transaction():
            db.insert("t", [{"id": 10 * number + 7, "g": "d", "x": 1}])
            db.execute("FROM over").fetchall()
            db.execute("DELETE FROM t WHERE id % 7 = 1")
    if number % 5 == 0:
        db.execute(f"CREATE OR REPLACE MACRO m(x) AS x + {number}")


def main() -> None:
    folder, module, owner, method, when, nth = sys.argv[1:]
    job.ACKNOWLEDGED = job.REFRESHED = 0.01
    db = ivm.connect(Path(folder) / "a.duckdb")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g VARCHAR, x INTEGER)")
    db.execute("CREATE MACRO m(x) AS x")
    for i, (name, query) in enumerate(VIEWS.items()):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        form = ("jsonl", "debezium")[i % 2]
        db.create_sink(name, name, ivm.sinks.Files(path=str(Path(folder, name)), format=form))
    db.create_sink("late", "sums", ivm.sinks.Files(path=str(Path(folder, "late"))))
    if when == "half":
        die_in_the_middle(int(nth))
    else:
        die_at(module, owner, method, when, int(nth))
    for number in range(1, 21):
        if number == 3:
            db.start_sinks()
        if number % 6 == 0:
            db.execute("PAUSE SINK late" if number % 12 else "RESUME SINK late")
        change(db, number)
        print(number, flush=True)
    db.close()


if __name__ == "__main__":
    main()

"""Time look-ups through `ivm serve` beside PostgreSQL: `python -m benchmarks.serve`.

1. pgbench's look-ups of a row by its key (`pgbench -S`) with 50 clients, by simple and by prepared
   statements, of a row of a live view, and a mixed load: nine look-ups of either kind to a durable
   UPDATE by the key. In turns on `ivm serve` and on a PostgreSQL of this run, a row of the same
   table on both. PostgreSQL has no live views: there the view is a table, which no UPDATE changes.
2. The memory that 1 000 idle connections add to the server.

Statements are not logged on either side (`log = "logins"`).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

import ivm
from benchmarks.harness.report import machine
from tests.support.postgres import running

_ACCOUNTS = 100_000
_ROUNDS = 3
_IDLE = 1_000
_MADE = (
    "CREATE TABLE pgbench_accounts (aid INTEGER PRIMARY KEY, bid INTEGER, abalance INTEGER, "
    "filler VARCHAR(84))",
    "CREATE TABLE pgbench_branches (bid INTEGER PRIMARY KEY, bbalance INTEGER, filler VARCHAR(88))",
    "INSERT INTO pgbench_branches VALUES (1, 0, '')",
)
_BY_VIEW = "\\set bid random(1, 100)\nSELECT n, total FROM by_branch WHERE bid = :bid;\n"
_BY_KEY = (
    f"\\set aid random(1, {_ACCOUNTS})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
)
_WRITE = f"""\\set aid random(1, {_ACCOUNTS})
\\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
"""
_BRANCHES = (
    "SELECT aid % 100 + 1 AS bid, count(*) AS n, sum(abalance) AS total "
    "FROM pgbench_accounts GROUP BY 1"
)


def pgbench(port: int, user: str, arguments: list[str], seconds: int) -> float:
    """Runs pgbench with 50 clients; returns the transactions a second."""
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", user, "postgres"]
    clients = ["-n", "-c", "50", "-j", "2", "-T", str(seconds), "-s", "1"]
    found = subprocess.run(
        [_program(), *clients, *arguments, *address],
        capture_output=True,
        text=True,
        check=True,
    )
    tps = re.search(r"tps = ([\d.]+)", found.stdout)
    assert tps is not None, found.stdout + found.stderr
    return float(tps[1])


def _program() -> str:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
    if not programs:
        raise SystemExit("pgbench is not installed: Debian has it in the package postgresql")
    return str(programs[-1])


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, int]]:
    """`ivm serve` on the accounts; yields its port and its process."""
    path = folder / "bench.duckdb"
    with ivm.connect(path) as database:
        for statement in _MADE:
            database.execute(statement)
        accounts = f"SELECT i, 1, i % 7, '' FROM range(1, {_ACCOUNTS + 1}) t(i)"
        database.execute(f"INSERT INTO pgbench_accounts {accounts}")
        database.execute(f"CREATE MATERIALIZED VIEW by_branch AS {_BRANCHES}")
    settings = f'[server]\nlog = "logins"\nconnections = {_IDLE + 100}\n'
    (folder / "ivm.toml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "ivm", "serve", str(path), "--pg", "127.0.0.1:0"]
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--trust-loopback"], stderr=output, cwd=folder)
    try:
        while (found := re.search(r"postgresql://[^:]+:(\d+)", log.read_text())) is None:
            time.sleep(0.1)
            if process.poll() is not None:
                raise SystemExit(log.read_text())
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(60)


def megabytes(pid: int) -> float:
    """The memory that a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def look_ups(folder: Path, ours: int, theirs: int, seconds: int) -> None:
    """Prints transactions a second of both servers, in turns."""
    scripts = []
    for name, text in (("view", _BY_VIEW), ("key", _BY_KEY), ("write", _WRITE)):
        scripts.append(folder / f"{name}.sql")
        scripts[-1].write_text(text, encoding="utf-8")
        scripts[-1].chmod(0o644)
    view, key, write = scripts
    mixed = ["-f", f"{key}@6", "-f", f"{view}@3", "-f", f"{write}@1"]
    cases = {
        "pgbench -S, prepared": ["-S", "-M", "prepared"],
        "pgbench -S, simple": ["-S", "-M", "simple"],
        "a row of a view, prepared": ["-f", str(view), "-M", "prepared"],
        "one in ten an UPDATE": [*mixed, "-M", "prepared"],
    }
    for name, arguments in cases.items():
        found: list[tuple[float, float]] = []
        for _ in range(_ROUNDS):
            mine = pgbench(ours, "ann", arguments, seconds)
            found.append((mine, pgbench(theirs, "postgres", arguments, seconds)))
        mine, other = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"{name:28} ivm serve {mine:8,.0f}/s   PostgreSQL {other:8,.0f}/s", flush=True)


def idle(port: int, pid: int) -> None:
    """Prints the memory that idle connections add, each after a query."""
    with ExitStack() as stack:
        first = stack.enter_context(psycopg.connect(_dsn(port), autocommit=True))
        first.execute("SELECT 1")
        before = megabytes(pid)
        for _ in range(_IDLE):
            connection = stack.enter_context(psycopg.connect(_dsn(port), autocommit=True))
            connection.execute("SELECT abalance FROM pgbench_accounts WHERE aid = 1").fetchall()
        added = megabytes(pid) - before
        threads = len(os.listdir(f"/proc/{pid}/task"))
        print(f"{_IDLE} idle connections: {added:.0f} MB more, {threads} threads", flush=True)


def _dsn(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=ann dbname=bench"


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of each run of pgbench")
    seconds = parser.parse_args().seconds
    print(machine(), f"· load {os.getloadavg()[0]:.1f}", flush=True)
    with (
        tempfile.TemporaryDirectory() as name,
        running({"max_connections": "100", "fsync": "on"}) as postgres,
    ):
        folder = Path(name)
        with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
            for statement in _MADE:
                connection.execute(statement)
            accounts = f"SELECT i, 1, i % 7, '' FROM generate_series(1, {_ACCOUNTS}) t(i)"
            connection.execute(f"INSERT INTO pgbench_accounts {accounts}".encode())
            connection.execute(f"CREATE TABLE by_branch AS {_BRANCHES}".encode())
            connection.execute("ALTER TABLE by_branch ADD PRIMARY KEY (bid)")
            connection.execute("VACUUM ANALYZE")
        with serving(folder) as (port, pid):
            idle(port, pid)
            look_ups(folder, port, postgres.port, seconds)
            with psycopg.connect(_dsn(port), autocommit=True) as connection:
                print(connection.execute("VERIFY MATERIALIZED VIEW by_branch").fetchall())


if __name__ == "__main__":
    main()

"""A server for tests: `ivm serve` as a process of its own, on a file with tables and views."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import ivm

WAIT = 60.0
_SHOP = (
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR NOT NULL DEFAULT 'EU', "
    "note VARCHAR UNIQUE)",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers (id), "
    "amount DECIMAL(8, 2) CHECK (amount >= 0), placed TIMESTAMP)",
    "CREATE INDEX by_customer ON orders (customer)",
    "CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 10",
    "CREATE SEQUENCE numbers",
    "CREATE SCHEMA s",
    "CREATE TABLE s.t (a INTEGER, l INTEGER[], st STRUCT(a INTEGER))",
    "COMMENT ON TABLE orders IS 'What was ordered'",
    "COMMENT ON COLUMN orders.placed IS 'When'",
    "INSERT INTO customers SELECT i, 'R' || i % 3, 'n' || i FROM range(100) t(i)",
    "INSERT INTO orders SELECT i, i % 100, i % 50, TIMESTAMP '2024-01-01' + to_days(i::INTEGER) "
    "FROM range(1000) t(i)",
    "CREATE MATERIALIZED VIEW revenue AS SELECT region, count(*) AS n, sum(amount) AS total "
    "FROM orders JOIN customers ON customer = customers.id GROUP BY region",
)


def make_shop(path: Path) -> None:
    """Makes a database of customers, orders and a live view of the revenue by region."""
    with ivm.connect(path) as database:
        for statement in _SHOP:
            database.execute(statement)


class Served:
    """A running `ivm serve`.

    Args:
        path: of the database.
        options: of the command line beside the address.

    Attributes:
        port: of PostgreSQL's protocol on 127.0.0.1.
        process: the server.
        log: what it writes to standard error.
    """

    def __init__(self, path: Path, options: Sequence[str] = ("--trust-loopback",)) -> None:
        self.log = path.with_name(f"{path.name}.{time.monotonic_ns()}.log")
        command = [sys.executable, "-m", "ivm", "serve", str(path), "--pg", "127.0.0.1:0", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=path.parent
            )
        self.port = int(self.wait_for(r"listening: postgresql://127\.0\.0\.1:(\d+)")[1])

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Waits until the log has a text."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            found = re.search(pattern, self.told())
            if found is not None:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the log has no {pattern!r}:\n{self.told()}")

    def told(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8")

    def dsn(self, user: str = "ann") -> str:
        """How libpq reaches it."""
        return f"host=127.0.0.1 port={self.port} user={user} dbname=shop connect_timeout=30"

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(WAIT)


@contextlib.contextmanager
def served(path: Path, options: Sequence[str] = ("--trust-loopback",)) -> Iterator[Served]:
    """A server that ends with the block."""
    server = Served(path, options)
    try:
        yield server
    finally:
        server.end(signal.SIGKILL)


def psql(server: Served, *commands: str) -> str:
    """What psql prints for its commands, errors included."""
    arguments = [word for command in commands for word in ("-c", command)]
    environment = {**os.environ, "PGCONNECT_TIMEOUT": "30", "PAGER": ""}
    address = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "ann", "shop"]
    found = subprocess.run(
        ["psql", "-X", "-w", *address, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT,
        env=environment,
        check=False,
    )
    return found.stdout

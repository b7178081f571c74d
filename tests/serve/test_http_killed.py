"""A server that is killed by kill -9 under load: no acknowledged row is lost, none is doubled.

And a subscriber goes on without a gap.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

import ivm
from ivm.client import connect
from tests.serve.test_feeds import State, events, stored
from tests.support import ROOT

pytestmark = pytest.mark.full


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Child:
    """`ivm serve` in a process of its own."""

    def __init__(self, file: Path, port: int) -> None:
        asked = [sys.executable, "-m", "ivm", "serve", str(file), "--http", f"127.0.0.1:{port}"]
        self.url = f"http://127.0.0.1:{port}"
        log = file.with_suffix(".log")
        with log.open("w") as out:
            self.process = subprocess.Popen([*asked, "--trust-loopback"], cwd=ROOT, stderr=out)
        while "listening" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it by kill -9."""
        self.process.kill()
        self.process.wait(10)


class Writer(threading.Thread):
    """Writes numbered rows, each until it is acknowledged, with one key."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.stopped, self.acknowledged = url, threading.Event(), 0
        self.repeated = 0

    def run(self) -> None:
        """Writes until it is stopped."""
        with httpx.Client(base_url=self.url, timeout=20) as client:
            while not self.stopped.is_set():
                number = self.acknowledged
                row = {"id": number, "region": f"r{number % 5}"}
                headers = {"Idempotency-Key": f"row {number}"}
                try:
                    answer = client.post("/tables/orders", json=[row], headers=headers)
                except httpx.TransportError:
                    time.sleep(0.02)
                    continue
                assert answer.status_code == 200, answer.text
                self.repeated += answer.json()["repeated"]
                self.acknowledged += 1


class Follower(threading.Thread):
    """Follows the view, and comes back after each cut with the last epoch that it has."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.state, self.stopped = url, State(), threading.Event()

    def run(self) -> None:
        """Follows until it is stopped."""
        with httpx.Client(base_url=self.url, timeout=2) as client:
            while not self.stopped.is_set():
                known = {"Last-Event-ID": str(self.state.epoch)} if self.state.epoch else {}
                try:
                    path = "/views/revenue/changes"
                    with client.stream("GET", path, headers=known) as response:
                        for _, kind, message in events(response):
                            assert kind in ("snapshot", "changes")
                            if kind == "changes":
                                assert message["epoch"] > self.state.epoch
                            self.state.take(message)
                except httpx.TransportError:
                    time.sleep(0.02)


def test_kills_lose_nothing_and_leave_no_gap(tmp_path: Path) -> None:
    file, port = tmp_path / "shop.duckdb", free_port()
    with ivm.connect(file) as database:
        database.execute("""
            CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR);
            CREATE MATERIALIZED VIEW revenue AS
                SELECT region, count(*) AS n FROM orders GROUP BY region
        """)
    child = Child(file, port)
    writer, follower = Writer(child.url), Follower(child.url)
    writer.start()
    follower.start()
    for _ in range(3):
        begin = writer.acknowledged
        while writer.acknowledged < begin + 50:
            time.sleep(0.02)
            assert writer.is_alive()
        child.kill()
        child = Child(file, port)
    begin = writer.acknowledged
    while writer.acknowledged < begin + 20:
        time.sleep(0.02)
    writer.stopped.set()
    writer.join(10)
    with connect(child.url.replace("http", "ivm")) as client:
        epoch = client.epoch
    end = time.monotonic() + 10
    while follower.state.epoch < epoch and time.monotonic() < end:
        time.sleep(0.02)
    follower.stopped.set()
    child.process.send_signal(signal.SIGTERM)
    assert child.process.wait(20) == 0
    follower.join(10)
    assert len(set(follower.state.epochs)) == len(follower.state.epochs)
    with ivm.connect(file) as database:
        found = database.execute("SELECT count(*), max(id) + 1 FROM orders").fetchall()
        assert found == [(writer.acknowledged, writer.acknowledged)]
        assert follower.state.rows == stored(database)


@pytest.mark.parametrize("rows", [10, 20_000])
def test_who_reads_slowly_has_the_whole_answer_after_sigterm(tmp_path: Path, rows: int) -> None:
    child = Child(tmp_path / "shop.duckdb", free_port())
    sql = f"SELECT repeat('x', 1000) AS text FROM range({rows})"
    with (
        httpx.Client(base_url=child.url, timeout=30) as client,
        client.stream("POST", "/sql", content=sql, headers={"Accept": "text/csv"}) as answer,
    ):
        child.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert len(answer.read().split()) == rows + 1
    assert child.process.wait(30) == 0

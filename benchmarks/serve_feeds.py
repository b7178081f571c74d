"""Changefeeds of `ivm serve`: many subscribers by server-sent events beside steady commits.

    python -m benchmarks.serve_feeds [--subscribers 200] [--rate 200] [--seconds 20]

Every subscriber must get every epoch once and in order; else it says so and ends with 1. The delay
is from the moment before a commit is sent to that at which the last subscriber has its epoch; the
subscribers run in this process, on the same machine, so it has their work in it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np

import ivm

SCHEMA = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount DECIMAL(9, 2));
    CREATE MATERIALIZED VIEW revenue AS
        SELECT region, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY region
"""
REQUEST = b"GET /views/revenue/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)
_WRITERS = 8
_WAIT = 60.0  # seconds for the last epochs


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Subscriber:
    """One client: it keeps the epochs that it got, and when."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ready = asyncio.Event()
        self.epochs: list[int] = []
        self.times: list[float] = []

    async def follow(self) -> None:
        """Follows the view until it is cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        try:
            writer.write(REQUEST)
            await reader.readuntil(b'"last": true')
            await reader.readuntil(b"\n\n")
            self.ready.set()
            left = b""
            while chunk := await reader.read(1 << 16):
                whole, end, left = (left + chunk).rpartition(b"\n\n")
                if found := _ID.findall(whole + end):
                    self.epochs += map(int, found)
                    self.times += [time.perf_counter()] * len(found)
        finally:
            writer.close()


async def write(port: int, rate: float, seconds: float) -> dict[int, float]:
    """Commits rows at a rate, if the server can; returns when the commit of each epoch was sent."""
    sent: dict[int, float] = {}
    numbers = itertools.count()
    begin = time.perf_counter()

    async def work(client: httpx.AsyncClient) -> None:
        while (due := (i := next(numbers)) / rate) < seconds:
            now = time.perf_counter()
            if now > begin + seconds:
                return
            await asyncio.sleep(begin + due - now)
            row = {"id": i, "region": f"r{i % 10}", "amount": 1.5}
            now = time.perf_counter()
            answer = await client.post("/tables/orders", json=[row])
            sent[answer.raise_for_status().json()["epoch"]] = now

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        await asyncio.gather(*[work(client) for _ in range(_WRITERS)])
    return sent


async def measure(port: int, count: int, rate: float, seconds: float) -> bool:
    """Runs subscribers and the writer, and prints what came of it."""
    subscribers = [Subscriber(port) for _ in range(count)]
    tasks = [asyncio.create_task(each.follow()) for each in subscribers]
    for each in subscribers:
        await each.ready.wait()
    begin = time.perf_counter()
    sent = await write(port, rate, seconds)
    took = time.perf_counter() - begin
    wanted = sorted(sent)
    end = time.perf_counter() + _WAIT
    while any(len(each.epochs) < len(wanted) for each in subscribers):
        if time.perf_counter() > end:
            break
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    good = [each.epochs == wanted for each in subscribers]
    print(f"{len(wanted)} commits in {took:.1f} s, {len(wanted) / took:.0f}/s")
    print(f"{sum(good)} of {count} subscribers got each epoch once and in order")
    if all(good):
        last = np.max([each.times for each in subscribers], axis=0)
        delays = (last - np.array([sent[epoch] for epoch in wanted])) * 1000
        p50, p99 = np.percentile(delays, [50, 99])
        print(f"until the last subscriber has an epoch: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    return all(good)


def main() -> int:
    """Runs the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscribers", type=int, default=200)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.duckdb"
        with ivm.connect(file) as db:
            db.execute(SCHEMA)
        file.with_name("ivm.toml").write_text('[server]\nlog = "errors"\n')
        asked = ["serve", str(file), "--http", f"127.0.0.1:{port}", "--trust-loopback"]
        server = subprocess.Popen([sys.executable, "-m", "ivm", *asked], stderr=subprocess.DEVNULL)
        try:
            _wait_for(port)
            before = _cpu(server.pid)
            good = asyncio.run(measure(port, given.subscribers, given.rate, given.seconds))
            print(f"the server used {_cpu(server.pid) - before:.1f} s of a core")
        finally:
            server.terminate()
            server.wait(30)
    return 0 if good else 1


def _wait_for(port: int) -> None:
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz").raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.1)


def _cpu(pid: int) -> float:
    """Seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())

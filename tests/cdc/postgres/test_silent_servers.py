"""A server, or a network, that keeps its connections open and says nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import ivm
from ivm.cdc import progress
from ivm.cdc.sources.postgres.connections import server
from ivm.cdc.sources.postgres.log import replication
from tests.cdc.postgres.following import ORDERS, follow, same, state, until
from tests.support.postgres import Database

ALL = ("FROM orders", "SELECT * FROM orders")
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'ivm'"
# Each second connection is accepted and never answered: that of the replication protocol.
PROXY = """
import socket, sys, threading
door = socket.create_server(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)
def pump(a, b):
    while data := a.recv(65536):
        b.sendall(data)
kept, count = [], 0
while True:
    client, _ = door.accept()
    kept.append(client)
    count += 1
    if count % 2 == 0:
        continue
    there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for pair in ((client, there), (there, client)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""


@contextmanager
def stalled(shop: Database) -> Iterator[None]:
    pids = [pid for (pid,) in shop.execute(SESSIONS)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def reason(db: ivm.Database) -> str:
    return db.sources()[0].reason or ""


def test_a_server_that_hangs_is_not_caught_up(
    db: ivm.Database, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE", 2.0)
    monkeypatch.setattr(progress, "FRESH", 0.5)
    shop.execute(ORDERS)
    follow(db, shop)
    until(lambda: db.sources()[0].caught_up, db)
    with stalled(shop):
        shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
        until(lambda: not db.sources()[0].caught_up, db)
        assert db.sources()[0].lag_seconds != 0.0
        until(lambda: "has not answered for 2 seconds" in reason(db), db)
    until(same(db, shop, *ALL), db)
    until(lambda: db.sources()[0].caught_up, db)


@pytest.mark.full
def test_a_stream_that_hangs_is_begun_anew(
    db: ivm.Database, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers all questions beside it."""
    monkeypatch.setattr(replication, "SILENCE", 1.0)
    shop.execute(ORDERS)
    follow(db, shop)
    until(lambda: db.sources()[0].caught_up, db)
    [(pid,)] = shop.execute("SELECT active_pid FROM pg_replication_slots WHERE active")
    os.kill(pid, signal.SIGSTOP)
    try:
        shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
        until(lambda: "has not answered for 1 seconds" in reason(db), db)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(same(db, shop, *ALL), db)


@pytest.mark.full
def test_nobody_stands_still_while_a_connection_is_made(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    proxy = subprocess.Popen(
        [sys.executable, "-c", PROXY, str(shop.server.port)], stdout=subprocess.PIPE, text=True
    )
    assert proxy.stdout is not None
    port = int(proxy.stdout.readline())
    dsn = shop.dsn.replace(f"port={shop.server.port}", f"port={port} connect_timeout=3")
    gaps, over = [0.0], threading.Event()

    def tick() -> None:
        last = time.monotonic()
        while not over.wait(0.01):
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        quoted = dsn.replace("'", "''")
        db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{quoted}', tables 'orders')")
        db.start_sources()
        until(lambda: "timeout" in reason(db), db)
    finally:
        over.set()
        ticking.join()
        db.execute("DROP SOURCE shop")
        proxy.kill()
        proxy.wait()
        proxy.stdout.close()
    assert max(gaps) < 2.5


@pytest.mark.full
def test_a_stream_that_cannot_go_on_stops(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    follow(db, shop)
    shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
    until(same(db, shop, *ALL), db)
    db.execute("PAUSE SOURCE shop")
    until(lambda: shop.execute(SESSIONS) == [], db)
    shop.execute("DROP PUBLICATION ivm_shop", "INSERT INTO orders VALUES (2, 1, 1, '')")
    shop.execute("CREATE PUBLICATION ivm_shop FOR TABLE orders")
    db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)

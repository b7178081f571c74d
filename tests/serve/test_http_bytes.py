"""Malformed bytes on the HTTP port: no crash, no hang, no leak, and others are served meanwhile.

`IVM_TESTS=fuzz` sends 10⁵ requests.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import ivm
from ivm.serve.http import feeds, listener, runs
from tests.serve.http_world import HttpWorld
from tests.tiers import SEED, TIER

pytestmark = pytest.mark.full(smoke=2)

REQUESTS = {"quick": 200, "full": 2_000, "fuzz": 100_000}[TIER]
SENDERS, LOOK, LEAK = 4, 250, 100 << 20


def arrow(column: pa.Array) -> bytes:
    """A request with rows in Arrow."""
    out, table = io.BytesIO(), pa.table({"a": column})
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    body = out.getvalue()
    return (
        b"POST /tables/t?op=insert HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        b"Content-Type: application/vnd.apache.arrow.stream\r\n\r\n%b" % (len(body), body)
    )


GOOD = [
    arrow(pa.array([1, 2, None], pa.int32())),
    arrow(pa.array(["a", "b"]).dictionary_encode()),
    b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: "
    b'application/vnd.apache.arrow.stream\r\nContent-Length: 41\r\n\r\n{"sql": "SELECT ? + 1", '
    b'"params": [1, 2]}',
    b"POST /sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    b"DELETE /sessions/%41%2f HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /views/%22v%22?after=99&wait=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /console/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nSELECT 1",
    b"POST /tables/t HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Transfer-Encoding: chunked\r\n\r\n9\r\n[{"a": 1}\r\n1\r\n]\r\n0\r\n\r\n',
    b"GET /views/v?a=1&limit=2 HTTP/1.1\r\nHost: localhost\r\nAccept: text/csv\r\n\r\n",
    b"GET /views/v/changes HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 3\r\n\r\n",
    b"GET /views/v/changes HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x85\x01\x02\x03\x04abcde",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YTpi\r\n\r\n",
]


@pytest.fixture
def world() -> Iterator[HttpWorld]:
    database = ivm.connect()
    database.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
    found = HttpWorld(database)
    yield found
    found.close()


ODD = [
    *(b"\r\n", b"\0", b"%00", b": ", b"\xff", b"999999999", b"%", b"%2f", b"%c3%28", b"[" * 5000),
    *(b"X: " + b"y" * 70_000, b"\r\nContent-Length: 5\r\n", b"\r\nTransfer-Encoding: chunked\r\n"),
    *(
        b"\r\nExpect: 100-continue\r\n",
        b"\r\nContent-Type: text/html\r\n",
        b"\xed\xa0\x80",
    ),
]


def mutated(chance: random.Random) -> bytes:
    """A recorded request with some of its bytes changed, cut, doubled or moved."""
    data = bytearray(chance.choice(GOOD))
    for _ in range(chance.randint(1, 6)):
        at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] = chance.randrange(256)
            case 1:
                del data[at : min(end, at + 20)]
            case 2:
                data[at:at] = data[at : min(end, at + 50)]
            case 3:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(9)))
            case 4:
                data[at:at] = chance.choice(ODD)
            case _:
                data += chance.choice(GOOD)[:end]
    return bytes(data)


def resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def send(port: int, data: bytes) -> None:
    """Sends bytes, and leaves without waiting for long."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sent:
        try:
            sent.sendall(data)
            sent.settimeout(0.001)
            sent.recv(1 << 16)
        except OSError:
            pass


@pytest.fixture
def silent() -> Iterator[None]:
    """The log is not kept, as it is for reports: it would be what the memory holds."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.full
@pytest.mark.usefixtures("silent")
def test_malformed_requests_hurt_nobody(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "BEAT", 0.5)  # by which it is noticed that clients have left
    monkeypatch.setattr("ivm.serve.http.sessions.IDLE", 1.0)
    threads = threading.active_count()
    size = 0
    with world.client() as client, ThreadPoolExecutor(SENDERS) as senders:
        for number in range(0, REQUESTS, LOOK):
            chance = random.Random(f"{SEED} {number}")
            sent = [mutated(chance) for _ in range(LOOK)]
            list(senders.map(lambda data: send(world.listener.port, data), sent))
            assert client.get("/healthz").status_code == 200
            assert client.post("/sql", content="SELECT 1").json()["rows"] == [[1]]
            if number <= REQUESTS // 4:
                size = resident()
    served = world.listener._served
    end = time.monotonic() + 30
    while (world.pool.size or served.hub.size) and time.monotonic() < end:
        time.sleep(0.05)
    assert (world.pool.size, served.hub.size) == (0, 0)
    grown = resident() - size
    assert grown < LEAK, grown
    assert threading.active_count() < threads + 30


def test_a_body_that_trickles_is_refused(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SLOW", 0.3)
    with socket.create_connection(("127.0.0.1", world.listener.port), timeout=10) as sent:
        sent.sendall(b"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n")
        for _ in range(10):  # each in time
            time.sleep(0.1)
            with contextlib.suppress(ConnectionError):
                sent.sendall(b"x")
        assert sent.recv(100).startswith(b"HTTP/1.1 408")


def test_a_head_that_never_ends_is_refused(world: HttpWorld) -> None:
    with socket.create_connection(("127.0.0.1", world.listener.port), timeout=10) as sent:
        sent.sendall(b"GET / HTTP/1.1\r\nX: ")
        with contextlib.suppress(OSError):
            for _ in range(100):
                sent.sendall(b"x" * 10_000)
        with contextlib.suppress(ConnectionError):
            assert sent.recv(100).startswith(b"HTTP/1.1 400")


def test_a_client_that_sends_nothing_is_sent_away(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.3)
    for begin in (b"", b"GET /heal"):
        with socket.create_connection(("127.0.0.1", world.listener.port), timeout=10) as sent:
            sent.sendall(begin)
            assert sent.recv(100) == b""

"""Malformed bytes on the HTTP port: no crash, no hang, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator

import pytest

import ivm
from ivm.serve.http import feeds, listener
from tests.serve.http_world import HttpWorld
from tests.tiers import SEED, examples

GOOD = [
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
                data[at:at] = chance.choice([b"\r\n", b"\0", b"%00", b": ", b"\xff", b"999999999"])
            case _:
                data += chance.choice(GOOD)[:end]
    return bytes(data)


def send(port: int, data: bytes) -> None:
    """Sends bytes, and leaves without waiting for long."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as sent:
        try:
            sent.sendall(data)
            sent.settimeout(0.001)
            sent.recv(1 << 16)
        except OSError:
            pass


def test_malformed_requests_hurt_nobody(world: HttpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "BEAT", 0.5)  # by which it is noticed that clients have left
    chance = random.Random(SEED)
    with world.client() as client:
        for i in range(examples(2000)):
            send(world.listener.port, mutated(chance))
            if i % 50 == 0:
                assert client.get("/healthz").status_code == 200
                assert client.post("/sql", content="SELECT 1").json()["rows"] == [[1]]
        end = time.monotonic() + 10
        while (world.pool.size or world.listener._served.hub.size) and time.monotonic() < end:
            time.sleep(0.05)
        assert (world.pool.size, world.listener._served.hub.size) == (0, 0)


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

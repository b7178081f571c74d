"""Malformed messages: recorded sessions of real clients, with bytes changed, lost and doubled.

No such session ends the server, keeps a place or a thread, or holds up others meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

import ivm
from benchmarks.serve import megabytes
from ivm.serve.settings import ServerSettings
from tests import tiers
from tests.serve.in_process import Listening, listening, startup

SESSIONS = {"quick": 60, "full": 2_000, "fuzz": 100_000}[tiers.TIER]
_WARM = 1_000  # sessions, or a tenth of all, in which the server takes the memory that it needs
_GROWTH = 64  # megabytes that it may need more of later, whatever comes
_LENGTHS = (0, 3, -1, -(1 << 31), (1 << 31) - 1, 5, 70_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    settings = ServerSettings(pg="127.0.0.1:0", trust="loopback", statement_seconds=5)
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        database.execute("INSERT INTO t SELECT i, 'x' || i FROM range(100) r(i)")
        database.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        with listening(database, tmp_path_factory.mktemp("fuzz"), settings) as found:
            yield found


@contextlib.contextmanager
def recorded(server: Listening) -> Iterator[tuple[int, list[bytearray]]]:
    """A port that passes on to the server, and what has been sent through it by each client."""
    sessions: list[bytearray] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, kept: bytearray | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                upstream = socket.create_connection(("127.0.0.1", server.port))
                sessions.append(bytearray())
                there = threading.Thread(target=pump, args=(client, upstream, sessions[-1]))
                back = threading.Thread(target=pump, args=(upstream, client, None))
                for thread in (there, back):
                    thread.start()
                there.join()
                back.join()
                client.close()
                upstream.close()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1], sessions
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(10)


def _psycopg_session(port: int) -> None:
    dsn = f"host=127.0.0.1 port={port} user=ann dbname=shop sslmode=disable"
    with psycopg.connect(dsn) as connection:
        cursor = connection.cursor(binary=True)
        cursor.execute("SELECT * FROM t WHERE a = %s", [5], prepare=True).fetchall()
        cursor.execute("INSERT INTO t VALUES (%s, %s)", [1000, "y"])
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write_row((1001, "z"))
        connection.rollback()
        connection.execute("SELECT 1; SELECT 2").fetchall()
        list(connection.cursor().stream("SELECT a FROM t", size=10))


async def _asyncpg_session(port: int) -> None:
    connection: Any = await asyncpg.connect(
        host="127.0.0.1", port=port, user="ann", database="shop", ssl=False
    )
    await connection.fetch("SELECT * FROM t WHERE b = $1 AND a < $2", "x5", 50)
    await connection.executemany("UPDATE t SET b = $1 WHERE a = $2", [("q", 1), ("r", 2)])
    await connection.fetch("SELECT [1, 2], 1.5::DECIMAL(4, 2), DATE '2024-01-01'")
    await connection.close()


async def _copies_and_errors(port: int) -> None:
    """What the others do not send: a Describe, a Close, a Flush, COPY in binary, and mistakes."""
    connection: Any = await asyncpg.connect(
        host="127.0.0.1", port=port, user="ann", database="shop", ssl=False
    )
    for sql in ("SELEC 1", "SELECT 1/0", "COPY t TO STDOUT (FORMAT binary)", "BEGIN", "SELEC 2"):
        with contextlib.suppress(asyncpg.PostgresError):
            await connection.execute(sql)
    await connection.execute("ROLLBACK")
    prepared = await connection.prepare("SELECT $1::DATE, $2::NUMERIC, $3::INTEGER[]")
    prepared.get_attributes()
    await connection.close()


def cut(session: bytes) -> list[bytes]:
    """The messages of a session behind its first one."""
    found, at = [], 0
    while at + 5 <= len(session):
        (length,) = struct.unpack_from("!i", session, at + 1)
        found.append(session[at : at + 1 + length])
        at += 1 + length
    return found


def disordered(session: bytes, chance: random.Random) -> bytes:
    """A session whose messages come out of phase, or lie about their kind and length."""
    messages = cut(session)
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(messages)), chance.randrange(len(messages))
        message = messages[at]
        match chance.randrange(6):
            case 0:
                messages[at], messages[other] = messages[other], message
            case 1:
                messages.insert(other, message)
            case 2:
                messages[at] = bytes([chance.randrange(256)]) + message[1:]
            case 3:
                length = struct.pack("!i", chance.choice(_LENGTHS))
                messages[at] = message[:1] + length + message[5:]
            case 4:
                messages[at] = message.replace(b"S", chance.choice([b"\0", b"\xff", b"\xed\xa0"]))
            case 5:
                body = chance.randbytes(chance.randint(0, 30))
                tag = chance.choice(b"QPBDECSHFdcfpX").to_bytes(1)
                messages.insert(at, tag + struct.pack("!i", len(body) + 4) + body)
    return b"".join(messages)


def mutated(session: bytes, chance: random.Random) -> bytes:
    """A session with some bytes of it changed, lost, doubled or from nowhere."""
    if len(session) > 5 and chance.random() < 0.3:
        return disordered(session, chance)
    data = bytearray(session)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data))
        end = min(len(data), at + chance.randint(1, 40))
        match chance.randrange(6):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 20))
            case 4:
                data[at : at + 4] = chance.choice([b"\0\0\0\0", b"\xff" * 4, b"\x7f\xff\xff\xff"])
            case 5:
                del data[at:]
                data += b"S\0\0\0\x04"
        if not data:
            return b"\0"
    return bytes(data)


@pytest.mark.timeout(3600 if tiers.TIER == "fuzz" else 300)
def test_recorded_sessions_with_mistakes(
    server: Listening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # COPY … TO STDOUT with a letter changed writes a file
    with recorded(server) as (port, sessions):
        _psycopg_session(port)
        asyncio.run(_asyncpg_session(port))
        asyncio.run(_copies_and_errors(port))
    chance, warm = random.Random(tiers.SEED), 0.0
    head = len(startup())
    for i in range(SESSIONS):
        session = bytes(chance.choice([s for s in sessions if len(s) > 200]))
        keeps_head = chance.random() < 0.8  # else hardly one would come in
        data = session[:head] + mutated(session[head:], chance) if keeps_head else None
        _send(server, data or mutated(session, chance), waits=i % 3 == 0)
        if i % 50 == 0 and i <= max(SESSIONS // 10, _WARM):
            warm = max(warm, megabytes(os.getpid()))
        if i % 50 == 0:
            with psycopg.connect(server.dsn()) as connection:
                assert connection.execute("SELECT n > 0 FROM v").fetchone() == (True,)
    end = time.monotonic() + 30
    while server.pool.size and time.monotonic() < end:
        time.sleep(0.05)
    assert server.pool.size == 0
    assert not server.listener.connections
    assert megabytes(os.getpid()) - warm < _GROWTH


def _send(server: Listening, data: bytes, *, waits: bool) -> None:
    """Sends a session; reads until the server ends it, or first as long as it answers."""
    address = "127.0.0.1", server.port
    with contextlib.suppress(ConnectionError), socket.create_connection(address, 30) as client:
        client.sendall(data)
        if waits:
            client.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                while client.recv(65536):
                    pass
            client.settimeout(30)
        client.shutdown(socket.SHUT_WR)  # what still runs is cancelled
        while client.recv(65536):
            pass

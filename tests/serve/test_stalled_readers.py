"""Clients that do not read what they are sent are cut, and their results let go."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import ivm
from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings
from tests.serve.http_world import HttpWorld
from tests.serve.in_process import Listening, listening

LARGE = "SELECT i, repeat('x', 2000) FROM range(30000) t(i)"
HUGE = "SELECT i, repeat('x', 2000) FROM range(500000) t(i)"  # a gigabyte
SECONDS = 0.5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Listening]:
    settings = ServerSettings(pg="127.0.0.1:0", trust="loopback", send_seconds=SECONDS)
    with ivm.connect() as database, listening(database, tmp_path, settings) as found:
        yield found


def demand_cut(pool: SessionPool) -> None:
    end = time.monotonic() + 30
    while pool.size and time.monotonic() < end:
        time.sleep(0.05)
    assert pool.size == 0


@pytest.mark.full
@pytest.mark.parametrize(
    "sql", [LARGE, f"COPY ({LARGE}) TO STDOUT", "SELECT repeat('x', 100000);" * 300]
)
def test_over_postgresqls_protocol(
    server: Listening, sql: str, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.closing(psycopg.connect(server.dsn())) as stalled:
        stalled.pgconn.send_query(sql.encode())
        demand_cut(server.pool)
    assert "has read nothing" in caplog.text
    with psycopg.connect(server.dsn(), autocommit=True) as reading:
        assert len(reading.execute(LARGE).fetchall()) == 30000


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [HUGE, f"COPY ({HUGE}) TO STDOUT", f"DECLARE c CURSOR WITH HOLD FOR {HUGE}; FETCH 9 FROM c"],
)
def test_a_result_is_computed_as_it_is_read(server: Listening, sql: str) -> None:
    with taking_little(), contextlib.closing(psycopg.connect(server.dsn())) as stalled:
        stalled.pgconn.send_query(sql.encode())
        demand_cut(server.pool)


def test_a_result_with_parameters_is_computed_as_it_is_read(server: Listening) -> None:
    with taking_little(), contextlib.closing(psycopg.connect(server.dsn())) as stalled:
        sql = HUGE.replace("500000", "$1::BIGINT")
        stalled.pgconn.send_query_params(sql.encode(), [b"500000"])
        demand_cut(server.pool)


def test_a_result_over_http_is_computed_as_it_is_read() -> None:
    world, body = HttpWorld(ivm.connect(), send_seconds=SECONDS), HUGE.encode()
    place = ("127.0.0.1", world.listener.port)
    with taking_little(), socket.create_connection(place, timeout=10) as stalled:
        head = f"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        stalled.sendall(head.encode() + body)
        stalled.recv(1)
        demand_cut(world.pool)
    world.close()


@contextlib.contextmanager
def taking_little(most: int = 200) -> Iterator[None]:
    """Demands that the process never takes so many megabytes more in a block."""
    before, found, ended = resident(), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            found.append(resident() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    assert max(found) < most


def resident() -> int:
    """Megabytes of the process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


@pytest.mark.full
def test_one_who_reads_slowly_is_not_cut(server: Listening) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as slow:
        copied = 0
        with slow.cursor().copy(f"COPY ({LARGE}) TO STDOUT".encode()) as copy:
            for i, row in enumerate(copy):
                copied += len(row)
                if i % 10_000 == 0:
                    time.sleep(SECONDS / 2)
        assert copied > 60_000_000


@pytest.mark.full
def test_over_http() -> None:
    world = HttpWorld(ivm.connect(), send_seconds=SECONDS)
    body = LARGE.encode()
    with socket.create_connection(("127.0.0.1", world.listener.port), timeout=10) as stalled:
        head = f"POST /sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        stalled.sendall(head.encode() + body)
        stalled.recv(1)
        demand_cut(world.pool)
    world.close()

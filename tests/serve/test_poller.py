"""The thread that waits for all sockets: held up, it gives its place to another one."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ivm.serve.pg.wire.poller import Poller
from ivm.serve.pg.wire.sockets import read_now

pytestmark = pytest.mark.skipif(
    not Poller.is_possible(), reason="NOT RUN: the system has no epoll, and needs no poller"
)


class Client:
    """Reads what comes, and calls a function with it."""

    def __init__(self, work: Callable[[bytes], object]) -> None:
        self.inside, self.outside = socket.socketpair()
        self.inside.setblocking(False)
        self._work = work

    def close(self) -> None:
        """Closes both sides."""
        self.inside.close()
        self.outside.close()

    def readable(self) -> None:
        """See `Readable`."""
        data = read_now(self.inside.fileno(), 100)
        if data is not None:
            self._work(data)


@pytest.fixture
def poller() -> Iterator[Poller]:
    poller = Poller()
    yield poller
    poller.end()
    end = time.monotonic() + 20
    while any(thread.name == "ivm serve sockets" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


@contextlib.contextmanager
def following(poller: Poller, *works: Callable[[bytes], object]) -> Iterator[list[Client]]:
    """Clients that a poller waits for."""
    clients = [Client(work) for work in works]
    for client in clients:
        poller.add(client.inside.fileno(), client)
    yield clients
    for client in clients:
        poller.remove(client.inside.fileno())
        client.close()


def test_who_waits_for_a_later_message_gets_it(poller: Poller) -> None:
    """As statements that wait for the transaction of another client do, several at once."""
    came, waited = threading.Event(), threading.Semaphore(0)

    def wait(data: bytes) -> None:
        if came.wait(20):
            waited.release()

    with following(poller, *[wait] * 5, lambda data: came.set()) as clients:
        for client in clients:
            client.outside.sendall(b"x")
        for _ in range(5):
            assert waited.acquire(timeout=20)


def test_a_fault_ends_no_thread_and_what_is_paused_waits(poller: Poller) -> None:
    came = threading.Event()
    with following(poller, lambda data: 1 // 0, lambda data: came.set()) as (faulty, client):
        poller.pause(client.inside.fileno())
        client.outside.sendall(b"x")
        faulty.outside.sendall(b"x")
        assert not came.wait(0.05)
        poller.resume(client.inside.fileno())
        assert came.wait(20)


def test_the_other_side_is_closed(poller: Poller) -> None:
    told = threading.Event()

    def end(data: bytes) -> None:
        if not data:
            poller.remove(client.inside.fileno())
            told.set()

    with following(poller, end) as (client,):
        client.outside.close()
        assert told.wait(20)

"""Reads from the sockets of clients, and answers them in the same thread.

A message that went from the event loop to another thread took as long on its way as its statement
(measured: look-ups of 50 clients, some 100 µs of 170). So one thread waits for all sockets, the
leader, and answers what it reads there.

Invariant: whenever a message has come, a thread reads it within some milliseconds. What takes
longer than a moment costs the leader its place: another thread waits for the sockets from then on,
and the one that is held up ends once it has answered. So nothing waits for long work, nor for what
only later work can end.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from typing import Protocol

_log = logging.getLogger("ivm.serve")
_MOMENT = 0.002  # seconds after which work is no longer short
_QUIET = 25  # looks without work after which nobody looks any more


class Readable(Protocol):
    """What is told of a socket; any thread calls it."""

    def readable(self) -> None:
        """There is something to be read, or the socket was closed."""


class _Lead:
    """The time of one leader.

    Attributes:
        began: when the work began that it does now; 0 if it waits.
    """

    began = 0.0


class Poller:
    """Waits for the sockets of all clients; there is one where the system has epoll."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._sockets: dict[int, Readable] = {}
        self._lead = _Lead()
        self._works = threading.Event()
        self._ended = False
        self._waking, self._wakes = os.pipe()
        self._poll.register(self._waking, select.EPOLLIN)
        self._threads = [threading.Thread(target=self._watch, name="ivm serve look", daemon=True)]
        self._threads[0].start()
        self._start_leader()

    @staticmethod
    def is_possible() -> bool:
        """Whether the system has what it takes."""
        return hasattr(select, "epoll")

    def add(self, socket: int, client: Readable) -> None:
        """Waits for a socket from now on."""
        self._sockets[socket] = client
        self._poll.register(socket, select.EPOLLIN)

    def remove(self, socket: int) -> None:
        """Waits for it no more; it is open still."""
        if self._sockets.pop(socket, None) is not None:
            self._poll.unregister(socket)

    def pause(self, socket: int) -> None:
        """Reads nothing from a socket for now."""
        if socket in self._sockets:
            self._poll.modify(socket, 0)

    def resume(self, socket: int) -> None:
        """Reads from it again."""
        if socket in self._sockets:
            self._poll.modify(socket, select.EPOLLIN)

    def end(self) -> None:
        """Ends the threads that wait."""
        self._ended = True
        self._works.set()
        os.write(self._wakes, b"\0")
        for thread in self._threads:
            thread.join(1)  # one that is held up ends later
        self._poll.close()
        os.close(self._wakes)
        os.close(self._waking)

    def _start_leader(self) -> None:
        self._lead = lead = _Lead()
        thread = threading.Thread(
            target=self._follow_sockets, args=(lead,), name="ivm serve sockets", daemon=True
        )
        self._threads[1:] = [thread]
        thread.start()

    def _follow_sockets(self, lead: _Lead) -> None:
        while True:
            for socket, _ in self._events():
                if self._ended:
                    return
                client = self._sockets.get(socket)
                if client is not None:
                    self._answer(client, lead)
                if self._lead is not lead:  # the new leader is told of the others, too
                    return

    def _events(self) -> list[tuple[int, int]]:
        try:
            return self._poll.poll()
        except ValueError:  # it was closed, with all that is served
            return [(self._waking, 0)]

    def _answer(self, client: Readable, lead: _Lead) -> None:
        lead.began = time.monotonic()
        if not self._works.is_set():
            self._works.set()
        try:
            client.readable()
        except Exception:  # a fault of ours: others are served
            _log.exception("a fault of the server: please report it")
        lead.began = 0.0

    def _watch(self) -> None:
        """Gives the sockets another leader where the present one is held up."""
        quiet = 0
        while not self._ended:
            self._works.wait()
            time.sleep(_MOMENT)
            began = self._lead.began
            if began:
                quiet = 0
                if time.monotonic() - began > _MOMENT and not self._ended:
                    self._start_leader()
            elif (quiet := quiet + 1) > _QUIET:
                quiet = 0
                self._works.clear()
                if self._lead.began or self._ended:
                    self._works.set()

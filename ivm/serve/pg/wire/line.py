"""The line to a client: who reads it, and how what is sent gets there.

Invariant: one thread at most sends, to the socket itself where nothing waits in the loop before, so
that a small answer costs no turn of the loop. Bytes go out in the order in which they were sent.
What is not encrypted is read by the `Poller` once the socket is open to threads, else by the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable

from ivm.serve.pg.wire.poller import Poller, Readable
from ivm.serve.pg.wire.sockets import read_now, written_now

_log = logging.getLogger("ivm.serve")
_LARGE = 1 << 17
_READ = 1 << 16  # bytes read at a time
_MOMENT = 0.005  # seconds


class Line:
    """The transport of a connection, and its socket.

    Args:
        poller: reads sockets beside the loop; None if there is none.
        reader: is told that there is something to be read.
        patience: gives the seconds that the client may take to read what is sent; 0: for ever.

    Attributes:
        lock: guards the socket, who reads it, and what the connection guards with it.
        lost: the client has left, or was sent away.
        paused: nothing is read for now.
    """

    def __init__(
        self, poller: Poller | None, reader: Readable, patience: Callable[[], float]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._patience = patience
        self._poller, self._reader = poller, reader
        self._transport: asyncio.Transport | None = None
        self.lock = threading.Lock()
        self.lost = self.paused = False
        self._polled = False  # read by the poller, no more by the loop
        self._queued = 0  # answers that wait in the loop
        self._socket = -1  # of an open line that is not encrypted
        self._writable = threading.Event()
        self._writable.set()

    def in_loop(self, call: Callable[[], object]) -> None:
        """Calls a function in the event loop, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    # -- in the loop ----------------------------------------------------------------------------

    @property
    def transport(self) -> asyncio.Transport:
        """That of the client, which there is from the first call on."""
        assert self._transport is not None
        return self._transport

    @transport.setter
    def transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    @property
    def is_encrypted(self) -> bool:
        """Whether what is sent is."""
        return self.transport.get_extra_info("ssl_object") is not None

    @property
    def has_unsent(self) -> bool:
        """Whether the socket has not yet taken all that was sent."""
        return self._queued > 0 or self.transport.get_write_buffer_size() > 0

    def write(self, data: bytes) -> None:
        """Sends bytes before any thread does."""
        if not self.lost:
            self.transport.write(data)

    def end(self) -> None:
        """No thread uses the socket from here on: its number will be another's. With the lock."""
        self._leave_poller()
        self.lost, self._socket = True, -1
        self._writable.set()

    def hold(self) -> None:
        """The client does not read what is sent."""
        self._writable.clear()

    def let(self) -> None:
        """It reads again."""
        self._writable.set()

    # -- reading --------------------------------------------------------------------------------

    def open(self) -> None:
        """Lets threads read and write the socket, unless what is sent is encrypted."""
        if self.is_encrypted:
            return
        with self.lock:
            if not self.lost:
                self._socket = self.transport.get_extra_info("socket").fileno()
        self.in_loop(self._join_poller)

    def read(self) -> bytes | None:
        """What has come, b"" at the end, None if there is nothing; with the lock."""
        if self._socket < 0:
            return None
        data = read_now(self._socket, _READ)
        if data is not None and not data:
            self._leave_poller()
        return data

    def pause(self) -> None:
        """Reads no more for now; with the lock."""
        self.paused = True
        if self._polled and self._poller is not None:
            self._poller.pause(self._socket)
        else:
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Reads again what was paused; in the loop."""
        with self.lock:
            if not self.paused:
                return
            self.paused = False
            if self._polled and self._poller is not None:
                self._poller.resume(self._socket)
                return
        with contextlib.suppress(RuntimeError):  # it is closing
            self.transport.resume_reading()

    def _join_poller(self) -> None:
        """Has the thread that waits for the sockets read from here on; the loop does no more."""
        if self._poller is None or self.transport.is_closing():
            return
        with self.lock:
            if self._socket < 0 or self.paused:
                return
            self.transport.pause_reading()
            self._polled = True
            self._poller.add(self._socket, self._reader)

    def _leave_poller(self) -> None:
        if self._polled and self._poller is not None and self._socket >= 0:
            self._poller.remove(self._socket)
            self._polled = False

    # -- sending --------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """See `Client`; in the thread that answers."""
        with self.lock:
            if self.lost:
                raise ConnectionResetError("the client has left")
            written = 0
            if self._socket >= 0 and not self._queued:
                written = written_now(self._socket, data)
                if written == len(data):
                    return
            self._queued += 1
        rest = data[written:] if written else data
        self.in_loop(lambda: self._write_queued(rest))
        if len(rest) >= _LARGE or not self._writable.is_set():  # also many small ones are much
            self._wait_for_reader()

    def _write_queued(self, data: bytes) -> None:
        self.write(data)
        if self._socket < 0 or not self.transport.get_write_buffer_size():
            with self.lock:
                self._queued = max(self._queued - 1, 0)
        else:
            self._loop.call_later(_MOMENT, self._write_queued, b"")

    def _wait_for_reader(self) -> None:
        written = threading.Event()
        self.in_loop(written.set)
        written.wait(60)
        began, patience = time.monotonic(), self._patience()
        while not self._writable.wait(0.5) and not self.lost:
            if patience and time.monotonic() - began > patience:
                self.in_loop(self._cut)
                raise ConnectionResetError("the client does not read")
        if self.lost:
            raise ConnectionResetError("the client has left")

    def _cut(self) -> None:
        """Ends a connection whose client does not read: what it has not read is let go."""
        _log.warning("%s: cut: the client has read nothing for %g s", *self._told())
        self.transport.abort()

    def _told(self) -> tuple[str, float]:
        host, port = (self.transport.get_extra_info("peername") or ("?", 0))[:2]
        return f"{host}:{port}", self._patience()

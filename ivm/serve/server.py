"""The server's life: it opens its listeners, serves until a signal ends it, and closes in order.

Law: SIGTERM and SIGINT end it gracefully: no client comes in any more, statements that run may end
and their answers are sent, then sessions, listeners and the database are closed. A second one ends
the process at once, as kill -9 does: no commit is lost. SIGHUP reads the settings anew. Where
DuckDB has given the database up, which answers nothing then, the server ends, to be started anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings
from ivm.storage.errors import IvmError

_log = logging.getLogger("ivm.serve")
_LOST = (
    "DuckDB has given the database up after a fault of its own: the server ends, to be started "
    "anew; of a file's commits none is lost"
)
_LOOKS = 0.1  # seconds between two looks at what runs
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Listener(Protocol):
    """One protocol's side of the server; the event loop calls all of it."""

    async def open(self) -> str:
        """Listens; returns the address for the log.

        Raises:
            UnavailableError: the address cannot be had.
        """

    async def refuse(self) -> None:
        """Takes no more clients, and lets those go who have nothing to do."""

    @property
    def busy(self) -> bool:
        """Whether a client is being answered: its statement runs, or its answer is not yet sent."""

    async def close(self) -> None:
        """Closes the connections that are left."""

    def apply(self, settings: ServerSettings) -> None:
        """Takes other settings; the address stays.

        Raises:
            InputError: they make no sense; nothing has changed.
        """


class Server:
    """Serves one database.

    Args:
        pool: the sessions of its clients.
        listeners: the protocols.
        reread: reads the settings anew.

    Attributes:
        number: of the signal that has ended it; None before.
    """

    def __init__(
        self,
        pool: SessionPool,
        listeners: Sequence[Listener],
        reread: Callable[[], ServerSettings],
    ) -> None:
        self._pool = pool
        self._listeners = listeners
        self._reread = reread
        self._ended = asyncio.Event()
        self.number: int | None = None

    async def serve(self) -> None:
        """Serves until a signal comes, or the database is lost.

        Raises:
            UnavailableError: an address cannot be had.
        """
        self._handle_signals()
        try:
            addresses: list[str] = []
            for listener in self._listeners:
                addresses.append(await listener.open())
                self._pool.tell_addresses(addresses)
                _log.info("listening: %s", addresses[-1])
            await self._look_until_ended()
            await self._let_finish()
        finally:
            for listener in self._listeners:
                await listener.close()
            self._pool.close()

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._end, number)
        loop.add_signal_handler(signal.SIGHUP, self.reread)

    def _end(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:  # a second one ends the process
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        _log.info("stopping: %s", signal.Signals(number).name)
        self.number = number
        self._ended.set()

    def reread(self) -> None:
        """Reads the settings anew; where that fails, those before stay in force."""
        try:
            settings = self._reread()
            for listener in self._listeners:
                listener.apply(settings)
            self._pool.apply(settings)
        except IvmError as error:
            _log.error("the settings were not read anew: %s", error)
        else:
            _log.info("the settings were read anew")

    async def _look_until_ended(self) -> None:
        while not self._ended.is_set():
            self._pool.look()
            if self._pool.is_lost:
                _log.error(_LOST)
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LOOKS)

    async def _let_finish(self) -> None:
        """Lets clients have their answers, and cancels statements that take too long for it."""
        self._pool.stop()
        for listener in self._listeners:
            await listener.refuse()
        grace = self._pool.settings.grace_seconds
        if not await self._wait_until_idle(grace) and self._pool.busy:
            _log.info("cancelling %d statements after %g s", self._pool.busy, grace)
            self._pool.cancel_all()
            await self._wait_until_idle(grace)

    async def _wait_until_idle(self, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (busy := any(each.busy for each in self._listeners)) and loop.time() < end:
            self._pool.look()
            await asyncio.sleep(_LOOKS / 5)
        return not busy

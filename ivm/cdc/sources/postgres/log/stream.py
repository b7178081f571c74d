"""The stream of a replication slot, read in batches of transactions.

Contract: used by one thread, but for `confirm`, which the server learns of at the next read.
"""

from __future__ import annotations

import time
from contextlib import suppress

from ivm.cdc.sources.postgres.log import messages as wire
from ivm.cdc.sources.postgres.log.replication import Replication
from ivm.cdc.sources.postgres.log.transactions import Assembler, Transactions
from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import quote

_NAP = 0.0005  # seconds in which a busy server sends more, which costs less than to wait for each
_FEW = 64  # messages, more of which tell that the server is busy
_QUIET = 0.02  # seconds without a message, after which the server is asked how far it is
_LONGEST = 0.05  # seconds from the first commit of a batch to its end
_LOOK = 256  # messages between looks at the clock


class Stream:
    """A replication connection that reads a slot.

    Args:
        dsn: of the database.
        slot: its name.
        publication: the tables that are sent.
        start: the position from which on transactions are read.
        streaming: large transactions are sent before their commits.
    """

    def __init__(self, dsn: str, slot: str, publication: str, start: int, streaming: bool) -> None:
        options = {"publication_names": quote(publication), "proto_version": "1"}
        if streaming:
            options |= {"proto_version": "2", "streaming": "on"}
        self._assembler = Assembler()
        self._told, self._confirmed = start, start
        self._connection = Replication(dsn, slot, start, options)

    def confirm(self, position: int) -> None:
        """Lets the server forget what is before a position."""
        self._confirmed = position

    @property
    def idle_position(self) -> int:
        """How far the server has read its log, if it has sent all changes before; else 0."""
        assembler = self._assembler
        if assembler.is_open or assembler.messages or assembler.has_commit:
            return 0
        return self._connection.received

    def read(self, limit: int, timeout: float) -> Transactions | None:
        """The next transactions.

        Args:
            limit: about how many messages.
            timeout: seconds to wait for the first one's end.

        Raises:
            UnavailableError: the server does not answer.
            SourceError: it refuses.
        """
        self._tell()
        self._collect(limit, time.monotonic() + timeout)
        return self._assembler.take() if self._assembler.has_commit else None

    def close(self) -> None:
        """Tells the server what was confirmed, and leaves it."""
        with suppress(UnavailableError):
            self._tell()
        self._assembler.close()
        self._connection.close()

    def _tell(self) -> None:
        if self._confirmed > self._told:
            self._told = self._confirmed
            self._connection.confirm(self._told)

    def _collect(self, limit: int, end: float) -> None:
        """Reads messages until a batch is complete, or the time is over."""
        assembler, read = self._assembler, self._connection.read
        has_rested, has_asked, seen = False, False, 0
        while True:
            payload = read()
            if payload is None:
                left = end - time.monotonic()
                is_busy = len(assembler.messages) >= _FEW
                if left <= 0 or (assembler.has_commit and (has_rested or not is_busy)):
                    return
                has_rested = True
                if is_busy:
                    time.sleep(_NAP)
                elif not has_asked and not self._connection.wait(min(left, _QUIET)):
                    has_asked = True
                    self._connection.ask()
                elif has_asked:
                    self._connection.wait(left)
                continue
            has_rested, seen = False, seen + 1
            if payload[0] in wire.ROWS and assembler.streaming is None:
                assembler.messages.append(payload)
            else:
                first = not assembler.has_commit
                assembler.add(payload)
                if assembler.has_commit:
                    end = min(end, time.monotonic() + _LONGEST) if first else end
                    if assembler.committed >= limit or assembler.is_cut:
                        return
            if seen % _LOOK == 0 and time.monotonic() > end:
                return

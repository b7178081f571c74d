"""The replication protocol: a connection that reads a slot, message by message.

https://www.postgresql.org/docs/current/protocol-replication.html

Contract: the server lets go of its log only up to what `confirm` was told. It is otherwise told
what was received, so that it can be shut down without waiting for us.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from struct import Struct
from typing import Any

from ivm.cdc.sources.postgres.messages import lsn_text
from ivm.cdc.sources.postgres.server import demand_driver, full_dsn, refused
from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import literal, quote

try:
    import psycopg
    from psycopg import pq
except ImportError:  # see `demand_driver`
    psycopg = None  # type: ignore[assignment]

_DATA, _KEEPALIVE = b"wk"
_HEADER = 25  # bytes before the payload
_ALIVE = Struct(">xQQB")
_STATUS = Struct(">cQQQqB")
_EPOCH = 946_684_800  # PostgreSQL counts microseconds from 2000


class Commands:
    """A connection for the replication protocol's commands; `close` it.

    Args:
        dsn: of the database.
    """

    def __init__(self, dsn: str) -> None:
        self._connection = _connected(dsn)

    def ask(self, command: str) -> list[str]:
        """The texts of the only row that a command answers.

        Raises:
            UnavailableError: the server does not answer.
            SourceError: it refuses.
        """
        answer = self._connection.exec_(command.encode())
        if answer.status != pq.ExecStatus.TUPLES_OK:
            raise _refused(answer)
        return [(answer.get_value(0, i) or b"").decode() for i in range(answer.nfields)]

    def cancel(self) -> None:
        """Ends a command that another thread waits for."""
        if self._connection.status == pq.ConnStatus.OK:
            self._connection.get_cancel().cancel()

    def close(self) -> None:
        """Ends the connection."""
        self._connection.finish()


def _connected(dsn: str) -> pq.abc.PGconn:
    demand_driver()
    found = pq.PGconn.connect(full_dsn(dsn, replication=True).encode())
    if found.status != pq.ConnStatus.OK:
        why = _text(found)
        found.finish()
        raise UnavailableError(f"PostgreSQL: {why}")
    return found


def _refused(answer: Any) -> Exception:
    code = answer.error_field(pq.DiagnosticField.SQLSTATE)
    return refused(None if code is None else code.decode(), _text(answer))


class Replication:
    """A replication connection; `close` it.

    Args:
        dsn: of the database.
        slot: its name.
        start: the position from which on transactions are read.
        options: of the slot's plugin.

    Attributes:
        received: how far the server has read its log and sent what is in it.
    """

    def __init__(self, dsn: str, slot: str, start: int, options: Mapping[str, str]) -> None:
        self.received = start
        listed = ", ".join(f"{quote(name)} {literal(value)}" for name, value in options.items())
        self._connection = _connected(dsn)
        try:
            self._begin(
                f"START_REPLICATION SLOT {quote(slot)} LOGICAL {lsn_text(start)} ({listed})"
            )
        except BaseException:
            self._connection.finish()
            raise

    def _begin(self, command: str) -> None:
        answer = self._connection.exec_(command.encode())
        if answer.status != pq.ExecStatus.COPY_BOTH:
            raise _refused(answer)
        self._connection.nonblocking = 1

    def read(self) -> bytes | None:
        """The payload of the next message that is here already.

        Raises:
            UnavailableError: the server has gone, or has ended the stream.
        """
        connection, has_asked = self._connection, False
        try:
            while True:
                size, data = connection.get_copy_data(1)
                if size > 0:
                    if data[0] == _DATA:
                        return bytes(data[_HEADER:])
                    self._stay_alive(data)
                elif size < 0:
                    answer = connection.get_result()
                    raise UnavailableError(f"PostgreSQL has ended the stream: {_text(answer)}")
                elif has_asked:
                    return None
                else:
                    connection.consume_input()
                    has_asked = True
        except psycopg.Error as error:
            raise UnavailableError(f"PostgreSQL: {str(error).strip()}") from error

    def wait(self, timeout: float) -> bool:
        """Waits for messages, so many seconds at most; returns whether something has come."""
        return bool(select.select([self._connection.socket], [], [], timeout)[0])

    def confirm(self, position: int) -> None:
        """Lets the server forget what is before a position."""
        self._tell(position)

    def ask(self) -> None:
        """Asks the server how far it has read its log."""
        self._tell(0, reply=True)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.finish()

    def _stay_alive(self, message: Any) -> None:
        end, _, reply = _ALIVE.unpack(message)
        self.received = max(self.received, end)
        if reply:
            self._tell(0)

    def _tell(self, confirmed: int, reply: bool = False) -> None:
        """Sends a status; 0 confirms nothing."""
        now = int((time.time() - _EPOCH) * 1e6)
        received = max(self.received, confirmed)
        status = _STATUS.pack(b"r", received, confirmed, confirmed, now, reply)
        try:
            self._connection.put_copy_data(status)
            self._connection.flush()
        except psycopg.Error as error:
            raise UnavailableError(f"PostgreSQL: {str(error).strip()}") from error


def _text(said: Any) -> str:
    return (said.error_message or b"the connection is closed").decode(errors="replace").strip()

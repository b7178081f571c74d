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

from ivm.cdc.sources.postgres.connections.server import (
    answers,
    demand_driver,
    full_dsn,
    refused,
    silent,
)
from ivm.cdc.sources.postgres.log.messages import lsn_text
from ivm.cdc.sources.source import SourceError
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
SILENCE = 60.0
"""Seconds in which a server that was asked must say something, as PostgreSQL's own receivers have
it; it may have to read through a large transaction meanwhile."""


class Commands:
    """A connection for the replication protocol's commands; `close` it.

    Args:
        dsn: of the database.
    """

    def __init__(self, dsn: str) -> None:
        self._session = _connected(dsn)
        self._connection = self._session.pgconn

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
        self._session.close()


def _connected(dsn: str) -> Any:
    """A connection of the driver's, which lets other threads run while the server is silent."""
    demand_driver()
    with answers():
        return psycopg.connect(full_dsn(dsn, replication=True), autocommit=True)


def _refused(answer: Any) -> Exception:
    return refused(_code(answer), _text(answer))


def _ended(answer: Any) -> Exception:
    """The error for the end of a stream, which the server ends when it is shut down, too."""
    code = _code(answer)
    error = refused(code, f"it has ended the stream: {_text(answer)}")
    if isinstance(error, UnavailableError):
        return error
    way_out = "ALTER SOURCE … SET (streaming false) and " if code == "XX000" else ""
    return SourceError(
        f"{error}. Mend that on the server; then {way_out}RESUME SOURCE. If it cannot go on from "
        "there, DROP SOURCE and create it anew"
    )


def _code(answer: Any) -> str | None:
    """The SQLSTATE of an answer; None if it is no error, or of a connection that is gone."""
    field = getattr(answer, "error_field", None)
    code = None if field is None else field(pq.DiagnosticField.SQLSTATE)
    return None if code is None else code.decode()


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
        self._asked: float | None = None  # when; None since the server has said something
        self._session = _connected(dsn)
        self._connection = self._session.pgconn
        try:
            self._begin(
                f"START_REPLICATION SLOT {quote(slot)} LOGICAL {lsn_text(start)} ({listed})"
            )
        except BaseException:
            self._session.close()
            raise

    def _begin(self, command: str) -> None:
        connection, end = self._connection, time.monotonic() + SILENCE
        connection.send_query(command.encode())
        while connection.is_busy():
            if not self.wait(max(end - time.monotonic(), 0.0)):
                raise silent(SILENCE)
            connection.consume_input()
        answer = connection.get_result()
        if answer is None or answer.status != pq.ExecStatus.COPY_BOTH:
            raise _refused(answer or connection)
        connection.nonblocking = 1

    def read(self) -> bytes | None:
        """The payload of the next message that is here already.

        Raises:
            UnavailableError: the server has gone, or says nothing, or has ended the stream.
            SourceError: it cannot go on with the stream.
        """
        connection, has_asked = self._connection, False
        try:
            while True:
                size, data = connection.get_copy_data(1)
                if size > 0:
                    self._asked = None
                    if data[0] == _DATA:
                        return bytes(data[_HEADER:])
                    self._stay_alive(data)
                elif size < 0:
                    raise _ended(connection.get_result())
                elif has_asked:
                    self._demand_alive()
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
        self._asked = self._asked or time.monotonic()
        self._tell(0, reply=True)

    def _demand_alive(self) -> None:
        if self._asked is not None and time.monotonic() - self._asked > SILENCE:
            raise silent(SILENCE)

    def close(self) -> None:
        """Ends the connection."""
        self._session.close()

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

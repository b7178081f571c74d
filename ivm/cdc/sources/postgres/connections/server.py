"""Connections to the PostgreSQL server, and its errors as ours."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ivm.cdc.sources.postgres.connections.types import SESSION_SETTINGS
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import InputError, IvmError, UnavailableError, UnsupportedError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError:  # said when a source of this kind is used, see `demand_driver`
    psycopg = None  # type: ignore[assignment]

APPLICATION = "ivm"
PATIENCE = 30.0
"""Seconds for an answer of the server; one that hangs keeps its connections open."""
# Codes of errors that pass: of connections, of shutdown and start, and those that come of a session
# whose client was killed, and that still works: a slot in use, and things that were not there yet;
# of a server that has no room, or no connection left; of locks that others hold.
_PASSING = ("08", "40", "53", "57", "55006", "55P03", "42710")
_SECRETS = ("password", "sslpassword")


def demand_driver() -> None:
    """Raises UnsupportedError if the driver is not installed."""
    if psycopg is None:
        raise UnsupportedError(
            "sources of kind POSTGRES need psycopg: pip install 'ivmdb[postgres]'"
        )


def check_dsn(dsn: str) -> None:
    """Refuses what is no dsn, and one with a password: it would rest in the database file.

    Raises:
        InputError: it is refused.
    """
    demand_driver()
    try:
        found = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise InputError(f"the option 'dsn' cannot be read: {str(error).strip()}") from None
    for secret in _SECRETS:
        if secret in found:
            raise InputError(
                f"the option 'dsn' has a {secret}, which would rest in the database file. Leave it "
                "out, and let libpq find it: in the environment variable PGPASSWORD, in "
                "~/.pgpass, or in a service (dsn 'service=NAME' and ~/.pg_service.conf)"
            )


def connect(dsn: str) -> Any:
    """A connection whose statements are transactions of their own, and read texts as `types` says.

    Raises:
        UnavailableError: the server does not answer.
    """
    demand_driver()
    with answers():
        return psycopg.connect(full_dsn(dsn), autocommit=True, prepare_threshold=None)


def full_dsn(dsn: str, *, replication: bool = False) -> str:
    """What libpq is told.

    Args:
        dsn: of the database.
        replication: for a connection of the replication protocol.
    """
    protocol = {"replication": "database"} if replication else {}
    return make_conninfo(dsn, **protocol, **_parameters(dsn))


def _parameters(dsn: str) -> dict[str, Any]:
    """What is told beside the dsn; a server that is gone without a word is noticed soon."""
    known = conninfo_to_dict(dsn)
    settings = [
        f"-c {name}={value.replace(' ', chr(92) + ' ')}"
        for name, value in SESSION_SETTINGS.items()
        if name != "client_encoding"
    ]
    wanted = {
        **{"application_name": APPLICATION, "connect_timeout": 10},
        **{"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4},
    }
    return {
        **{name: value for name, value in wanted.items() if name not in known},
        "client_encoding": "UTF8",
        "options": " ".join([str(known.get("options") or ""), *settings]).strip(),
    }


@contextmanager
def answers() -> Iterator[None]:
    """Raises the errors of the driver as ours.

    Raises:
        UnavailableError: the server does not answer, or not yet.
        SourceError: it refuses.
    """
    try:
        yield
    except psycopg.Error as error:
        raise refused(error.sqlstate, str(error)) from error


def refused(code: str | None, message: str) -> IvmError:
    """The error for an answer of the server.

    Args:
        code: SQLSTATE; None if it is no answer, most often since the connection is gone.
        message: what it says.
    """
    text = f"PostgreSQL: {message.strip()}"
    if code is None or code.startswith(_PASSING):
        return UnavailableError(text)
    return SourceError(text)


def ask(connection: Any, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a query, [] of another statement.

    Raises:
        UnavailableError: the server does not answer, or not in time.
        SourceError: it refuses.
    """
    with in_time(connection), answers(), connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def in_time(connection: Any) -> Iterator[None]:
    """Ends a connection whose server does not answer within `PATIENCE`.

    Raises:
        UnavailableError: it has not.
    """
    over = threading.Event()
    timer = threading.Timer(PATIENCE, _cut, [connection.fileno(), over])
    timer.daemon = True
    timer.start()
    try:
        yield
    except UnavailableError as error:
        raise silent(PATIENCE) if over.is_set() else error from error
    finally:
        timer.cancel()


def _cut(file: int, over: threading.Event) -> None:
    over.set()
    with suppress(OSError), socket.socket(fileno=os.dup(file)) as each:
        each.shutdown(socket.SHUT_RDWR)


def silent(seconds: float) -> UnavailableError:
    """The error for a server that keeps its connections open, and says nothing."""
    return UnavailableError(
        f"PostgreSQL has not answered for {seconds:g} seconds: the server, or the network to it, "
        "hangs"
    )

"""`ivm serve`: a database that other programs use, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivm.database import Database
from ivm.serve.pg.listener import PgListener
from ivm.serve.pool import SessionPool
from ivm.serve.server import Listener, Server
from ivm.serve.settings import ServerSettings, read_settings
from ivm.serve.statement_log import StatementLog
from ivm.serve.users import Users, read_users
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.file_modes import readers_beside_owner

_log = logging.getLogger("ivm.serve")

_NOWHERE = (
    "say where to listen: ivm serve FILE --pg 127.0.0.1:5432 --http 127.0.0.1:8080, or pg and http "
    "in [server] of ivm.toml"
)


def serve(database: Database, path: str, given: Mapping[str, Any]) -> int:
    """Serves a database, with its sources and sinks, until SIGTERM or SIGINT.

    Args:
        database: open.
        path: by which it was opened.
        given: settings of the command line.

    Returns:
        The exit code.

    Raises:
        InputError: the settings make no sense.
        UnavailableError: an address cannot be had, or a package is missing.
    """
    settings = read_settings(path, given)
    if not (settings.pg or settings.http):
        raise InputError(_NOWHERE)
    _log_to_standard_error()
    if readers_beside_owner(Path(path)):
        _log.warning("other users of this machine can read %s: chmod 600 it", path)
    users = Users(database._engine, read_users(path))
    pool = SessionPool(database, users, settings)
    listeners = _listeners(pool, users, Path(f"{path}.tls"))
    database.start_sources()
    database.start_sinks()
    server = asyncio.run(_served(pool, users, listeners, path, given))
    if pool.is_lost:
        with contextlib.suppress(UnavailableError):  # nothing is flushed: the log is replayed
            database.close()
        return 1
    database.close()
    return 130 if server.number == signal.SIGINT else 0


def _listeners(pool: SessionPool, users: Users, folder: Path) -> list[Listener]:
    found: list[Listener] = []
    if pool.settings.pg:
        found.append(PgListener(pool, StatementLog(pool.settings), folder))
    if pool.settings.http:
        try:
            from ivm.serve.http.listener import HttpListener
        except ImportError as error:
            raise UnavailableError(
                f"HTTP cannot be served ({error}): pip install 'ivmdb[server]'"
            ) from error
        found.append(HttpListener(pool, users, folder))
    return found


async def _served(
    pool: SessionPool,
    users: Users,
    listeners: list[Listener],
    path: str,
    given: Mapping[str, Any],
) -> Server:
    def reread() -> ServerSettings:
        settings = read_settings(path, given)
        users.apply(read_users(path))
        return settings

    server = Server(pool, listeners, reread)
    await server.serve()
    return server


def _log_to_standard_error() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("ivm")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

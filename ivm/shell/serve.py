"""`ivm serve`: a database that other programs use, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivm.database import Database
from ivm.serve.access import NoUsers
from ivm.serve.pg.listener import PgListener
from ivm.serve.pool import SessionPool
from ivm.serve.server import Listener, Server
from ivm.serve.settings import read_settings
from ivm.serve.statement_log import StatementLog
from ivm.storage.errors import InputError

_NOWHERE = (
    "say where to listen: ivm serve FILE --pg 127.0.0.1:5432, or pg in [server] of ivm.toml"
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
    if not settings.pg:
        raise InputError(_NOWHERE)
    _log_to_standard_error()
    pool = SessionPool(database, NoUsers(), settings)
    log = StatementLog(settings)
    listeners: list[Listener] = [PgListener(pool, log, Path(f"{path}.tls"))]
    database.start_sources()
    database.start_sinks()
    server = asyncio.run(_served(pool, listeners, path, given))
    database.close()
    return 130 if server.number == signal.SIGINT else 0


async def _served(
    pool: SessionPool, listeners: list[Listener], path: str, given: Mapping[str, Any]
) -> Server:
    server = Server(pool, listeners, lambda: read_settings(path, given))
    await server.serve()
    return server


def _log_to_standard_error() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("ivm")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

"""The incremental view maintenance database for Python and DuckDB."""

from typing import Any

from ivm import errors, sinks, sources
from ivm.catalog.functions import Function
from ivm.cdc.apply import Ingested
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.connection import Connection
from ivm.cursor import Cursor
from ivm.database import Database, connect
from ivm.engine.changefeed import Subscription
from ivm.errors import IvmError
from ivm.integrations.dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    apilevel,
    paramstyle,
    threadsafety,
)
from ivm.listings import TableListing, ViewInfo
from ivm.recovery import Recovery, recover
from ivm.session.relation import Relation
from ivm.session.result import Result
from ivm.storage.errors import UnavailableError

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Connection",
    "Cursor",
    "DataError",
    "Database",
    "DatabaseError",
    "Error",
    "Function",
    "Ingested",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "IvmError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Recovery",
    "Relation",
    "Result",
    "SinkInfo",
    "SourceInfo",
    "Subscription",
    "TableListing",
    "ViewInfo",
    "Warning",
    "apilevel",
    "connect",
    "errors",
    "load_ipython_extension",
    "paramstyle",
    "recover",
    "sinks",
    "sources",
    "threadsafety",
]


def load_ipython_extension(shell: Any) -> None:
    """Registers `%ivm` and `%%ivm`; IPython calls it for `%load_ext ivm`.

    Raises:
        UnavailableError: IPython is not installed.
    """
    try:
        from ivm.integrations.notebook import load
    except ModuleNotFoundError as error:
        raise UnavailableError(f"{error}: pip install 'ivmdb[notebook]'") from error
    load(shell)

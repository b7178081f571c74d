"""Answers queries about the catalog from a small database of its own, made of the user's.

Contract: an answer shows what was committed when the query began, and what the session alone sees.
It is made anew after the names of the user's database have changed, and for each query of a session
that sees more; the user's database is never asked such a query. It reads and writes no file, loads
nothing, and its settings cannot be changed; a fault of DuckDB's ends it, and the next query has it
made anew.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import duckdb
import pyarrow as pa

from ivm.serve.pg.catalog.catalog_check import CatalogCheck
from ivm.serve.pg.catalog.catalog_facts import facts_of
from ivm.serve.pg.catalog.catalog_macros import MACROS
from ivm.serve.pg.catalog.catalog_relations import EMPTY, INFORMATION, RELATIONS, empty
from ivm.serve.pg.catalog.catalog_rewrite import Rewritten, rewritten
from ivm.serve.pg.catalog.session_settings import OWN_SETTINGS, VERSION, SessionSettings
from ivm.serve.pg.values import types
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements.text.placeholders import placeholders
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.identifiers import literal
from ivm.storage.interrupts import check, interruptible
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.duckdb.duckdb_errors import translated

T = TypeVar("T")

_TYPE = r'(?:"?pg_catalog"?\s*\.\s*)?"?(\w+(?:\[\])?)'
_CASTS = re.compile(rf"\$(\d+)\s*::\s*{_TYPE}")
_LONG_CASTS = re.compile(rf"(?i)\bCAST\s*\(\s*\$(\d+)\s+AS\s+{_TYPE}")
_NAMED = {
    **{"bool": types.BOOL, "bytea": types.BYTEA, "text": types.TEXT, "oid": types.OID},
    **{"int2": types.INT2, "int4": types.INT4, "int8": types.INT8, "numeric": types.NUMERIC},
    **{"float4": types.FLOAT4, "float8": types.FLOAT8, "uuid": types.UUID, "json": types.JSON},
    **{"date": types.DATE, "time": types.TIME, "timetz": types.TIMETZ, "varbit": types.VARBIT},
    **{"timestamp": types.TIMESTAMP, "timestamptz": types.TIMESTAMPTZ, "jsonb": types.JSONB},
    **{"interval": types.INTERVAL, "varchar": types.VARCHAR, "bpchar": types.BPCHAR},
    **{"boolean": types.BOOL, "smallint": types.INT2, "int": types.INT4, "integer": types.INT4},
    **{"bigint": types.INT8, "real": types.FLOAT4, "double": types.FLOAT8},
    "decimal": types.NUMERIC,
}
_CAST_OIDS = {
    **_NAMED,
    **{f"{name}[]": types.ARRAYS[oid] for name, oid in _NAMED.items()},
    **{f"_{name}": types.ARRAYS[oid] for name, oid in _NAMED.items()},
}
_BATCH = 256  # rows, each of which may be large
_LARGEST = 256 << 20  # bytes of an answer
_LOCKED = (
    "temp_directory = ''",  # else it could be read and written
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "enable_external_access = false",
    "memory_limit = '512MiB'",
    "lock_configuration = true",
)
_PATIENCE, _PAUSE, _TRIES = 2.0, 0.01, 3
_NUMBERED = re.compile(r"(?i)\b(\w*oid|attrelid|attnum|\w*relid)\s*=\s*\$(\d+)")


class Around(Protocol):
    """Calls a function that can be cancelled."""

    def __call__(self, work: Callable[[], T], /) -> T: ...


class Teller(NamedTuple):
    """What a session tells of itself.

    Attributes:
        demand: refuses a user who is not what it was at login, and returns whether it is an admin.
        set: sets a setting.
        run: calls a function with the session.
        around: calls a function that can be cancelled.
    """

    number: int
    user: str
    settings: SessionSettings
    demand: Callable[[], bool]
    set: Callable[[str, str], None]
    run: Callable[[Callable[[Session], Cursor]], Cursor]
    around: Around


class Catalog:
    """The catalog of one database.

    Args:
        path: of the database.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        self._meaning: Hashable = None
        self._connection: Cursor | None = None
        self._check = CatalogCheck()
        self._name = Path(path).stem.strip(":") or "memory"

    def answer(self, text: str, params: Sequence[Any] | None, teller: Teller) -> Result:
        """The rows of a query.

        Args:
            text: the query.
            params: its parameters by their numbers.
            teller: the session.

        Raises:
            AccessError: the user may not ask it.
            CancelledError: it was cancelled, or took too long.
            IvmError: it does not parse or bind, or fails.
        """
        is_admin = teller.demand()
        query = rewritten(text)
        connection = teller.run(self._made)
        try:
            return self._answer(connection, query, params, teller, is_admin)
        except duckdb.FatalException:  # another query has ended the database meanwhile
            self._forget(connection)
            return self._answer(teller.run(self._made), query, params, teller, is_admin)
        except duckdb.InternalException as error:
            self._forget(connection)
            first = str(error).partition("\n")[0]
            raise UnavailableError(
                f"DuckDB fails on this query about the catalog by a fault of its own ({first}): "
                "ask in another way"
            ) from error

    def _answer(
        self,
        connection: Cursor,
        query: Rewritten,
        params: Sequence[Any] | None,
        teller: Teller,
        is_admin: bool,
    ) -> Result:
        cursor = connection.cursor()
        try:
            if not is_admin:
                teller.around(lambda: self._check.demand(query.sql, cursor))
            for name, value in query.settings:
                _set(name, value, teller)
            for name, value in self._variables(teller).items():
                cursor.execute(f"SET VARIABLE ivm_{name} = {value}")
            return teller.around(lambda: _rows(cursor, query.sql, params))
        finally:
            cursor.close()

    def _variables(self, teller: Teller) -> dict[str, str]:
        settings = ", ".join(
            f"{literal(name)}: {literal(value)}" for name, value in teller.settings.all().items()
        )
        return {
            "database": literal(self._name),
            "user": literal(teller.user),
            "number": str(teller.number),
            "version": literal(f"{VERSION} (ivm)"),
            "settings": f"MAP {{{settings}}}",
        }

    def _made(self, session: Session) -> Cursor:
        """The catalog as it is now for a session; it is closed when nobody reads it any more."""
        if session.sees_more():
            return _made_beside(session)
        with self._lock:
            meaning = session.engine.meaning()
            if self._connection is None or meaning is None or meaning != self._meaning:
                self._connection, self._meaning = _made_beside(session), meaning
            return self._connection

    def _forget(self, connection: Cursor) -> None:
        """A database has had a fault of DuckDB's, after which it may refuse all that follows."""
        with self._lock:
            if self._connection is connection:
                self._connection = None


def _set(name: str, value: str, teller: Teller) -> None:
    """Does what set_config() asks for."""
    if name.lower() not in OWN_SETTINGS and "." not in name:
        raise InputError(
            f"set_config() sets the settings that PostgreSQL's drivers send, not {name!r}: SET it"
        )
    teller.set(name, value)


def _rows(cursor: Cursor, sql: str, params: Sequence[Any] | None) -> Result:
    try:
        with interruptible(cursor):
            relation = cursor.sql(sql, params=list(params) if params else None)
            found = [str(type).replace("UINTEGER", "OID") for type in relation.types]
            return Result.of_table(_table(relation), found)
    except (duckdb.FatalException, duckdb.InternalException):
        raise
    except duckdb.Error as error:
        raise translated(error) from error


def _table(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """The rows, which are few in any catalog: more are no question about one."""
    reader, batches, size = relation.to_arrow_reader(_BATCH), [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > _LARGEST:
            raise UnavailableError(
                f"an answer about the catalog has at most {_LARGEST >> 20} MiB: ask for less"
            )
    return pa.Table.from_batches(batches, reader.schema)


def catalog_parameters(text: str, given: Sequence[int]) -> tuple[int, ...]:
    """The OIDs of the parameters of a query about the catalog."""
    names = {name for name, _, _ in placeholders(text)}
    count = max([int(name) for name in names if name.isdigit()], default=0)
    found = [*_CASTS.findall(text), *_LONG_CASTS.findall(text)]
    casts = {int(n): _CAST_OIDS.get(type.lower(), types.TEXT) for n, type in found}
    numbers = {int(n): types.OID for _, n in _NUMBERED.findall(text)}
    oids = list(given[:count]) + [0] * (count - len(given))
    return tuple(
        [
            oid if oid not in (0, types.UNKNOWN) else casts.get(i, numbers.get(i, types.TEXT))
            for i, oid in enumerate(oids, 1)
        ]
    )


def _made_beside(session: Session) -> Cursor:
    """The database of the catalog, whatever other sessions do.

    DuckDB cannot list the indexes of a table while a transaction renames it that had to drop them.
    """
    catalog, end, alone = session.engine.catalog, time.monotonic() + _PATIENCE, 0
    while True:
        try:
            return _made(session)
        except duckdb.CatalogException as error:
            alone = 0 if catalog.version.is_changing else alone + 1
            if alone == _TRIES:
                raise
            if time.monotonic() > end:
                raise UnavailableError(
                    "a table with indexes is being renamed in the open transaction of another "
                    "session: ask again when that is over"
                ) from error
        check()
        time.sleep(_PAUSE)


def _made(session: Session) -> Cursor:
    """The database of the catalog."""
    facts, connection = facts_of(session), duckdb.connect()
    connection.execute("CREATE SCHEMA pgc; CREATE SCHEMA pgi")
    for name, table in facts.items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS FROM given")
        connection.unregister("given")
    connection.execute("SET VARIABLE ivm_settings = MAP {'': ''}")
    for name, query in {**RELATIONS, **{n: empty(c) for n, c in EMPTY.items()}}.items():
        connection.execute(f"CREATE VIEW pgc.{name} AS {query}")
    for name, query in INFORMATION.items():
        connection.execute(f"CREATE VIEW pgi.{name} AS {query}")
    connection.execute(MACROS)
    connection.execute("SET VARIABLE ivm_began = now()")
    for setting in _LOCKED:
        connection.execute(f"SET {setting}")
    return connection

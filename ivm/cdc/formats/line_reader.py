"""Statements over JSON lines, prepared once: DuckDB binds one far longer than it runs over a few.

The statements name no user's table. So they are prepared in an instance of DuckDB in memory, where
no transaction, name or setting of a session meets them; a session's settings that change what a
text means are set there too. It has one thread, the caller's: a prepared statement runs in one in
any case, and the caller would wait for another one busily.

Contract: a reader serves one thread at a time, and statements are over one relation, `LINES`.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from ivm.cdc.formats.json_statement import LINES
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.duckdb.carried import carried
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run

_ALL = 1 << 30  # rows of a batch: as many as there are
_MOST = 64  # statements that a reader keeps
_ZONED = "SELECT system.main.current_setting('TimeZone'), system.main.current_setting('Calendar')"

Settings = tuple[str, str]
"""The time zone and the calendar of a session."""


def settings_of(cursor: Cursor) -> Settings:
    """The settings of a cursor's session that change what the text of a time means."""
    ((zone, calendar),) = rows(cursor, _ZONED)
    return zone, calendar


class _Lines:
    """The lines of the next statement, as DuckDB asks for them."""

    def __init__(self) -> None:
        self.table = pa.table({"raw": pa.array([], pa.large_string())})

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self.table.__arrow_c_stream__(requested)


class LineReader:
    """Runs statements over lines.

    Args:
        cursor: of its own.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._lines = _Lines()
        self._known: dict[tuple[Settings | None, str], str] = {}
        self._settings: Settings | None = None
        cursor.register(LINES, self._lines)

    def table(self, sql: str, lines: pa.Array, settings: Settings | None) -> pa.Table:
        """The rows of a statement, in the order of the lines if it keeps it.

        Args:
            sql: a SELECT over `LINES`.
            lines: large strings.
            settings: under which it runs; None if they make no difference.
        """
        if settings is not None and settings != self._settings:
            run(self._cursor, f"SET TimeZone = {literal(settings[0])}")
            run(self._cursor, f"SET Calendar = {literal(settings[1])}")
            self._settings = settings
        self._lines.table = pa.table({"raw": lines})
        try:
            return _executed(self._cursor, self._prepared(sql, settings))
        finally:
            self._lines.table = self._lines.table.slice(0, 0)

    def _prepared(self, sql: str, settings: Settings | None) -> str:
        """The name of the prepared statement."""
        name = self._known.get((settings, sql))
        if name is None:
            if len(self._known) >= _MOST:
                self._forget()
            name = f"_ivm_{len(self._known)}"
            relation = carried(self._cursor.sql(sql))
            run(self._cursor, f"PREPARE {name} AS {relation.sql_query()}")
            self._known[settings, sql] = name
        return name

    def _forget(self) -> None:
        for name in self._known.values():
            run(self._cursor, f"DEALLOCATE {name}")
        self._known.clear()


def _executed(cursor: Cursor, name: str) -> pa.Table:
    """The rows of a prepared statement.

    In public there is only the relation of EXECUTE, which is a copy of the rows, and a statement
    over it that must be bound: for a single row that takes as long as all the rest.
    """
    sql = f"EXECUTE {name}"
    try:
        return cursor._submit(sql, None, "arrow", _ALL).arrow_table()
    except (AttributeError, TypeError):  # it is DuckDB's own, which may go or change
        return cursor.sql(sql).to_arrow_table()


class _Readers:
    """The readers of the process, which are lent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Any = None
        self._idle: list[LineReader] = []

    @contextlib.contextmanager
    def lend(self) -> Iterator[LineReader]:
        """A reader, for this thread alone; after an error it is not lent again."""
        with self._lock:
            reader = self._idle.pop() if self._idle else self._open()
        yield reader
        with self._lock:
            self._idle.append(reader)

    def _open(self) -> LineReader:
        if self._connection is None:
            self._connection = duckdb.connect(":memory:")
            atexit.register(self._close)
        cursor = self._connection.cursor()
        run(cursor, "SET arrow_lossless_conversion = true")
        run(cursor, "SET threads = 1")
        return LineReader(cursor)

    def _close(self) -> None:
        self._idle.clear()
        self._connection.close()


READERS = _Readers()

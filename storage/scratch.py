"""DuckDB instances in memory, for questions that need no user's data: types, constants, texts.

Contract: a scratch instance is opened at its first use, which takes some 20 ms, serves one thread
at a time, and is closed at the end of the program, because DuckDB's binding would report leaks
there. Those who ask small questions share one: they leave nothing in it, and read an answer to its
end before they call anyone who may ask, too. Work on data has an instance of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Protocol

import duckdb


class Lender(Protocol):
    """Whoever lends a connection."""

    def borrow(self) -> contextlib.AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A connection, for this thread alone."""


class Scratch:
    """An instance to borrow.

    Args:
        settings: statements to run when it is opened.
    """

    def __init__(self, *settings: str) -> None:
        self._settings = settings
        self._lock = threading.RLock()  # what is asked of it may need an answer of it, too
        self._connection: duckdb.DuckDBPyConnection | None = None

    @staticmethod
    @functools.cache
    def of(*settings: str) -> Scratch:
        """The shared instance with these settings."""
        return Scratch(*settings)

    @contextlib.contextmanager
    def borrow(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection, for this thread alone."""
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            try:
                yield self._connection
            except (duckdb.InternalException, duckdb.FatalException):
                self._close()  # such an error makes an instance refuse all further work
                raise

    def _open(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:")
        for statement in ("SET threads = 1", *self._settings):
            connection.execute(statement).fetchall()  # older versions, too: to be refused later
        atexit.register(self._close)
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            atexit.unregister(self._close)

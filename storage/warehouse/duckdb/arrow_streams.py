"""Arrow streams of DuckDB's results; what fails while one is read is an error of DuckDB's again.

Of an error behind the first rows Arrow makes an OSError, with DuckDB's words.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import get_ident
from typing import Any, NamedTuple, TypeVar

import duckdb
import pyarrow as pa

from ivm.storage.warehouse.duckdb.carried import carried, may_be_unfit

T = TypeVar("T")

_KINDS: dict[str, type[duckdb.Error]] = {
    "Constraint": duckdb.ConstraintException,
    "Conversion": duckdb.ConversionException,
    "FATAL": duckdb.FatalException,
    "INTERNAL": duckdb.InternalException,
    "INTERRUPT": duckdb.InterruptException,
    "IO": duckdb.IOException,
    "Invalid Input": duckdb.InvalidInputException,
    "Not implemented": duckdb.NotImplementedException,
    "Out of Memory": duckdb.OutOfMemoryException,
    "Out of Range": duckdb.OutOfRangeException,
}

_COPIES = "Arrow output on a DB-API result makes an extra copy"


@contextlib.contextmanager
def as_duckdb_errors() -> Iterator[None]:
    """Raises what DuckDB has refused in the block as DuckDB's own error."""
    try:
        yield
    except OSError as error:
        kind, found, _ = str(error).partition(" Error: ")
        if not found or kind not in _KINDS:
            raise
        raise _KINDS[kind](str(error)) from error


@contextlib.contextmanager
def copying() -> Iterator[None]:
    """DuckDB warns that reading Arrow from a cursor copies the rows; here the copy is meant."""
    _ignoring.begin()
    try:
        yield
    finally:
        _ignoring.end()


class _Ignoring:
    """A filter of warnings that stands while some thread is within a block.

    The filters are the process's: a thread that left a block of its own would put back those of
    before, under another one that is within its block still.
    """

    def __init__(self) -> None:
        self._lock, self._blocks, self._filters = threading.Lock(), 0, contextlib.ExitStack()

    def begin(self) -> None:
        """A block begins."""
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._filters.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", _COPIES, UserWarning)

    def end(self) -> None:
        """A block ends."""
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._filters.close()


_ignoring = _Ignoring()


class Stream(NamedTuple):
    """A result whose rows DuckDB computes as they are read.

    Attributes:
        columns: names and types.
        reader: gives the rows in batches.
    """

    columns: list[tuple[str, str]]
    reader: pa.RecordBatchReader


def stream_of(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any] | None,
    size: int,
) -> Stream:
    """Runs a query for its rows in batches.

    From what `execute` has run, Arrow gets a copy of all rows, which DuckDB's memory limit does not
    count. Reading fails where Arrow would not carry a value exactly, see `carried`.

    Args:
        cursor: runs nothing else until the rows are read.
        sql: the query.
        params: those that it names.
        size: rows of a batch, about.
    """
    try:
        values: Any = params
        found = cursor._submit(sql, values, "stream", size)
    except (AttributeError, TypeError):  # it is DuckDB's own, which may go or change
        relation = cursor.sql(sql, params=params)
        columns = list(zip(relation.columns, map(str, relation.types), strict=True))
        return Stream(columns, carried(relation).to_arrow_reader(size))
    columns = [(name, str(type)) for name, type, *_ in found.description]
    if not any(may_be_unfit(type) for _, type in columns):
        return Stream(columns, found.arrow_reader())
    found.close()
    return Stream(columns, carried(cursor.sql(sql, params=params)).to_arrow_reader(size))


def streamed(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a stream."""
    with as_duckdb_errors():
        yield from reader


def aside(cursor: duckdb.DuckDBPyConnection, read: Callable[[], T]) -> T:
    """Calls a function that reads a stream of the cursor's, so that a signal can interrupt it.

    Arrow looks for no signals while it waits: another thread reads, and the main one handles them.
    """
    if get_ident() != threading.main_thread().ident:
        return read()
    answers: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Lock()
    ended.acquire()
    start_new_thread(_answer, (read, answers, errors, ended))
    try:
        ended.acquire()
    except BaseException:  # of a handler of the user's that is not held back
        cursor.interrupt()
        ended.acquire()
        raise
    if errors:
        raise errors.pop()
    return answers.pop()


def _answer(
    read: Callable[[], T], answers: list[T], errors: list[BaseException], ended: threading.Lock
) -> None:
    try:
        answers.append(read())
    except BaseException as error:
        errors.append(error)
    finally:
        ended.release()

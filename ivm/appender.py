"""An appender: rows one by one, written to one table in batches by a thread of its own.

Contract: rows are written in their order, each batch as one epoch. A batch that is refused is kept
in `refused`, and its error is raised by the next call of the appender, at the latest by `close`: no
row is lost in silence. Any number of threads may append, also beside `close`: from its beginning
on, no row is taken. An appender that the program leaves open is closed with its database, or as the
program ends; the open transaction of the thread that does it, for which a batch would wait, is
rolled back before. A forked child has none of the rows: they are the parent's.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, cast

from ivm.ingest.parameters import own_value, values_of
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.opening.database_file import OF_THE_PARENT

_HELD = 4  # batches that wait; an `append` that would add to them waits itself
_PATIENCE = 60.0  # seconds that closing waits for the writers' lock
_open: weakref.WeakSet[Appender] = weakref.WeakSet()  # iterated by a forked child alone


class Appender:
    """Made by `Database.appender`; use it as a context manager, or `close` it.

    Args:
        insert: writes columns by name, and raises if they are refused.
        table: for messages.
        columns: the names of the values of a row, in order.
        batch_rows: rows after which a batch is written.
        max_age: seconds after which the oldest row is written, though the batch is not full.
        blocks: whether the calling thread has a transaction open, for which a batch would wait.
        unblock: rolls it back.

    Attributes:
        refused: the rows, in order, of the batches that were not written.
    """

    def __init__(
        self,
        insert: Callable[[dict[str, Sequence[Any]]], object],
        table: str,
        columns: Sequence[str],
        batch_rows: int,
        max_age: float,
        blocks: Callable[[], bool],
        unblock: Callable[[], None],
    ) -> None:
        self._insert = insert
        self._table = table
        self._columns = tuple(columns)
        self._batch_rows = batch_rows
        self._max_age = max_age
        self._blocks, self._unblock = blocks, unblock
        self.refused: list[tuple[Any, ...]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._oldest = 0.0
        self._appended = self._done = self._wanted = 0  # counts of rows since the beginning
        self._error: BaseException | None = None
        self._closed = self._is_writing = False
        self._reason = f"the appender of {table!r} is closed: make another by db.appender()"
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._write, name="ivm-appender", daemon=True)
        self._writer.start()
        _open.add(self)
        atexit.register(self.close_anyhow)

    def append(self, *values: Any) -> None:
        """Adds a row, one value for each column.

        Raises:
            InputError: the values are too many or too few.
            UnavailableError: the appender is closed.
            IvmError: an earlier batch was refused; this row is not appended.
        """
        if len(values) != len(self._columns):
            raise InputError(
                f"a row of {self._table!r} has {len(self._columns)} values here "
                f"({', '.join(self._columns)}), not {len(values)}"
            )
        with self._changed:
            self._demand_open()
            self._tell()
            while len(self._rows) >= _HELD * self._batch_rows:
                self._demand_no_transaction()
                self._changed.wait()
                self._demand_open()
                self._tell()
            if not self._rows:
                self._oldest = time.monotonic()
            self._rows.append(tuple(map(own_value, values)))
            self._appended += 1
            if len(self._rows) in (1, self._batch_rows):
                self._changed.notify_all()

    def append_row(self, row: Sequence[Any] | dict[str, Any]) -> None:
        """Adds a row given as a sequence of values or a dict by column; see `append`."""
        row = values_of(row, f"the values of a row of {self._table!r}")
        if isinstance(row, dict):
            if row.keys() != set(self._columns):
                row = self._in_our_case(row)
            row = [row[name] for name in self._columns]
        self.append(*row)

    def _in_our_case(self, row: dict[Any, Any]) -> dict[str, Any]:
        """A row with its names as the columns have them: SQL's have no case."""
        ours = {fold(name): name for name in self._columns}
        named = {ours.get(fold(name)): v for name, v in row.items() if isinstance(name, str)}
        if len(named) != len(row) or named.keys() != set(self._columns):
            raise InputError(
                f"a row of {self._table!r} has the columns {', '.join(self._columns)} here, "
                f"not {', '.join(map(str, row))}"
            )
        return cast(dict[str, Any], named)

    def flush(self) -> None:
        """Writes the rows appended so far, and waits until they are durable.

        Raises:
            IvmError: a batch was refused.
        """
        with self._changed:
            self._demand_open()
            self._demand_no_transaction()
            self._wait_for(self._appended, None)
            self._tell()

    def close(self) -> None:
        """Writes the rows that are left, and ends the thread; closing twice does nothing.

        Raises:
            IvmError: a batch was refused.
        """
        with self._changed:
            if self._closed and self._is_written():
                return
            self._demand_no_transaction()
            self._closed = True  # before the wait: what other threads took meanwhile would be lost
            self._changed.notify_all()
            written = self._changed.wait_for(self._is_written, _PATIENCE)
            atexit.unregister(self.close_anyhow)
            if not written:  # the thread may still write what it has taken
                self._refuse(self._rows, self._still_waiting())
                self._done += len(self._rows)
                self._rows = []
            self._tell()

    def close_anyhow(self) -> None:
        """Closes it also in a transaction of the calling thread, which is rolled back."""
        if not (self._closed and self._is_written()):
            self._unblock()
        self.close()

    def _leave_to_parent(self) -> None:
        """Refuses all use in a child process, which has neither the thread nor the database."""
        self._changed = threading.Condition()  # another thread may have held that of the parent
        self._closed, self._rows, self._is_writing = True, [], False
        self._reason = OF_THE_PARENT
        atexit.unregister(self.close_anyhow)

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except Exception as refused:
            if error is None:
                raise
            error.add_note(f"The appender was closed, and a batch was refused: {refused}")

    # -- with the condition held ----------------------------------------------------------------

    def _demand_open(self) -> None:
        if self._closed:
            raise UnavailableError(self._reason)

    def _is_written(self) -> bool:
        return not self._rows and not self._is_writing

    def _demand_no_transaction(self) -> None:
        if self._blocks():
            raise InputError(
                "an appender writes in epochs of its own, which wait for this thread's open "
                "transaction: COMMIT or ROLLBACK it first"
            )

    def _tell(self) -> None:
        """Raises the error of a batch, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _wait_for(self, count: int, timeout: float | None) -> bool:
        """Waits until so many rows are written or refused; False if that takes too long."""
        self._wanted = max(self._wanted, count)
        self._changed.notify_all()
        return self._changed.wait_for(lambda: self._done >= count, timeout)

    def _refuse(self, rows: Sequence[tuple[Any, ...]], error: BaseException) -> None:
        self.refused.extend(rows)
        if self._error is None:
            error.add_note(
                f"{len(rows)} rows appended to {self._table!r} were not written; "
                "they are in `refused` of the appender."
            )
            self._error = error

    def _still_waiting(self) -> UnavailableError:
        return UnavailableError(
            f"the last rows of the appender of {self._table!r} could not be written within "
            f"{_PATIENCE:g} s: another transaction is open"
        )

    # -- the thread -----------------------------------------------------------------------------

    def _write(self) -> None:
        while batch := self._next():
            error: BaseException | None = None
            try:
                self._insert(dict(zip(self._columns, zip(*batch, strict=True), strict=True)))
            except BaseException as raised:  # told to the next caller
                error = raised
            with self._changed:
                if error is not None:
                    self._refuse(batch, error)
                self._done += len(batch)
                self._is_writing = False
                self._changed.notify_all()

    def _next(self) -> list[tuple[Any, ...]]:
        """The next batch, once it is due; none if the appender is closed."""
        with self._changed:
            while not self._is_due():
                if self._closed:
                    return []
                left = self._oldest + self._max_age - time.monotonic() if self._rows else None
                self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            batch = self._rows[: self._batch_rows]
            del self._rows[: self._batch_rows]
            self._is_writing = True
            self._oldest = time.monotonic()
            return batch

    def _is_due(self) -> bool:
        if not self._rows:
            return False
        is_old = time.monotonic() >= self._oldest + self._max_age
        is_asked_for = self._closed or self._wanted > self._done
        return is_old or is_asked_for or len(self._rows) >= self._batch_rows


def _leave_to_parent() -> None:
    for appender in list(_open):
        appender._leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)

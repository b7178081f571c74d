"""The engine's writes to the log; a database without a file has no log.

Contract: once the log cannot be written, the database is read-only until it is opened again. Once
memory does not agree with the committed epochs, nothing is read any more either: only opening the
database, which replays the log, makes them agree.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import record_outcome
from ivm.storage.log.change import Record, TableChange
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.values.types import Schema

_LARGE = 1 << 16
"""Rows whose record takes longer to write than a thread to begin."""


class LogWriter:
    """The change log as the engine writes it.

    Args:
        log: None for a database in memory.
        sync_at_commit: whether a commit returns only when the log is on disk.

    Attributes:
        fault: the reason why nothing may be written any more; None if it may.
        diverged: whether memory does not agree with the committed epochs.
    """

    def __init__(self, log: ChangeLog | None, *, sync_at_commit: bool) -> None:
        self._log = log
        self._sync_at_commit = sync_at_commit
        self.fault: str | None = None
        self.diverged = False

    def demand_writable(self) -> None:
        """Raises UnavailableError if nothing may be written any more."""
        if self.fault is not None:
            raise UnavailableError(self.fault)

    def demand_readable(self) -> None:
        """Raises UnavailableError if memory does not agree with the committed epochs."""
        if self.diverged:
            raise UnavailableError(self.fault)

    def broken(self, why: str, cause: BaseException) -> BaseException:
        """Refuses all reads and writes from here on.

        Args:
            why: the reason, as a sentence without its full stop.
            cause: the exception that was caught.

        Returns:
            The exception to be raised; an interrupt stays itself, with a note.
        """
        self.diverged = True
        way_out = "Close the database and open it again: the log is replayed"
        if self._log is None:
            way_out = "Close the database: what it holds in memory only is lost"
        self.fault = f"{why} ({cause!r}). {way_out}"
        record_outcome(self.fault)
        if isinstance(cause, Exception):
            return UnavailableError(self.fault)
        cause.add_note(self.fault)
        return cause

    def takes_long(self, changes: Sequence[TableChange]) -> bool:
        """Returns whether a record of these changes is worth a thread of its own."""
        return self._log is not None and sum([len(change) for change in changes]) >= _LARGE

    @contextlib.contextmanager
    def beside(self, epoch: int, changes: Sequence[TableChange]) -> Iterator[None]:
        """Writes most of an epoch's record while a block runs; `append` ends it."""
        record = Record(epoch, tuple(changes))
        writing = threading.Thread(target=self._begin, args=(record,), name="ivm-log")
        with contextlib.suppress(RuntimeError):  # no thread is to be had: `append` writes it all
            writing.start()
        try:
            yield
        finally:
            if writing.ident is not None:
                writing.join()

    def _begin(self, record: Record) -> None:
        assert self._log is not None
        with contextlib.suppress(Exception):  # `append` tries it anew, and meets the error
            self._log.begin(record, durable=self._sync_at_commit)

    def append(self, epoch: int, changes: Sequence[TableChange]) -> None:
        """Writes an epoch's record, which is not yet durable."""
        if self._log is not None:
            self._log.append(Record(epoch, tuple(changes)))

    def retract(self, epoch: int) -> None:
        """Removes the record of an epoch that is not committed; if that fails, refuses all writes.

        Nothing is raised, since the caller raises the error that kept the epoch from committing.
        """
        if self._log is None or self._log.last_epoch < epoch:
            return
        try:
            self._log.retract(epoch)
        except UnavailableError as error:
            self.fault = self.fault or f"{error} What failed last may be there when it is opened."
            record_outcome(self.fault)

    def sync(self, epoch: int) -> None:
        """Waits until `epoch` is durable (group commit: many callers share one fdatasync).

        Raises:
            UnavailableError: the disk refuses; the database is read-only until reopened.
        """
        if self._sync_at_commit:
            self.make_durable(epoch)

    def sync_committed(self, epoch: int, note: str) -> None:
        """Waits as `sync` does until a committed epoch is durable, also if that is interrupted.

        Args:
            epoch: of the commit.
            note: added to the interrupt, which undoes nothing.
        """
        try:
            self.sync(epoch)
        except UnavailableError:  # not durable; the log refuses all writes from here on
            raise
        except BaseException as error:
            self.sync(epoch)
            error.add_note(note)
            raise

    def make_durable(self, epoch: int) -> None:
        """Waits until `epoch` is durable, whatever `sync_at_commit`: a changefeed yields it, and
        DuckDB commits it, only then, so that neither is ever ahead of the log."""
        if self._log is None:
            return
        try:
            self._log.sync(epoch)
        except UnavailableError as error:
            self.fault = str(error)
            raise

    def start_segment(self, schemas: Mapping[str, Schema], epoch: int) -> None:
        """Begins a segment with new schemas; DuckDB has committed the change of the catalog."""
        if self._log is None:
            return
        try:
            self._log.rotate(schemas, epoch)
        except UnavailableError as error:
            self.fault = (
                "the log cannot go on since an earlier change of the catalog, which is committed "
                f"({error.__cause__}). Close the database and open it again"
            )

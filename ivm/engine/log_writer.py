"""What the engine writes into the log; a database without a file has none.

Law: once the log can no longer be written, the database is read-only until it is opened again; once
its word and what it was to stand for part, nothing is read any more either: only the opening, which
replays the log, brings them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import tell
from ivm.storage.log.change import Record, TableChange
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.values.types import Schema


class LogWriter:
    """The log as seen by those who commit.

    Args:
        log: None for a database in memory.
        sync_at_commit: a commit returns only when the log is on disk.

    Attributes:
        fault: why nothing may be written any more, if so.
        diverged: the memory of this process is not what the log says.
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
        """Raises UnavailableError if what is in memory may not be used any more."""
        if self.diverged:
            raise UnavailableError(self.fault)

    def broken(self, why: str, cause: BaseException) -> BaseException:
        """Let nothing be done from here on.

        Args:
            why: a sentence without its end.
            cause: what has happened.

        Returns:
            What is to be raised: the cause itself, with a note, where it is no error.
        """
        self.diverged = True
        way_out = "Close the database and open it again: the log is replayed"
        if self._log is None:
            way_out = "Close the database: what it holds in memory only is lost"
        self.fault = f"{why} ({cause!r}). {way_out}"
        tell(self.fault)
        if isinstance(cause, Exception):
            return UnavailableError(self.fault)
        cause.add_note(self.fault)
        return cause

    def append(self, epoch: int, changes: Sequence[TableChange]) -> None:
        """Write an epoch's record; not yet durable."""
        if self._log is not None:
            self._log.append(Record(epoch, tuple(changes)))

    def retract(self, epoch: int) -> None:
        """The epoch has not come to be: have no record of it, or let nothing be written any more.

        Nothing is raised, so that the caller can tell what went wrong.
        """
        if self._log is None or self._log.last_epoch < epoch:
            return
        try:
            self._log.retract(epoch)
        except UnavailableError as error:
            self.fault = self.fault or f"{error} What failed last may be there when it is opened."
            tell(self.fault)

    def sync(self, epoch: int) -> None:
        """Return once `epoch` is durable (group commit: many callers share one fdatasync).

        Raises:
            UnavailableError: the disk refuses; the database is read-only until reopened.
        """
        if self._sync_at_commit:
            self.make_durable(epoch)

    def make_durable(self, epoch: int) -> None:
        """As `sync`, whatever the durability: before DuckDB's commit the record is on disk."""
        if self._log is None:
            return
        try:
            self._log.sync(epoch)
        except UnavailableError as error:
            self.fault = str(error)
            raise

    def start_segment(self, schemas: Mapping[str, Schema], epoch: int) -> None:
        """The catalog has changed, and DuckDB has it: records from here on are of new tables."""
        if self._log is None:
            return
        try:
            self._log.rotate(schemas, epoch)
        except UnavailableError as error:
            self.fault = (
                "the change of the catalog is committed, but the log cannot go on "
                f"({error.__cause__}). Close the database and open it again"
            )

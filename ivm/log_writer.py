"""What the engine writes into the log; a database without a file has none.

Law: once the log's word and what it was to stand for part, nothing is written any more: the
database is read-only until it is opened again, which replays the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.storage.change import Record, TableChange
from ivm.storage.errors import UnavailableError
from ivm.storage.log import ChangeLog
from ivm.storage.types import Schema


class LogWriter:
    """The log as seen by those who commit.

    Args:
        log: None for a database in memory.
        sync_at_commit: a commit returns only when the log is on disk.

    Attributes:
        fault: why nothing may be written any more, if so.
    """

    def __init__(self, log: ChangeLog | None, *, sync_at_commit: bool) -> None:
        self._log = log
        self._sync_at_commit = sync_at_commit
        self.fault: str | None = None

    def demand_sound(self) -> None:
        """Raises UnavailableError if nothing may be written any more."""
        if self.fault is not None:
            raise UnavailableError(self.fault)

    def broken(self, why: str) -> UnavailableError:
        """Let nothing be written from here on; gives the error to raise."""
        self.fault = why
        return UnavailableError(why)

    def append(self, epoch: int, changes: Sequence[TableChange]) -> None:
        """Write an epoch's record; not yet durable."""
        if self._log is not None:
            self._log.append(Record(epoch, tuple(changes)))

    def sync(self, epoch: int) -> None:
        """Return once `epoch` is durable (group commit: many callers share one fdatasync).

        Raises:
            UnavailableError: the disk refuses; the database is read-only until reopened.
        """
        if self._sync_at_commit:
            self.settle(epoch)

    def settle(self, epoch: int) -> None:
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
            self.fault = f"{error} The change of the catalog stands; close and open the database."

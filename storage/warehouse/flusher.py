"""The transaction of a flush: net changes, the epochs that they reach, and a number that shows
afterwards whether it is committed.

Contract: where its COMMIT has raised, the file is read to decide whether it stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from ivm.storage.errors import CorruptionError, UnavailableError
from ivm.storage.warehouse.duckdb.appender import Appenders
from ivm.storage.warehouse.duckdb.duck import Cursor, roll_back
from ivm.storage.warehouse.flush.flush import NetChange, Target, apply_changes, lacking
from ivm.storage.warehouse.flush.refused import Part, refused
from ivm.storage.warehouse.tables.system_tables import FLUSHES, has_reached
from ivm.storage.warehouse.tables.table_info import TableInfo

# The last one is that of a COMMIT which cannot write.
_UNWRITTEN = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException)


class OutcomeUnknownError(UnavailableError):
    """The outcome of a transaction cannot be read: DuckDB does not answer any more."""


class Flusher:
    """Writes flushes, one at a time.

    Args:
        connection: of the file.
        file: its path, for errors.
        number: of the last flush.

    Attributes:
        cursor: its own.
        number: of the last flush that is committed.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, file: Path | None, number: int
    ) -> None:
        self._connection, self._file = connection, file
        self.cursor, self.number = connection.cursor(), number
        self._appenders = Appenders(self.cursor)
        self._targets: Mapping[str, Target] = {}

    def learn(self, tables: Mapping[str, TableInfo]) -> None:
        """Takes other tables from now on."""
        self._targets = {name: info.target() for name, info in tables.items()}
        self._appenders.forget()

    def close(self) -> None:
        """Ends it."""
        with contextlib.closing(self.cursor):
            self._appenders.forget()

    def write(self, changes: Mapping[str, NetChange], epochs: Mapping[str, int]) -> None:
        """Writes a flush; returns after an error of DuckDB's if it is committed, else raises it.

        Args:
            changes: of tables and views.
            epochs: that relations reach by it.

        Raises:
            RefusedError: a constraint forbids it, against all expectation.
            UnavailableError: the disk is full or the file is gone. After this or any other
                exception, `number` shows whether the flush is committed.
            OutcomeUnknownError: that cannot be read.
        """
        try:
            self._write(changes, epochs)
        except duckdb.ConstraintException as error:
            self._demand_written(error, self._targeted(changes))
        except duckdb.Error as error:
            self._demand_written(error)
        except BaseException as error:
            self._demand_written(error)
            raise

    def _write(self, changes: Mapping[str, NetChange], epochs: Mapping[str, int]) -> None:
        number = self.number + 1
        self._appenders.run("BEGIN")
        apply_changes(self.cursor, self._targeted(changes, max(epochs.values())), self._appenders)
        self._appenders.write("_ivm.epochs", [*epochs.items(), (FLUSHES, number)])
        self._appenders.run("COMMIT")
        self.number = number

    def write_within(self, cursor: Cursor, changes: Mapping[str, NetChange], epoch: int) -> None:
        """Applies net changes in the cursor's transaction, which the caller commits and records.

        Args:
            cursor: in its transaction.
            changes: of tables and views.
            epoch: that the tables reach by them.
        """
        apply_changes(cursor, self._targeted(changes, epoch), Appenders(cursor))

    def _targeted(self, changes: Mapping[str, NetChange], epoch: int = 0) -> list[Part]:
        targets = self._targets
        return [(name, targets[name].at(epoch), change) for name, change in changes.items()]

    def _demand_written(self, error: BaseException, parts: Sequence[Part] = ()) -> None:
        """Returns if a flush of the parts that has raised is committed; else raises its error."""
        number = self.number + 1
        try:
            roll_back(self.cursor)
            if has_reached(self._connection, FLUSHES, number):
                self.number = number
                return
        except duckdb.Error as unknown:
            raise OutcomeUnknownError(
                f"Whether a flush stands cannot be read ({unknown})"
            ) from error
        if isinstance(error, _UNWRITTEN):
            raise UnavailableError(
                f"The tables in {self._file} could not be brought up to date: {error}. The"
                " commits are safe in the log; free some space or memory and try again."
            ) from error
        if isinstance(error, duckdb.ConstraintException):
            raise refused(self.cursor, parts, error) from error
        raise error

    def demand_stored(self, changes: Mapping[str, NetChange]) -> None:
        """Checks that every row that these changes of tables remove is stored.

        Raises:
            CorruptionError: naming a table that lacks one.
        """
        for name, change in changes.items():
            target = self._targets[name]
            stored = target.touched is None  # else the rows may be those of a history
            missing = lacking(self.cursor, target, change) if stored else 0
            if missing:
                raise CorruptionError(
                    f"The log's commits change or delete {missing} rows of the table {name} that"
                    " are not there any more, or not as they were. Nothing was changed."
                )

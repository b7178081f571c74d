"""The records of change streams: the position that each source has reached, and dead letters.

Law: a record is a row of a table of schema `_ivm`, and is changed in the epoch of the rows that it
is about. So it is logged, replayed and rolled back with them, and a view may read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ivm.engine.transaction import Transaction
from ivm.session.session import Session
from ivm.session.table_writer import FastWriter
from ivm.storage.errors import UnavailableError
from ivm.storage.values.column import Column
from ivm.storage.warehouse.duck import run
from ivm.storage.warehouse.system_tables import STREAM_TABLES

_POSITIONS, _LETTERS = "_ivm.positions", "_ivm.dead_letters"


def create(session: Session) -> None:
    """Creates the tables of the records where they are lacking, in an epoch of their own.

    Raises:
        UnavailableError: the session has an open transaction.
    """
    if session.engine.catalog.tables.keys() >= {_POSITIONS, _LETTERS}:
        return
    if session.transaction is not None:
        raise UnavailableError(
            "the first events of a database are ingested outside of a transaction: the tables for "
            "their positions must be made first. COMMIT or ROLLBACK, then ingest"
        )
    with session.writing() as transaction:
        transaction.begin_in_duckdb()
        transaction.change_catalog()
        transaction.change_tables()
        for name, columns in STREAM_TABLES.items():  # another thread may have been first
            run(session.cursor, f"CREATE TABLE IF NOT EXISTS _ivm.{name} {columns}")
        session.engine.reload_tables(session.cursor)


class Records:
    """The records of one source's events into one table, within a transaction.

    Args:
        session: whose open transaction it is.
        transaction: takes the changes of the records.
        source: its name.
        table: canonical name.
    """

    def __init__(self, session: Session, transaction: Transaction, source: str, table: str) -> None:
        self._session = session
        self._transaction = transaction
        self._stream: dict[str, list[Any]] = {"source": [source], "table": [table]}

    def position(self) -> int | None:
        """The position that the source has reached, the transaction's changes included."""
        keys, _ = self._columns(_POSITIONS, self._stream)
        found = self._transaction.index(_POSITIONS, all_columns=True).find([keys[0], keys[1]]).rows
        return int(found.columns[2].cell(0)) if len(found) else None

    def reach(self, position: int) -> None:
        """Notes that the source has reached a position with this transaction."""
        row = self._columns(_POSITIONS, {**self._stream, "position": [position]})
        self._writer(_POSITIONS).upsert(*row)

    def bury(self, position: int | None, letters: Mapping[int, tuple[str, str]]) -> None:
        """Adds dead letters.

        Args:
            position: of their batch, if it has one.
            letters: reason and payload by the number of the event in the batch.
        """
        count = len(letters)
        if not count:
            return
        reasons, payloads = zip(*letters.values(), strict=True)
        alike = {**self._stream, "position": [position], "time": [datetime.now(UTC)]}
        rows = {
            **{name: values * count for name, values in alike.items()},
            **{"event": list(letters), "reason": list(reasons), "payload": list(payloads)},
        }
        self._writer(_LETTERS).insert(*self._columns(_LETTERS, rows))

    def _columns(self, table: str, rows: dict[str, Any]) -> tuple[dict[int, Column], int]:
        engine = self._session.engine
        reader = engine.definitions.reader(engine.catalog.tables[table])
        return reader.read(rows, self._session.cursor)

    def _writer(self, table: str) -> FastWriter:
        path = self._transaction.fast_path(table)
        if path is None:
            raise UnavailableError(
                "events cannot be ingested in a transaction that has changed tables: COMMIT first"
            )
        return FastWriter(self._transaction, path)

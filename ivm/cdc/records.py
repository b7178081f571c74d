"""The records of change streams: the position that each source has reached, and dead letters.

Law: a record is a row of a table of schema `_ivm`, and is changed in the epoch of the rows that it
is about. So it is logged, replayed and rolled back with them, and a view may read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ivm.engine.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError
from ivm.storage.values.column import Column, column_from_arrow
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duck import run

_VARCHAR = type_of("VARCHAR")
POSITIONS = "_ivm.positions"
LETTERS = "_ivm.dead_letters"
_TABLES = {
    POSITIONS: "(source VARCHAR PRIMARY KEY, position VARCHAR NOT NULL)",
    LETTERS: '(source VARCHAR, position VARCHAR, "table" VARCHAR, time TIMESTAMPTZ, '
    "reason VARCHAR, payload VARCHAR, PRIMARY KEY (source, position))",
}


def create(session: Session) -> None:
    """Creates the tables of the records where they are lacking, in an epoch of their own.

    Raises:
        UnavailableError: the session has an open transaction.
    """
    lacking = _TABLES.keys() - session.engine.catalog.tables.keys()
    if not lacking:
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
        for name in sorted(lacking):
            run(session.cursor, f"CREATE TABLE IF NOT EXISTS {name} {_TABLES[name]}")
        session.engine.reload_tables(session.cursor)


def position_of(transaction: Transaction, source: str) -> int | None:
    """The position that a source has reached, the transaction's changes included."""
    found = transaction.index(POSITIONS, all_columns=True).find([_strings([source])])
    if not len(found.rows):
        return None
    position: int = json.loads(found.rows.columns[1].cell(0))
    return position


def reach(transaction: Transaction, source: str, position: int) -> None:
    """Notes that a source has reached a position with this transaction."""
    path = _path(transaction, POSITIONS)
    given = {0: _strings([source]), 1: _strings([json.dumps(position)])}
    transaction.add(path.upsert(given, 1, transaction.index(POSITIONS, all_columns=True)))


def bury(
    transaction: Transaction,
    source: str,
    table: str,
    letters: Mapping[str, tuple[str, str]],
) -> None:
    """Adds dead letters.

    Args:
        transaction: of the batch that they are from.
        source: its name.
        table: in which they could not be applied.
        letters: reason and payload by the position of the event.
    """
    if not letters:
        return
    path, count = _path(transaction, LETTERS), len(letters)
    reasons, payloads = zip(*letters.values(), strict=True)
    now = pa.array([datetime.now(UTC)] * count, path.schema[3][1].arrow)
    given = {
        0: _strings([source] * count),
        1: _strings(list(letters)),
        2: _strings([table] * count),
        3: column_from_arrow(now, path.schema[3][1]),
        4: _strings(reasons),
        5: _strings(payloads),
    }
    transaction.add(path.upsert(given, count, transaction.index(LETTERS)))


def _path(transaction: Transaction, table: str) -> FastPath:
    path = transaction.fast_path(table)
    if path is None:
        raise UnavailableError(
            "events cannot be ingested in a transaction that has changed tables: COMMIT it first"
        )
    return path


def _strings(values: Sequence[Any]) -> Column:
    return column_from_arrow(pa.array(values, pa.large_string()), _VARCHAR)

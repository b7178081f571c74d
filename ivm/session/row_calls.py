"""insert, upsert, delete and apply: rows without SQL, converted and handed to the table's writer.

Law: the same call means the same on every table, see `TableWriter`. Names are resolved within the
writers' turn, as in `ivm.session.dml`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ivm.catalog.catalog import name_parts
from ivm.engine.transaction import Transaction
from ivm.ingest.rows import Rows
from ivm.session.dml import refuse_view
from ivm.session.duck_writer import DuckWriter
from ivm.session.session import Session
from ivm.session.table_writer import FastWriter, TableWriter
from ivm.storage.errors import InputError, SqlError
from ivm.storage.values.column import Column
from ivm.storage.values.zset import Weights
from ivm.storage.warehouse.table_info import TableInfo


def insert(session: Session, table: str, rows: Rows) -> int:
    """See `Database.insert`."""
    with session.writing() as transaction:
        writer, given, count = _opened(session, transaction, table, rows)
        if count:
            writer.insert(given, count)
        return count


def upsert(session: Session, table: str, rows: Rows) -> int:
    """See `Database.upsert`."""
    with session.writing() as transaction:
        writer, given, count = _opened(session, transaction, table, rows)
        if count:
            writer.upsert(given, count)
        return count


def delete(session: Session, table: str, keys: Rows) -> int:
    """See `Database.delete`."""
    with session.writing() as transaction:
        writer, given, count = _opened(session, transaction, table, keys)
        if count:
            writer.delete(given, count)
        return count


def apply(session: Session, table: str, rows: Rows, given_weights: npt.ArrayLike) -> int:
    """See `Database.apply`."""
    weights = _weights(given_weights)
    with session.writing() as transaction:
        writer, given, count = _opened(session, transaction, table, rows)
        if len(weights) != count:
            raise InputError(f"{count} rows need {count} weights, not {len(weights)}")
        if count:
            writer.apply(given, weights)
        return count


def _opened(
    session: Session, transaction: Transaction, table: str, rows: Rows
) -> tuple[TableWriter, dict[int, Column], int]:
    """The writer of a table; the rows' columns by their position in it; how many rows."""
    info = _info(session, table)
    given, count = session.engine.definitions.reader(info.name).read(rows, session.cursor)
    path = transaction.fast_path(info.name)
    if path is None:
        return DuckWriter(session, transaction, info), given, count
    return FastWriter(transaction, path), given, count


def _weights(given: npt.ArrayLike) -> Weights:
    """Weights as integers that lose nothing."""
    array = np.asarray(given)
    if array.ndim == 1 and array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            weights = array.astype(np.int64)
        if (weights == array).all():
            return weights
    raise InputError(f"weights are integers, one for each row, not {given!r}")


def _info(session: Session, table: str) -> TableInfo:
    catalog = session.engine.catalog
    parts = name_parts(table)
    name = session.names.resolve(parts)
    if name is None:
        if (base := session.names.hides(parts)) is not None:
            raise SqlError(
                f"{table!r} means a temporary table here: change that one by SQL; the database's "
                f"own is {catalog.qualified[base]}"
            )
        known = ", ".join(catalog.tables) or "none yet (CREATE TABLE makes one)"
        raise SqlError(f"there is no table {table!r}; there are: {known}")
    if name in catalog.views:
        refuse_view(catalog.views[name])
    return catalog.tables[name]

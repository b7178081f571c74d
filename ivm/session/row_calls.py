"""The calls insert, upsert, delete and apply: rows are converted and passed to the table's writer.

Contract: a call has the same meaning on every table, see `TableWriter`. Names are resolved and rows
converted before the writer lock is acquired, and again if the catalog has changed until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.catalog.names import name_parts
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.not_fast import NotFastError
from ivm.ingest.rows import Rows, to_arrow
from ivm.session.buried import BuriedRows
from ivm.session.dml import refuse_own, refuse_view
from ivm.session.duck_writer import DuckWriter
from ivm.session.session import Session
from ivm.session.table_writer import FastWriter, TableWriter
from ivm.storage.errors import InputError, SqlError
from ivm.storage.values.column import Column
from ivm.storage.values.zset import Weights
from ivm.storage.warehouse.tables.table_info import TableInfo

Converted: TypeAlias = tuple[TableInfo, dict[int, Column], int]
"""A table, columns of its types by their position in it, and the count of rows."""
Write: TypeAlias = Callable[[dict[int, Column], int], None]
"""A method of `TableWriter`."""


def insert(session: Session, table: str, rows: Rows) -> int:
    """See `Database.insert`."""
    return _change(session, table, rows, lambda writer: writer.insert)


def upsert(session: Session, table: str, rows: Rows) -> int:
    """See `Database.upsert`."""
    return _change(session, table, rows, lambda writer: writer.upsert)


def delete(session: Session, table: str, keys: Rows) -> int:
    """See `Database.delete`."""
    return _change(session, table, keys, lambda writer: writer.delete)


def _change(
    session: Session, table: str, rows: Rows, method: Callable[[TableWriter], Write]
) -> int:
    columns = _columns(session, table, rows)
    with session.writing() as transaction:
        info, given, count = columns()
        if count:
            late = _write(session, transaction, info, lambda w: method(w)(given, count))
            return count - late.among(info, given)
        return count


def apply(session: Session, table: str, rows: Rows, given_weights: npt.ArrayLike) -> int:
    """See `Database.apply`."""
    weights = _weights(given_weights)
    columns = _columns(session, table, rows)
    with session.writing() as transaction:
        info, given, count = columns()
        if len(weights) != count:
            raise InputError(f"{count} rows need {count} weights, not {len(weights)}")
        if count:
            late = _write(session, transaction, info, lambda w: w.apply(given, weights))
            return count - late.among(info, given)
        return count


def _columns(session: Session, table: str, rows: Rows) -> Callable[[], Converted]:
    """Converts the rows to the table's types; the result is taken under the writer lock."""

    def convert() -> Converted:
        nonlocal rows
        info = table_info(session, table)
        rows = to_arrow(rows)  # once: they may be a stream
        return info, *session.engine.definitions.reader(info).read(rows, session.cursor)

    return session.ahead(convert)


def _write(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    act: Callable[[TableWriter], None],
) -> BuriedRows:
    """Writes rows; returns those that are late and have become dead letters."""
    path = transaction.fast_path(info.name)
    with session.buried.of(None) as late:
        if path is not None:
            try:
                act(FastWriter(transaction, path))
                return late
            except NotFastError:
                pass  # nothing is changed yet
        act(DuckWriter(session, transaction, info))
        return late


def _weights(given: npt.ArrayLike) -> Weights:
    """The weights as integers; raises InputError for other numbers."""
    array = np.asarray(given)
    if array.ndim == 1 and array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            weights = array.astype(np.int64)
        if (weights == array).all():
            return weights
    raise InputError(f"weights are integers, one for each row, not {given!r}")


def table_info(session: Session, table: str) -> TableInfo:
    """The table that a name means to the session.

    Raises:
        SqlError: there is none.
        UnsupportedError: it is a materialized view, or in schema _ivm.
    """
    catalog = session.engine.catalog
    parts = name_parts(table)
    refuse_own(parts)
    name = session.names.resolve(parts)
    if name is None:
        if (base := session.names.hides(parts)) is not None:
            raise SqlError(
                f"{table!r} means a temporary table here: change that one by SQL; the database's "
                f"own is {catalog.qualified.get(base, base)}"
            )
        raise _unknown(session, table)
    if (view := catalog.views.get(name)) is not None:
        refuse_view(view)
    info = catalog.tables.get(name)
    if info is None:  # only without the writer lock: it is being dropped
        raise _unknown(session, table)
    return info


def _unknown(session: Session, table: str) -> SqlError:
    known = ", ".join([info.name for info in session.tables]) or "none yet (CREATE TABLE makes one)"
    return SqlError(f"there is no table {table!r}; there are: {known}")

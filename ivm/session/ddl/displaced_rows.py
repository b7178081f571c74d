"""Rows of a table that a change stream has left without a place, as the table is altered.

Law: they are in `_ivm.displaced` with the columns that the table has: what an ALTER gives its rows
they get too, but for a USING of one: their values are cast.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from ivm.engine.feeds.outbox_rows import packed, unpacked
from ivm.engine.tables.small_tables import Row
from ivm.session.session import Session
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import evaluate
from ivm.storage.warehouse.tables.table_info import TableInfo

_ROWS = "_ivm_displaced_rows"


def columns_of(info: TableInfo) -> str:
    """The columns of a table as `_ivm.displaced` names them."""
    return ", ".join(f"{name} {type.sql}" for name, type in info.schema)


def altered(session: Session, row: Row, old: TableInfo, new: TableInfo) -> Row:
    """A row of `_ivm.displaced` as its table is now.

    Args:
        session: whose transaction has altered the table.
        row: as the table was.
        old: the table before.
        new: the table now.

    Raises:
        UnsupportedError: a value is none of the new type.
    """
    source, _, columns, transaction, payload, again = row
    if columns != columns_of(old) or old.schema == new.schema:
        return row
    rows = unpacked(payload, old.schema)
    values = ", ".join(_values(old, new))
    sql = f"SELECT {values} FROM {_ROWS}"
    try:
        found = evaluate(session.cursor, sql, {_ROWS: (rows, old.schema)}, new.schema)
    except duckdb.Error as error:
        raise UnsupportedError(
            f"table {new.name!r} has rows of source {source!r} in _ivm.displaced, where a "
            "statement upstream has moved others to their keys, and their values are none of the "
            f"new type: alter it when events of a later transaction have come ({error})"
        ) from error
    return (source, new.name, columns_of(new), transaction, packed(found, new.schema), again)


def _values(old: TableInfo, new: TableInfo) -> Iterator[str]:
    """SQL of each column of the new table."""
    before, now = dict(old.schema), dict(new.schema)
    for i, (name, type) in enumerate(new.schema):
        value = new.defaults.get(i, "NULL")
        if name in before:
            value = quote(name)
        elif len(before) == len(now) and old.schema[i][0] not in now:  # it was renamed
            value = quote(old.schema[i][0])
        yield f"CAST({value} AS {type.sql}) AS {quote(name)}"

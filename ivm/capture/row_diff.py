"""Compares the rows of a table before and after a statement, whatever the statement does.

Law: removed = watched rows that are gone or have changed; added = their new values and the rows
whose row id is above the greatest one before. This is exact if every old row that the statement
changes is watched: within a transaction DuckDB never assigns a row id twice, and new or moved rows
get greater ones (tried on 2.0: indexed updates, updates of lists, deletes and re-inserts in one
transaction).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ivm.capture.result import Captured, Change, net, nothing, run_verbatim
from ivm.capture.trial import Trial, attempt, require_binding
from ivm.ingest.parameters import Params
from ivm.sql.statements.nodes.nodes import Dml
from ivm.storage.identifiers import quote
from ivm.storage.values import thresholds
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, table, temporary
from ivm.storage.warehouse.flush.row_ids import last_row_id, same_row
from ivm.storage.warehouse.tables.table_info import TableInfo

ROW_ID = "__ivm_row"
_BOOLEAN = type_of("BOOLEAN")


class Watch(Protocol):
    """A table whose rows are compared."""

    table: TableInfo

    def changes(self) -> Change:
        """The rows removed and added since it was created."""


@contextlib.contextmanager
def watching(
    cursor: Cursor, info: TableInfo, condition: str = "true", params: Any = None
) -> Iterator[Watch]:
    """Watches the rows of a table that meet a condition over `t`, and all rows that will be new."""
    if info.position("rowid") is not None:  # DuckDB's fault `hidden_row_ids`
        yield _CopyWatch(cursor, info)
        return
    source = f"SELECT rowid AS {ROW_ID}, * FROM {info.qualified} t WHERE {condition}"
    with temporary(cursor, f"__ivm_before_{info.name}", f"AS {source}", params) as before:
        yield RowWatch(cursor, info, before)


@contextlib.contextmanager
def watched(cursor: Cursor, tables: Iterable[TableInfo]) -> Iterator[list[Watch]]:
    """Watches all rows of several tables."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(watching(cursor, info)) for info in tables]


def run_and_compare(cursor: Cursor, statement: Dml, info: TableInfo, params: Params) -> Captured:
    """Runs a statement unchanged, and compares all rows of its table before and after."""
    require_binding(cursor, statement.text, params)
    with watching(cursor, info) as watch:
        result = run_verbatim(cursor, statement, params)
        return result.with_changes({info.name: watch.changes()})


def run_rewritten(
    cursor: Cursor,
    statement: Dml,
    info: TableInfo,
    params: Params,
    rewritten: Callable[[Trial], Captured | None],
) -> Captured:
    """Runs a rewritten statement; if there is none or it does not bind, `run_and_compare`."""
    return attempt(cursor, rewritten) or run_and_compare(cursor, statement, info, params)


def all_rows(cursor: Cursor, info: TableInfo) -> ZSet:
    """All rows of a table."""
    return from_arrow(table(cursor, f"SELECT * FROM {info.qualified}"), info.schema)


def rows_appended(cursor: Cursor, info: TableInfo, last: int) -> ZSet:
    """The rows appended since `last_row_id` gave `last`."""
    sql = f"SELECT * FROM {info.qualified} t WHERE t.rowid > {last}"
    return from_arrow(table(cursor, sql), info.schema)


def rows_now(cursor: Cursor, info: TableInfo, row_ids: pa.ChunkedArray, last: int) -> ZSet:
    """The rows that still have one of the row ids, and those appended since `last_row_id`.

    Args:
        row_ids: of the rows that a statement was to change; if there are none, none were appended.
    """
    if not len(row_ids):
        return nothing(info.schema)
    appended = f"SELECT * FROM {info.qualified} t WHERE t.rowid > {last}"
    if len(row_ids) <= thresholds.WRITTEN_ROW_IDS:
        listed = ", ".join(map(str, row_ids.to_pylist()))
        sql = f"SELECT * FROM {info.qualified} t WHERE t.rowid IN ({listed}) UNION ALL {appended}"
        return from_arrow(table(cursor, sql), info.schema)
    cursor.register("__ivm_ids", pa.table({"id": row_ids}))
    try:
        same = f"t.rowid {same_row(cursor, info.qualified)} i.id"
        known = f"SELECT * FROM {info.qualified} t SEMI JOIN __ivm_ids i ON {same}"
        sql = f"{known} UNION ALL {appended}"
        return from_arrow(table(cursor, sql), info.schema)
    finally:
        cursor.unregister("__ivm_ids")


class _CopyWatch:
    """Keeps the table's rows themselves: for tables whose row ids cannot be read."""

    def __init__(self, cursor: Cursor, info: TableInfo) -> None:
        self.table = info
        self._cursor = cursor
        self._before = all_rows(cursor, info)

    def changes(self) -> Change:
        return net(self._before, all_rows(self._cursor, self.table), self.table.schema)


class RowWatch:
    """Watched rows as they were, in a relation that has their row ids as `ROW_ID`.

    Args:
        info: the watched table, not changed yet; it has no column named rowid.
        before: the relation (other columns are not looked at), each row once.
    """

    def __init__(self, cursor: Cursor, info: TableInfo, before: str) -> None:
        self.table = info
        self._cursor = cursor
        self._before = before
        self._last = last_row_id(cursor, info.qualified)

    def changes(self) -> Change:
        removed, now = self._touched()
        appended = rows_appended(self._cursor, self.table, self._last)
        if len(appended) and len(removed):  # rows that moved without a change
            return net(removed, add([now, appended]), self.table.schema)
        return removed, add([now, appended])

    def _touched(self) -> Change:
        """The watched rows that are deleted or changed, and the new values of the latter."""
        schema = self.table.schema
        old = ", ".join(f"b.{quote(name)}" for name, _ in schema)
        same = " AND ".join(_same(name, type) for name, type in schema)
        at = f"t.rowid {same_row(self._cursor, self.table.qualified)} b.{ROW_ID}"
        sql = (
            f"SELECT {old}, t.*, t.rowid IS NOT NULL"
            f" FROM {self._before} b LEFT JOIN {self.table.qualified} t ON {at}"
            f" WHERE t.rowid IS NULL OR NOT ({same})"
        )
        pairs = from_arrow(table(self._cursor, sql), (*schema, *schema, ("stays", _BOOLEAN)))
        if not len(pairs):
            return nothing(schema), nothing(schema)
        width = len(schema)
        stays = pairs.columns[-1]
        assert isinstance(stays, FixedColumn)
        now = pairs.project(range(width, 2 * width)).take(np.flatnonzero(stays.values))
        return pairs.project(range(width)), now


_EXACT = ("VARCHAR", "JSON", "BLOB", "UUID", "BOOLEAN", "DATE", "TIME", "ENUM", "DECIMAL")


def _same(name: str, type: ColumnType) -> str:
    """Writes the condition that a column has the same representation before (`b`) and now (`t`)."""
    before, now = f"b.{quote(name)}", f"t.{quote(name)}"
    equal = f"{before} IS NOT DISTINCT FROM {now}"
    if type.is_float:
        signs = [f"system.main.signbit({value})" for value in (before, now)]
        return f"{equal} AND {' IS NOT DISTINCT FROM '.join(signs)}"
    if type.is_string:  # a collation makes different strings equal
        return f"system.main.encode({before}) IS NOT DISTINCT FROM system.main.encode({now})"
    if type.is_integer or type.base in _EXACT or type.base.startswith("TIMESTAMP"):
        return equal
    return f"{equal} AND CAST({before} AS VARCHAR) IS NOT DISTINCT FROM CAST({now} AS VARCHAR)"

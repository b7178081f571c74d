"""Rows of tables that final views wait for: windows that they are part of are not over yet.

Law: only where the time of what is final follows from that of each row (`times_of_rows`). What a
view shows of a row while it waits makes no difference: a HAVING may let it come in the end.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import CatalogVersion
from ivm.delta_ops.linear.duck_eval import BIGINT, ROW, column_names, numbered, row_numbers, run_sql
from ivm.delta_ops.operator import CursorFactory
from ivm.delta_ops.ordered.emit import Emit as EmitOperator
from ivm.engine.views.maintenance import Maintenance
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.nodes import Emit, types
from ivm.sql.plan.times.time_of_row import TimeOfRow, times_of_rows
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.errors import EvaluationError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Mask
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet


def waited(
    removal: TableChange,
    version: CatalogVersion,
    maintenance: Maintenance,
    cursors: CursorFactory,
) -> Mask:
    """Which of the rows that a removal takes are waited for.

    Args:
        removal: of rows of one table.
        version: of the catalog.
        maintenance: of its views.
        cursors: for times that only DuckDB computes.
    """
    found = np.zeros(len(removal.removed), np.bool_)
    for view, times in _times(removal.table, version):
        plan = version.views[view].plan
        assert isinstance(plan, Emit)
        try:
            emit = maintenance.emit_of(view)
        except EvaluationError:
            continue  # the removal meets it, too, and says whose it is
        for each in times:
            held = removal.removed_columns
            rows = removal.removed.project([held.index(i) for i in each.scan.columns])
            found |= _waits(emit, each, rows, plan.schema[plan.by][1], cursors)
    return found


def _waits(
    emit: EmitOperator, time: TimeOfRow, rows: ZSet, type: ColumnType, cursors: CursorFactory
) -> Mask:
    """Which rows a final view waits for; not for one whose time cannot be told.

    Where DuckDB would fail on a row, either the query leaves it out or nothing is made of it.
    """
    try:
        return emit.waits(_values(time, rows, type, cursors))
    except EvaluationError:
        if len(rows) == 1:
            return np.zeros(1, np.bool_)
    middle = len(rows) // 2
    parts = [rows.slice(0, middle), rows.slice(middle, len(rows))]
    return np.concatenate([_waits(emit, time, part, type, cursors) for part in parts])


def _times(table: str, version: CatalogVersion) -> Iterator[tuple[str, list[TimeOfRow]]]:
    """The final views over a table, with the times of its rows in them."""
    names = BindingCatalog(version)
    for name, view in version.views.items():
        if isinstance(view.plan, Emit) and table in view.bases and view.broken is None:
            found = times_of_rows(view.plan.input, view.plan.by)
            yield name, [t for t in found if names.canonical(t.scan.relation) == table]


def _values(time: TimeOfRow, rows: ZSet, type: ColumnType, cursors: CursorFactory) -> Column:
    """The times of the rows."""
    given = types(time.scan)
    kernel = compile_scalar(time.expr, given, type)
    if kernel is not None:
        return kernel(rows.columns, len(rows))
    schema = (*column_names(given), (ROW, BIGINT))
    told = {"delta": (numbered(rows.columns, len(rows)), schema)}
    sql = f"SELECT {duck_text(time.expr)}, {ROW} FROM delta"
    found = run_sql(cursors, sql, told, (("c0", type), (ROW, BIGINT)))
    return found.columns[0].take(np.argsort(row_numbers(found.columns[1])))

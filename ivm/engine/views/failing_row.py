"""The row of a change on which views fail, found by stepping ever shorter parts of the change.

Law: the views pass the part of the change before the row that is found, and fail on the part that
ends with it. Parts are such as the change could have ended with: each is stepped and rolled back,
and one more step halves what is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate

from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.views.maintenance import Maintenance
from ivm.storage.errors import EvaluationError
from ivm.storage.log.change import TableChange
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import evaluate

_LONGEST_VALUE, _LONGEST_ROW = 60, 600  # characters


def failing_row(
    maintenance: Maintenance,
    tables: StoredTables,
    changes: Sequence[TableChange],
    views: Collection[str],
) -> str:
    """Describes the row, as the end of a sentence; "" if the views fail on none.

    Args:
        maintenance: of the views.
        tables: names the columns.
        changes: on which the views fail.
        views: some that fail.
    """
    ends = list(accumulate([1 + len(change.added) for change in changes]))
    fine, failing = 0, ends[-1] if ends else 0
    if _fails_before(maintenance, views) or not _fails(maintenance, changes, views):
        return ""
    while failing - fine > 1:
        middle = (fine + failing) // 2
        if _fails(maintenance, _part(changes, ends, middle), views):
            failing = middle
        else:
            fine = middle
    at = next(i for i, end in enumerate(ends) if end >= failing)
    row = failing - (ends[at - 1] if at else 0) - 2
    if row < 0:
        return f" (when rows of {changes[at].table!r} were removed)"
    return f" (the row of {changes[at].table!r} with {_shown(tables, changes[at], row)})"


def _fails_before(maintenance: Maintenance, views: Collection[str]) -> bool:
    """Returns whether the views fail on the rows that are stored already."""
    try:
        maintenance.hydrate(views)
    except EvaluationError:
        return True
    return False


def _fails(
    maintenance: Maintenance, changes: Sequence[TableChange], views: Collection[str]
) -> bool:
    try:
        maintenance.preview(changes, {}, views)
    except EvaluationError:
        return True
    return False


def _part(changes: Sequence[TableChange], ends: Sequence[int], count: int) -> list[TableChange]:
    """The first changes: each counts one for all removals, then one for each row added."""
    whole = [change for change, end in zip(changes, ends, strict=True) if end <= count]
    rest = count - (ends[len(whole) - 1] if whole else 0)
    if rest:
        change = changes[len(whole)]
        whole.append(replace(change, added=change.added.slice(0, rest - 1)))
    return whole


def _shown(tables: StoredTables, change: TableChange, row: int) -> str:
    schema = tables.catalog.tables[change.table].schema
    given = tuple([(f"c{i}", type) for i, (_, type) in enumerate(schema)])
    texts = tuple([(name, type_of("VARCHAR")) for name, _ in given])
    casts = ", ".join([f"CAST({name} AS VARCHAR) AS {name}" for name, _ in given])
    sql = f"SELECT {casts} FROM failing"
    with contextlib.closing(tables.warehouse.cursor()) as cursor:
        found = evaluate(cursor, sql, {"failing": (change.added.slice(row, row + 1), given)}, texts)
    values = [column.cell(0) for column in found.columns]
    shown = [f"{name} = {_text(v)}" for (name, _), v in zip(schema, values, strict=True)]
    return shortened(", ".join(shown), _LONGEST_ROW)


def _text(value: str | None) -> str:
    return "NULL" if value is None else shortened(value, _LONGEST_VALUE)


def shortened(text: str, longest: int) -> str:
    """The text, cut behind so many characters."""
    return text if len(text) <= longest else text[:longest] + "…"

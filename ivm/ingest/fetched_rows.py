"""Rows that DuckDB has given as Python values, back as columns: for few of them Arrow takes longer.

Law: the columns are bit for bit those that Arrow gives, or there are none: of types whose Python
values are not exact, of infinite times, and of dates beyond Python's calendar, which are strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any

from ivm.ingest.values.python_values import RULES, python_values
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, ones

_KINDS: dict[str, type] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), int),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), int),
    **{"BOOLEAN": bool, "FLOAT": float, "DOUBLE": float, "DECIMAL": Decimal, "VARCHAR": str},
    **{"DATE": date, "TIMESTAMP": datetime, '"NULL"': NoneType},
}
_ENDS: dict[type, tuple[object, ...]] = {
    date: (date.min, date.max),
    datetime: (datetime.min, datetime.max),
}
"""What infinite times are to DuckDB's Python values."""


def may_be_exact(type: ColumnType) -> bool:
    """Returns whether Python values of DuckDB's may tell the type's values exactly."""
    return type.base in _KINDS


def fetched_rows(rows: Sequence[tuple[Any, ...]], types: Sequence[ColumnType]) -> ZSet | None:
    """The rows, each with weight 1; None if their values do not tell them.

    Args:
        rows: as a cursor's `fetchall` gives them.
        types: of their columns.
    """
    columns = []
    for i, type in enumerate(types):
        column = _column([row[i] for row in rows], type)
        if column is None:
            return None
        columns.append(column)
    return ZSet(tuple(columns), ones(len(rows)))


def _column(values: Sequence[Any], type: ColumnType) -> Column | None:
    given = python_values(values)
    if given.kind is not NoneType:
        kind = _KINDS.get(type.base, NoneType)
        if given.kind is not kind or any(end in given.values for end in _ENDS.get(kind, ())):
            return None
    return given.by_rule(RULES, type, len(values))

"""A few rows that DuckDB has given as Python values, back as columns.

An Arrow table of one row costs DuckDB as much again as the statement that finds the row.

Contract: the columns have exactly the values that DuckDB holds; where a value may stand for another
one, the answer is None.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.storage.values.column import Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty, ones

_EXACT = frozenset(("BOOLEAN", "DOUBLE", "VARCHAR"))
_MOMENTS: dict[str, tuple[type, tuple[object, ...]]] = {
    "DATE": (datetime.date, (datetime.date.min, datetime.date.max)),
    "TIMESTAMP": (datetime.datetime, (datetime.datetime.min, datetime.datetime.max)),
}
"""The types of Python's values, and those that stand for infinite ones too; what is of no year of
Python's comes as a string."""


def of_python_rows(rows: Sequence[tuple[Any, ...]], types: Sequence[ColumnType]) -> ZSet | None:
    """The rows, each with weight 1; None if their values do not tell them."""
    if not rows:
        return empty(types)
    columns = []
    for values, type in zip(zip(*rows, strict=True), types, strict=True):
        column = _column(values, type)
        if column is None:
            return None
        columns.append(column)
    return ZSet(tuple(columns), ones(len(rows)))


def _column(values: Sequence[Any], type: ColumnType) -> Column | None:
    if type.sql in _MOMENTS:
        kind, ends = _MOMENTS[type.sql]
        if any(v is not None and (v.__class__ is not kind or v in ends) for v in values):
            return None
        return column_from_arrow(pa.array(values, type.arrow), type)
    if type.sql not in _EXACT and not (type.is_integer and type.is_word):
        return None
    if type.dtype is None:
        return column_from_arrow(pa.array(values, type.memory), type)
    valid = np.array([v is not None for v in values])
    filled = [0 if v is None else v for v in values]
    return FixedColumn(np.array(filled, type.dtype), None if valid.all() else valid)

"""Reads the cells of a VALUES list as values of one kind a column.

Strings and booleans become Python's. A number is an integer, a DECIMAL if it has a point, a DOUBLE
if it has an exponent.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from types import NoneType

import numpy as np
import pyarrow as pa

from ivm.ingest.values import python_values
from ivm.ingest.values.python_values import Rule, Values, floats, integers, joined
from ivm.sql.statements.nodes.values_list import LiteralRows
from ivm.storage.values.column import Column, Mask, column_from_arrow
from ivm.storage.values.types import ColumnType

_NUMBER = "number"  # the kind of numbers as they are written
_LONGEST_INTEGER = 20
_EXACT_CELL = 16  # characters: up to 15 digits and a point, or 16 digits: one rounding, as DuckDB's
_NUMBER_STARTS = frozenset("0123456789-.")


def literals(rows: LiteralRows, column: int, type: ColumnType) -> Values | None:
    """The values of a column's cells; None if they are of several kinds, or typed otherwise."""
    cells, start, valid = rows.cells[column], rows.starts[column], None
    if "" in start:
        start = start - {""}
        if not start:
            return Values(NoneType, (), None)
        valid = np.fromiter(map(bool, cells), np.bool_, len(cells))
        cells = tuple(filter(None, cells))
    if start == {"'"}:
        return Values(str, _unquoted(cells), valid)
    if start <= _NUMBER_STARTS:
        return Values(_NUMBER, cells, valid)
    words = list(map(str.upper, cells)) if start <= frozenset("tTfF") else [""]
    if {"TRUE", "FALSE"}.issuperset(words):
        return Values(bool, list(map(operator.eq, words, itertools.repeat("TRUE"))), valid)
    return _typed(cells, valid, type) if start <= frozenset("dDtT") else None


_inside = operator.itemgetter(slice(1, -1))


def _unquoted(cells: Sequence[str]) -> Sequence[str]:
    strings = list(map(_inside, cells))
    if any(map(operator.contains, strings, itertools.repeat("'"))):
        return list(map(str.replace, strings, itertools.repeat("''"), itertools.repeat("'")))
    return strings


def _typed(cells: Sequence[str], valid: Mask | None, type: ColumnType) -> Values | None:
    """The strings of cells like DATE '2020-01-01', if that is the column's type."""
    parts = [cell.split("'", 1) for cell in cells]
    names = {part[0].strip().upper() for part in parts}
    return Values(str, [part[1][:-1] for part in parts], valid) if names == {type.sql} else None


def _numbers(cells: Sequence[str], type: ColumnType) -> Column | None:
    text = joined(cells).upper()
    exponents = text.count("E")
    if type.is_float:
        return _floats(cells, exponents, type)
    if exponents:
        return None
    if type.is_decimal:
        return _decimals(cells, type)
    if "." in text or max(map(len, cells)) > _LONGEST_INTEGER:
        return None
    return integers(list(map(int, cells)), type)


def _floats(cells: Sequence[str], exponents: int, type: ColumnType) -> Column | None:
    if exponents < len(cells) and (exponents or max(map(len, cells)) > _EXACT_CELL):
        return None
    values = np.array(list(map(float, cells)), np.float64)
    if not exponents:
        values = values + 0.0  # -0.0 is the DECIMAL 0 there
    elif np.isinf(values).any():
        return None  # 1e999
    return floats(values, type)


def _decimals(cells: Sequence[str], type: ColumnType) -> Column | None:
    try:
        return column_from_arrow(pa.array(cells, pa.string()).cast(type.arrow), type)
    except pa.ArrowInvalid:
        return None  # digits beyond the scale are to be rounded, or it does not fit


RULES: dict[object, Rule] = {**python_values.RULES, _NUMBER: _numbers}


def literal_array(given: Values, type: ColumnType) -> pa.Array | None:
    """Literals in an Arrow type whose cast by DuckDB is theirs, None if there is none."""
    if given.kind is str:
        return pa.array(given.values, pa.large_string())
    if given.kind is bool:
        return pa.array(given.values, pa.bool_())
    if given.kind != _NUMBER or not _hides_width(type):
        return None
    text = joined(given.values).upper()
    if "E" in text:
        return None
    cells = pa.array(given.values, pa.string())
    try:
        if "." not in text:
            return cells.cast(pa.int64())
        if type.sql == "VARCHAR":
            return None  # each literal shows its own scale
        return cells.cast(pa.decimal128(38, _scale(given.values)))
    except pa.ArrowInvalid:
        return None


def _hides_width(type: ColumnType) -> bool:
    """Whether the width of an integer does not show in the type (it does as BIT)."""
    return type.is_integer or type.is_float or type.is_decimal or type.sql in ("BOOLEAN", "VARCHAR")


def _scale(cells: Sequence[str]) -> int:
    """The most digits any cell has after its point."""
    tails = map(operator.itemgetter(2), map(str.partition, cells, itertools.repeat(".")))
    return max(map(len, tails))

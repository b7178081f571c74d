"""Text forms of values, and the bridge between numpy columns and Arrow strings.

Limit: floats, intervals, times and decimals of more than 18 digits after the point stay with
DuckDB; dates outside the years 1 to 9999 are undecided.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.sql.scalar import int128 as wide
from ivm.sql.scalar.format import timestamp_text
from ivm.sql.scalar.kernel import (
    VARCHAR,
    NotListedError,
    Term,
    UndecidedError,
    Values,
    beyond,
    fixed,
    null_term,
    refuse_if,
)
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn
from ivm.storage.values.types import WIDE, ColumnType

_STRING = pa.large_string()
_MOST_DIGITS = 18  # after the point: ten to that fits into 64 bits
_YEAR_1, _YEAR_10000 = -719162, 2932897


def to_text(term: Term) -> Term:
    """`term` as VARCHAR.

    Raises:
        NotListedError: the text form of its type is left to DuckDB.
    """
    if term.type.is_string or term.type.base == "ENUM":
        return Term(VARCHAR, term.kernel, term.constant)
    if term.is_null:
        return null_term(VARCHAR)
    if not _has_text(term.type):
        raise NotListedError(f"cast of {term.type} to VARCHAR")
    argument, type = fixed(term), term.type

    def kernel(columns: Sequence[Column], count: int) -> Column:
        return ArrowColumn(_text(argument(columns, count), type))

    return Term(VARCHAR, kernel)


def _has_text(type: ColumnType) -> bool:
    if type.is_decimal:
        return type.scale <= _MOST_DIGITS
    if type.sql in ("UHUGEINT", "FLOAT", "DOUBLE"):
        return False
    return type.is_integer or type.sql in ("BOOLEAN", "DATE", "TIMESTAMP")


def _text(column: FixedColumn, type: ColumnType) -> pa.Array:
    if type.sql == "BOOLEAN":
        return column.to_arrow(type).cast(pa.string()).cast(_STRING)
    if type.sql == "TIMESTAMP":
        return timestamp_text(column, type)
    if type.sql == "DATE":
        refuse_if((column.values < _YEAR_1) | (column.values >= _YEAR_10000))
        return column.to_arrow(type).cast(_STRING)
    narrow = wide.narrow(column.values) if column.values.dtype == WIDE else column.values
    if narrow is None:
        raise UndecidedError
    if type.scale == 0:
        return _integers(FixedColumn(narrow, column.valid))
    return _decimals(narrow, column, type)


def _integers(column: FixedColumn) -> pa.Array:
    return pa.array(column.values, mask=None if column.valid is None else ~column.valid).cast(
        _STRING
    )


def _decimals(values: Values, column: FixedColumn, type: ColumnType) -> pa.Array:
    scale = type.scale
    refuse_if(beyond(values, 2**63 - 1))
    size = np.abs(values)
    mask = None if column.valid is None else ~column.valid
    whole = pa.array(size // 10**scale, mask=mask).cast(_STRING)
    if type.precision == scale:  # DuckDB prints no zero before the point then
        whole = pa.array([""] * len(size), _STRING)
    rest = pa.array(size % 10**scale, mask=mask).cast(_STRING)
    digits = pc.utf8_lpad(rest, width=scale, padding="0")
    sign = pc.if_else(pa.array(values < 0), pa.scalar("-", _STRING), pa.scalar("", _STRING))
    text = pc.binary_join_element_wise(whole, digits, pa.scalar(".", _STRING))
    return pc.binary_join_element_wise(sign, text, pa.scalar("", _STRING))

"""Key codes: one 64-bit integer per row and key, and the equality that verifies them.

Law: equal keys have equal codes; an `exact` code is equal for equal keys only (NULL, which shares
the code of a zero, apart) and sorts as DuckDB sorts the key. Any other code is a hash, and every
match is to be verified with `same_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.values import hashing
from ivm.storage.values.canonical import canonical_floats
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.equality import equal_rows
from ivm.storage.values.types import ColumnType

_SIGN = np.uint64(1 << 63)
_OFFSET_MASK = np.uint64((1 << 24) - 1)  # TIMETZ: the low 24 bits hold the offset in seconds
_SECOND = np.uint64(1_000_000 << 24)


class KeyCodes(NamedTuple):
    """Codes of a batch of keys.

    Attributes:
        codes: int64[n].
        exact: the code stands for the key itself; no match needs to be verified (but NULL).
        null: bool[n], true where some key column is NULL; None when none is.
    """

    codes: npt.NDArray[np.int64]
    exact: bool
    null: Mask | None


def groupable(type: ColumnType) -> bool:
    """Returns whether grouping equality of the type is known here (that of VARIANT is not)."""
    return "VARIANT" not in type.sql


def is_exact(types: Sequence[ColumnType]) -> bool:
    """Returns whether keys of these types have exact codes: one fixed column of at most 64 bits."""
    return len(types) == 1 and types[0].is_word


def key_codes(columns: Sequence[Column], types: Sequence[ColumnType]) -> KeyCodes:
    """Codes of the keys under SQL's grouping equality.

    Args:
        columns: the key's columns (at least one), of equal length.
        types: their types.
    """
    null = null_keys(columns)
    if is_exact(types):
        assert isinstance(columns[0], FixedColumn)
        return KeyCodes(word_codes(columns[0].values, types[0]), True, null)
    return KeyCodes(hashing.hash_rows(columns, types, True), False, null)


def row_codes(columns: Sequence[Column], types: Sequence[ColumnType]) -> npt.NDArray[np.int64]:
    """Hashes of the rows' exact representation (int64[n]); equal rows have equal codes."""
    return hashing.hash_rows(columns, types, False)


def null_keys(columns: Sequence[Column]) -> Mask | None:
    """A mask of the rows where some column is NULL; None when none is."""
    null: Mask | None = None
    for column in columns:
        valid = column.valid
        if valid is not None:
            null = ~valid if null is None else null | ~valid
    return null


def word_codes(values: npt.NDArray[Any], type: ColumnType) -> npt.NDArray[np.int64]:
    """The int64 codes of fixed values of at most 64 bits, equal and sorted as DuckDB has them."""
    kind = values.dtype.kind
    if kind == "f":
        bits = canonical_floats(values).astype(np.float64).view(np.int64)
        return bits ^ ((bits >> 63) & np.int64((1 << 63) - 1))
    if kind == "u" and values.dtype.itemsize == 8:
        if type.sql == "TIME WITH TIME ZONE":
            values = values + (values & _OFFSET_MASK) * _SECOND
        return (values ^ _SIGN).view(np.int64)
    return values.astype(np.int64, copy=False)


def same_key(
    a: Sequence[Column],
    a_rows: Indexes,
    b: Sequence[Column],
    b_rows: Indexes,
    types: Sequence[ColumnType],
) -> Mask:
    """Returns whether key a_rows[i] of `a` and key b_rows[i] of `b` are equal for GROUP BY."""
    return equal_rows(a, a_rows, b, b_rows, types, True)


def same_row(
    a: Sequence[Column],
    a_rows: Indexes,
    b: Sequence[Column],
    b_rows: Indexes,
    types: Sequence[ColumnType],
) -> Mask:
    """Returns whether row a_rows[i] of `a` and row b_rows[i] of `b` have the same bits."""
    return equal_rows(a, a_rows, b, b_rows, types, False)

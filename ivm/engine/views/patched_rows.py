"""A few rows of a Z-set replaced where they stand, which costs less than a sum of all rows.

Law: replaced(rows, delta) = rows + delta, in another order. All rows have weight 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.values import dictionary
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Indexes,
    Mask,
    concat,
    not_null,
)
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, ones


def replaced(
    rows: ZSet, delta: ZSet, key: Sequence[int], types: Sequence[ColumnType]
) -> ZSet | None:
    """The rows after a small delta.

    Args:
        rows: each with weight 1.
        delta: it removes rows that are there.
        key: positions of columns by which a row is found: they are unique, or all; () where there
            is one row at most.
        types: of the columns.

    Returns:
        The rows, each with weight 1; None where they cannot be found so.
    """
    weights = delta.weights.tolist()
    if any(abs(weight) != 1 for weight in weights):
        return None
    if any(types[i].dtype is None and not types[i].is_bytes for i in key):
        return None
    gone: list[int] = []
    for number in [i for i, weight in enumerate(weights) if weight < 0]:
        found = [p for p in _positions(rows, delta, number, key) if p not in gone]
        if not found:
            return None
        gone.append(found[0])
    new = [i for i, weight in enumerate(weights) if weight > 0]
    places, taken = np.array(gone, np.int64), np.array(new, np.int64)
    pairs = list(zip(rows.columns, delta.columns, strict=True))
    if len(gone) == len(new):
        return ZSet(tuple([_with(a, places, b, taken) for a, b in pairs]), rows.weights)
    kept = np.ones(len(rows), np.bool_)
    kept[places] = False
    both = np.concatenate((kept.nonzero()[0], len(rows) + taken))
    columns = [concat([a, _like(b, a)]).take(both) for a, b in pairs]
    return ZSet(tuple(columns), ones(len(both)))


def _positions(rows: ZSet, delta: ZSet, number: int, key: Sequence[int]) -> list[int]:
    """The places of the rows that are the row of that number in the delta."""
    mask: Mask | None = None
    if not key:
        return list(range(len(rows)))
    for i in key:
        equal = _equal(rows.columns[i], delta.columns[i], number)
        mask = equal if mask is None else mask & equal
    return [] if mask is None else mask.nonzero()[0].tolist()


def _equal(column: Column, other: Column, number: int) -> Mask:
    """A mask of the values with the bits of one value of another column."""
    other = _like(other, column)
    if isinstance(column, DictionaryColumn) and isinstance(other, DictionaryColumn):
        same: Mask = column.codes == other.codes[number]
        return same
    if isinstance(column, ArrowColumn):
        value = other.array[number]  # type: ignore[union-attr]
        found = pc.equal(column.array, value) if value.is_valid else pc.is_null(column.array)
        return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)
    assert isinstance(other, FixedColumn)
    mine, wanted = _words(column.values), _words(other.values)
    equal: Mask = mine[0] == wanted[0][number]
    for a, b in zip(mine[1:], wanted[1:], strict=True):
        equal = equal & (a == b[number])
    if column.valid is None and other.valid is None:
        return equal
    same = equal & (not_null(column) == not_null(other)[number])
    return same


def encoded(rows: ZSet) -> ZSet:
    """The rows with all strings in dictionary encoding, as far as it takes them."""
    return ZSet(tuple([_encoded(column) for column in rows.columns]), rows.weights)


def _encoded(column: Column) -> Column:
    if not isinstance(column, ArrowColumn) or isinstance(column, DictionaryColumn):
        return column
    if column.array.type != pa.large_string() or not len(column):
        return column
    codes = dictionary.encode(column.array, force=True)
    return column if codes is None else DictionaryColumn(codes)


def _like(new: Column, column: Column) -> Column:
    """The new values in the form of a column's, if they can have it."""
    return _encoded(new) if isinstance(column, DictionaryColumn) else new


def _words(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The bits of values as one or two integers each."""
    if values.dtype.names is not None:
        return [values["lo"], values["hi"]]
    return [values.view(f"u{values.dtype.itemsize}")]


def _with(column: Column, places: Indexes, new: Column, taken: Indexes) -> Column:
    """A copy of the column with values of another one, those at `taken`, at some places."""
    new = _like(new, column)
    if isinstance(column, DictionaryColumn) and isinstance(new, DictionaryColumn):
        codes = column.codes.copy()
        codes[places] = new.codes[taken]
        return DictionaryColumn(codes)
    if isinstance(column, ArrowColumn) or isinstance(new, ArrowColumn):
        order = np.arange(len(column))
        order[places] = len(column) + taken
        return concat([column, new]).take(order)
    values, valid = column.values.copy(), column.valid
    values[places] = new.values[taken]
    if valid is None and new.valid is None:
        return FixedColumn(values)
    valid = not_null(column).copy()
    valid[places] = not_null(new)[taken]
    return FixedColumn(values, valid)

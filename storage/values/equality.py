"""Pairwise equality of rows: exact, or SQL's grouping equality.

Law: exact equality is equality of bits (NULL equals NULL, 0.0 is not −0.0); grouping equality is
equality of bits after `canonical`. Nested values are compared part by part, without a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values.canonical import canonical_values
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Indexes,
    Mask,
)
from ivm.storage.values.nested import (
    ByteParts,
    FixedParts,
    ListParts,
    Parts,
    StructParts,
    UnionParts,
    parts,
)
from ivm.storage.values.types import ColumnType


def equal_rows(
    a: Sequence[Column],
    a_rows: Indexes,
    b: Sequence[Column],
    b_rows: Indexes,
    types: Sequence[ColumnType],
    grouping: bool,
) -> Mask:
    """Returns whether row a_rows[i] of `a` equals row b_rows[i] of `b`, for every i."""
    equal: Mask | None = None
    for left, right, type in zip(a, b, types, strict=True):
        same = _equal_columns(left, a_rows, right, b_rows, type, grouping)
        equal = same if equal is None else equal & same
    return np.ones(len(a_rows), np.bool_) if equal is None else equal


def equal_pairs(a: Sequence[Column], b: Sequence[Column], types: Sequence[ColumnType]) -> Mask:
    """Returns whether row i of `a` has the bits of row i of `b`, for every i; no row is copied."""
    equal = np.ones(len(a[0]), np.bool_)
    for left, right, type in zip(a, b, types, strict=True):
        equal &= _equal_in_place(left, right, type)
        if not equal.any():
            break
    return equal


def repeats_itself(columns: Sequence[Column], types: Sequence[ColumnType]) -> bool:
    """Returns whether the second half of the rows is the first one again, in its order.

    So −old and +new of an update are in the columns that it does not set. Of other rows the two
    that begin the halves tell it, as a rule.
    """
    half = len(columns[0]) // 2
    if not half or len(columns[0]) != 2 * half:
        return False
    for count in (1, half):
        left = [column.slice(0, count) for column in columns]
        right = [column.slice(half, half + count) for column in columns]
        if not equal_pairs(left, right, types).all():
            return False
    return True


def _equal_in_place(a: Column, b: Column, type: ColumnType) -> Mask:
    if a is b:
        return np.ones(len(a), np.bool_)
    if isinstance(a, DictionaryColumn) and isinstance(b, DictionaryColumn):
        return a.codes == b.codes  # type: ignore[no-any-return]
    if isinstance(a, FixedColumn) and isinstance(b, FixedColumn):
        return _same_nulls(_equal_values(a.values, b.values), a.valid, b.valid)
    rows = np.arange(len(a))
    return _equal_columns(a, rows, b, rows, type, False)


def _equal_columns(
    a: Column, a_rows: Indexes, b: Column, b_rows: Indexes, type: ColumnType, grouping: bool
) -> Mask:
    if isinstance(a, DictionaryColumn) and isinstance(b, DictionaryColumn):
        return a.codes[a_rows] == b.codes[b_rows]  # type: ignore[no-any-return]
    if isinstance(a, ArrowColumn):
        assert isinstance(b, ArrowColumn)
        return _equal_parts(parts(a.array).take(a_rows), parts(b.array).take(b_rows), grouping)
    assert isinstance(b, FixedColumn)
    left, right = a.values[a_rows], b.values[b_rows]
    if grouping:
        left, right = canonical_values(left, type), canonical_values(right, type)
    return _same_nulls(_equal_values(left, right), _at(a.valid, a_rows), _at(b.valid, b_rows))


def _at(valid: Mask | None, rows: Indexes) -> Mask | None:
    return None if valid is None else valid[rows]


def _equal_values(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Mask:
    """The equality of the values' bits."""
    if a.dtype.names is not None:
        return (a["lo"] == b["lo"]) & (a["hi"] == b["hi"])  # type: ignore[no-any-return]
    if a.dtype.kind == "f":
        words = f"i{a.dtype.itemsize}"
        return a.view(words) == b.view(words)  # type: ignore[no-any-return]
    return a == b  # type: ignore[no-any-return]


def _same_nulls(equal: Mask, a: Mask | None, b: Mask | None) -> Mask:
    """Returns `equal` where neither value is NULL, true where both are."""
    if a is None and b is None:
        return equal
    a = np.ones(len(equal), np.bool_) if a is None else a
    b = np.ones(len(equal), np.bool_) if b is None else b
    return (equal & a & b) | ~(a | b)


def _equal_parts(a: Parts, b: Parts, grouping: bool) -> Mask:
    return _same_nulls(_EQUALS[a.__class__](a, b, grouping), a.valid, b.valid)


def _equal_fixed(a: FixedParts, b: FixedParts, grouping: bool) -> Mask:
    if grouping:
        return _equal_values(a.canonical(), b.canonical())
    return _equal_values(a.values, b.values)


def _equal_bytes(a: ByteParts, b: ByteParts, grouping: bool) -> Mask:
    equal = a.lengths == b.lengths
    rows = np.flatnonzero(equal & (a.lengths > 0))
    lengths = a.lengths[rows]
    if len(rows):
        ends = np.cumsum(lengths)
        inside = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        left = a.data[np.repeat(a.starts[rows], lengths) + inside]
        differ = left != b.data[np.repeat(b.starts[rows], lengths) + inside]
        equal[rows[np.logical_or.reduceat(differ, ends - lengths)]] = False
    return equal  # type: ignore[no-any-return]


def _equal_lists(a: ListParts, b: ListParts, grouping: bool) -> Mask:
    equal = a.lengths == b.lengths
    rows = np.flatnonzero(equal)
    owners, _, left = a.take(rows).expand()
    _, _, right = b.take(rows).expand()
    same = _equal_parts(a.child.take(left), b.child.take(right), grouping)
    equal[rows[owners[~same]]] = False
    return equal  # type: ignore[no-any-return]


def _equal_structs(a: StructParts, b: StructParts, grouping: bool) -> Mask:
    equal = np.ones(a.count, np.bool_)
    for left, right in zip(a.children, b.children, strict=True):
        equal &= _equal_parts(left, right, grouping)
    return equal


def _equal_unions(a: UnionParts, b: UnionParts, grouping: bool) -> Mask:
    equal = a.tags == b.tags
    for code, left, right in zip(a.codes, a.children, b.children, strict=True):
        rows = np.flatnonzero(equal & (a.tags == code))
        equal[rows] = _equal_parts(left.take(rows), right.take(rows), grouping)
    return equal  # type: ignore[no-any-return]


_EQUALS: dict[type, Callable[[Any, Any, bool], Mask]] = {
    FixedParts: _equal_fixed,
    ByteParts: _equal_bytes,
    ListParts: _equal_lists,
    StructParts: _equal_structs,
    UnionParts: _equal_unions,
}

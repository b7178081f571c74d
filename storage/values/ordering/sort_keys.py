"""Sort keys: single values of a column as Python objects that compare as DuckDB orders them.

Law: for two sort keys a, b of one term, neither None: a < b ⇔ DuckDB sorts the value of a before
that of b ascending, and a == b ⇔ it holds them equal (a term of bits: ⇔ they are the same bits).
NULL is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.storage.values import dictionary
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.nested_order import has_nested_order, nested_cell
from ivm.storage.values.ordering.order import OrderTerm, wide_codes
from ivm.storage.values.types import ColumnType

Cell: TypeAlias = Callable[[int], Any]
"""The comparable value at a row, None for NULL."""


def cells(column: Column, term: OrderTerm) -> Cell:
    """A function that reads a column's values as sort keys under a term of an order."""
    if isinstance(column, FixedColumn) and column.valid is None and column.values.dtype.kind == "i":
        return column.values.item
    if isinstance(column, ArrowColumn) and has_nested_order(term.type):
        array, bits = column.array, term.bits
        return lambda row: nested_cell(array[row], bits)
    if isinstance(column, ArrowColumn):
        return _text_cells(column, term.type)
    get = _fixed_cells(column, term)
    if column.valid is None:
        return get
    valid = column.valid.item
    return lambda row: get(row) if valid(row) else None


def all_cells(column: Column, term: OrderTerm) -> list[Any]:
    """The sort keys of all rows."""
    if isinstance(column, FixedColumn) and column.valid is None and column.values.dtype.kind == "i":
        return column.values.tolist()  # type: ignore[no-any-return]
    cell = cells(column, term)
    return [cell(row) for row in range(len(column))]


def _text_cells(column: ArrowColumn, type: ColumnType) -> Cell:
    if isinstance(column, DictionaryColumn):
        codes = column.codes
        get: Cell = lambda row: dictionary.words(codes[row : row + 1])[0]  # noqa: E731
    else:
        array = column.array
        get = lambda row: array[row].as_py()  # noqa: E731
    if not type.is_enum:
        return get
    positions: dict[str | None, int | None] = {label: i for i, label in enumerate(type.labels)}
    return lambda row: positions.get(get(row))


def _fixed_cells(column: FixedColumn, term: OrderTerm) -> Cell:
    values, type = column.values, term.type
    if type.is_word:
        if term.bits:
            return values.view(f"i{values.dtype.itemsize}").item
        return values.item if values.dtype.kind == "i" else word_codes(values, type).item
    high, low = (values["hi"], values["lo"]) if term.bits else wide_codes(values, type)
    upper, lower = high.item, low.item
    return lambda row: (upper(row), lower(row))


def words_of(column: Column, term: OrderTerm) -> npt.NDArray[np.int64] | None:
    """The sort keys in an array (c as −1 − c if descending), if all are numbers and none NULL."""
    if not term.type.is_word or column.valid is not None:
        return None
    assert isinstance(column, FixedColumn)
    values = column.values
    if term.bits:
        codes = values.view(f"i{values.dtype.itemsize}").astype(np.int64, copy=False)
    else:
        codes = word_codes(values, term.type)
    return ~codes if term.descending else codes


def stands_before(a: Any, b: Any, term: OrderTerm) -> bool:
    """Returns whether sort key a, which is not equal to b, stands before it."""
    if a is None:
        return term.nulls_first
    if b is None:
        return not term.nulls_first
    return bool(a > b if term.descending else a < b)


class _Backwards:
    """A value that compares the other way round."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and bool(self._value == other._value)

    def __lt__(self, other: _Backwards) -> bool:
        return bool(other._value < self._value)

    __hash__ = None  # type: ignore[assignment]


def ordered(cell: Any, term: OrderTerm) -> tuple[Any, ...]:
    """The form of a sort key that Python compares with another's as the term orders the two."""
    if cell is None:
        return (0,) if term.nulls_first else (2,)
    return 1, _Backwards(cell) if term.descending else cell


LAST = (3,)  # comes after all results of `ordered`


def narrowed(cell: Cell, low: int, high: int, wanted: Any, term: OrderTerm) -> tuple[int, int]:
    """The rows of a sorted range with the wanted sort key; its position, if there is none."""
    start = _bisect(cell, low, high, wanted, term, False)
    if start == high or cell(start) != wanted:
        return start, start
    return start, _bisect(cell, start + 1, high, wanted, term, True)


def _bisect(cell: Cell, low: int, high: int, wanted: Any, term: OrderTerm, right: bool) -> int:
    while low < high:
        middle = (low + high) >> 1
        value = cell(middle)
        if right if value == wanted else stands_before(value, wanted, term):
            low = middle + 1
        else:
            high = middle
    return low

"""Single values of a column as Python objects that compare as DuckDB orders them.

Law: for two cells a, b of one term, neither None: a < b ⇔ DuckDB sorts the value of a before that
of b ascending, and a == b ⇔ it holds them equal (a term of bits: ⇔ they are the same bits). NULL is
None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ivm.storage import labels
from ivm.storage.codes import word_codes
from ivm.storage.column import ArrowColumn, Column, FixedColumn, LabelColumn
from ivm.storage.ordering import Term, wide_codes
from ivm.storage.types import ColumnType

Cell: TypeAlias = Callable[[int], Any]
"""The comparable value at a row, None for NULL."""


def cells(column: Column, term: Term) -> Cell:
    """How to read a column's values under a term of an order."""
    if isinstance(column, ArrowColumn):
        return _text_cells(column, term.type)
    get = _fixed_cells(column, term)
    if column.valid is None:
        return get
    valid = column.valid.item
    return lambda row: get(row) if valid(row) else None


def _text_cells(column: ArrowColumn, type: ColumnType) -> Cell:
    if isinstance(column, LabelColumn):
        codes = column.codes
        get: Cell = lambda row: labels.words(codes[row : row + 1])[0]  # noqa: E731
    else:
        array = column.array
        get = lambda row: array[row].as_py()  # noqa: E731
    if not type.is_enum:
        return get
    places: dict[str | None, int | None] = {label: i for i, label in enumerate(type.labels)}
    return lambda row: places.get(get(row))


def _fixed_cells(column: FixedColumn, term: Term) -> Cell:
    values, type = column.values, term.type
    if type.is_word:
        if term.bits:
            return values.view(f"i{values.dtype.itemsize}").item
        plain = type.is_ordered_word and not type.is_float
        return values.item if plain else word_codes(values, type).item
    high, low = (values["hi"], values["lo"]) if term.bits else wide_codes(values, type)
    upper, lower = high.item, low.item
    return lambda row: (upper(row), lower(row))


def stands_before(a: Any, b: Any, term: Term) -> bool:
    """Whether cell a, which is not equal to b, stands before it."""
    if a is None:
        return term.nulls_first
    if b is None:
        return not term.nulls_first
    return bool(a > b if term.descending else a < b)


def narrowed(cell: Cell, low: int, high: int, wanted: Any, term: Term) -> tuple[int, int]:
    """The rows of a sorted range with the wanted cell; where it belongs, if there is none."""
    start = _bisect(cell, low, high, wanted, term, False)
    if start == high or cell(start) != wanted:
        return start, start
    return start, _bisect(cell, start + 1, high, wanted, term, True)


def _bisect(cell: Cell, low: int, high: int, wanted: Any, term: Term, right: bool) -> int:
    while low < high:
        middle = (low + high) >> 1
        value = cell(middle)
        if right if value == wanted else stands_before(value, wanted, term):
            low = middle + 1
        else:
            high = middle
    return low

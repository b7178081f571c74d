"""Columns in the making, to whose end pieces are copied.

Law: the column is that of the pieces, joined. Fixed-width values are held once: a long array grows
where it is, as the system gives it further pages, and a piece is not needed any more once it is
appended. Pieces of strings that have no codes are kept, and joined in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Mask,
    concat,
    empty_column,
    join_arrays,
    not_null,
)
from ivm.storage.values.types import ColumnType

_MAPPED = 1 << 25
"""Bytes of an array that has pages of its own, so that it grows without being copied."""
_STEP = 1 << 20
"""Bytes by which it grows at a time: numpy fills them with zeros under the interpreter lock, which
it gives up as it copies the values."""


def grown(array: npt.NDArray[Any] | None, piece: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array with a piece appended: the array itself, of which nobody else may have a part."""
    if array is None:
        return piece.copy()
    if array.nbytes < _MAPPED:
        return join_arrays([array, piece])
    step = _STEP // array.itemsize
    for start in range(0, len(piece), step):
        part, count = piece[start : start + step], len(array)
        array.resize(count + len(part), refcheck=False)
        array[count:] = part
    return array


class GrowingColumn:
    """One column in the making.

    Args:
        type: of its values.
    """

    def __init__(self, type: ColumnType) -> None:
        self._type = type
        self._values: npt.NDArray[Any] | None = None  # or codes
        self._valid: Mask | None = None
        self._coded = False
        self._pieces: list[Column] = []  # what comes after the values

    def append(self, piece: Column) -> None:
        """Appends a piece of the column's type."""
        coded = isinstance(piece, DictionaryColumn)
        plain = isinstance(piece, ArrowColumn) and not coded
        differs = self._values is not None and coded != self._coded
        if self._pieces or plain or differs:
            self._pieces.append(piece)
        elif isinstance(piece, DictionaryColumn):
            self._coded, self._values = True, grown(self._values, piece.codes)
        elif isinstance(piece, FixedColumn):
            self._grow_valid(piece)
            self._values = grown(self._values, piece.values)

    def _grow_valid(self, piece: FixedColumn) -> None:
        if self._valid is None and piece.valid is not None:
            self._valid = np.ones(0 if self._values is None else len(self._values), np.bool_)
        if self._valid is not None:
            self._valid = grown(self._valid, not_null(piece))

    def column(self) -> Column:
        """The column of all pieces; this object is of no use afterwards."""
        pieces = self._pieces
        if self._values is not None:
            values = self._values
            first = DictionaryColumn(values) if self._coded else FixedColumn(values, self._valid)
            pieces = [first, *pieces]
        return concat(pieces) if pieces else empty_column(self._type)

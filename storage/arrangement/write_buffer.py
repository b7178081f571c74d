"""The write buffer of an arrangement: up to 256 newest rows, shared by its versions.

Invariant: a write buffer only grows, and a version of an arrangement sees its first n rows, so
older versions stay readable while newer ones append. Appending to a version that is not the newest
(after a step was rolled back) makes a copy. One writer at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import find_in_probes
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn, Indexes
from ivm.storage.values.dictionary import words
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights, ZSet

TAIL_ROWS = 256


def has_room(rows: int) -> bool:
    """Returns whether a write buffer can hold so many rows."""
    return rows <= TAIL_ROWS


class FixedBuffer:
    """Fixed-width values; the mask exists from the first NULL on."""

    __slots__ = ("valid", "values")

    def __init__(self, type: ColumnType) -> None:
        assert type.dtype is not None
        self.values = np.empty(TAIL_ROWS, type.dtype)
        self.valid: npt.NDArray[np.bool_] | None = None

    def append(self, start: int, stop: int, column: Column) -> None:
        assert isinstance(column, FixedColumn)
        self.values[start:stop] = column.values
        if column.valid is not None:
            if self.valid is None:
                self.valid = np.ones(TAIL_ROWS, np.bool_)
            self.valid[start:stop] = column.valid

    def cell(self, row: int) -> Any:
        if self.valid is not None and not self.valid[row]:
            return None
        return self.values.item(row)

    def take(self, rows: Indexes) -> Column:
        valid = self.valid
        return FixedColumn(self.values[rows], None if valid is None else valid[rows])


class _TextBuffer:
    """Strings and binaries as Python objects: for so few rows they are the fastest form.

    As long as all strings are dictionary-encoded, their numbers are kept too.
    """

    __slots__ = ("codes", "dictionary_encoded", "type", "values")

    def __init__(self, type: ColumnType) -> None:
        self.type = type.memory
        self.values: list[Any] = []
        self.codes = np.empty(TAIL_ROWS, np.int32)
        self.dictionary_encoded = True

    def append(self, start: int, stop: int, column: Column) -> None:
        assert isinstance(column, ArrowColumn)
        if isinstance(column, DictionaryColumn):
            self.codes[start:stop] = column.codes
            self.values.extend(words(column.codes))
        else:
            self.dictionary_encoded = False
            self.values.extend(column.array.to_pylist())

    def cell(self, row: int) -> Any:
        return self.values[row]

    def take(self, rows: Indexes) -> Column:
        if self.dictionary_encoded:
            return DictionaryColumn(self.codes[rows])
        values = self.values
        return ArrowColumn(pa.array([values[i] for i in rows.tolist()], self.type))


class _PiecesBuffer:
    """Nested values as the arrays they came in."""

    __slots__ = ("pieces",)

    def __init__(self, type: ColumnType) -> None:
        self.pieces: list[pa.Array] = [pa.nulls(0, type.memory)]

    def append(self, start: int, stop: int, column: Column) -> None:
        assert isinstance(column, ArrowColumn)
        self.pieces.append(column.array)

    def cell(self, row: int) -> Any:
        return self.take(np.array([row])).cell(0)

    def take(self, rows: Indexes) -> Column:
        return ArrowColumn(pa.concat_arrays(self.pieces).take(pa.array(rows)))


class WriteBuffer:
    """Newest rows in the order of their arrival, with their search codes and weights."""

    __slots__ = ("codes", "columns", "layout", "used", "weights")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.used = 0
        dtype = layout.key_types[0].dtype if layout.native else np.dtype(np.int64)
        self.codes = np.empty(TAIL_ROWS, dtype)
        self.weights = np.empty(TAIL_ROWS, np.int64)
        self.columns = [_column_buffer(type) for type in layout.types]

    def append(self, seen: int, batch: ZSet, codes: npt.NDArray[Any]) -> WriteBuffer:
        """Appends a batch after the first `seen` rows; there is room for it.

        Returns:
            The buffer to use from now on: this one, or a copy if it has rows after `seen`.
        """
        if self.used != seen:
            every = np.arange(seen)
            copy = WriteBuffer(self.layout).append(0, self.take(every), self.codes[:seen])
            return copy.append(seen, batch, codes)
        stop = seen + len(codes)
        self.codes[seen:stop] = codes
        self.weights[seen:stop] = batch.weights
        for buffer, column in zip(self.columns, batch.columns, strict=True):
            buffer.append(seen, stop, column)
        self.used = stop
        return self

    def find_one(self, code: Any, seen: int) -> Indexes:
        """The rows with a code, among the first `seen`."""
        rows: Indexes = (self.codes[:seen] == code).nonzero()[0]
        return rows

    def find(self, probes: npt.NDArray[Any], seen: int) -> tuple[Indexes, Indexes]:
        """Finds pairs as `Run.find` does, among the first `seen` rows."""
        return find_in_probes(self.codes[:seen], probes)

    def between(self, first: Any, last: Any, seen: int) -> Indexes:
        """The rows with codes from a first to a last one, None for any, among the first `seen`."""
        codes = self.codes[:seen]
        mask = np.ones(seen, np.bool_) if first is None else codes >= first
        rows: Indexes = (mask if last is None else mask & (codes <= last)).nonzero()[0]
        return rows

    def weights_of(self, rows: Indexes) -> Weights:
        """The weights of the rows at the given positions."""
        return self.weights[rows]

    def weight(self, row: int) -> int:
        """The weight of one row."""
        return int(self.weights[row])

    def slice(self, start: int, stop: int) -> ZSet:
        """The rows of a range."""
        return self.take(np.arange(start, stop))

    def take(self, rows: Indexes) -> ZSet:
        """The rows at the given positions."""
        return ZSet(tuple([c.take(rows) for c in self.columns]), self.weights[rows])


def _column_buffer(type: ColumnType) -> FixedBuffer | _TextBuffer | _PiecesBuffer:
    if type.dtype is not None:
        return FixedBuffer(type)
    return _TextBuffer(type) if type.is_bytes else _PiecesBuffer(type)

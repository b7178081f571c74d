"""Growable columns addressed by slot: the keys of a group table.

Law: `take(slots)` returns the values that `put` stored last for the slots. Fixed-width columns are
arrays indexed by slot. Arrow columns cannot be written in place: their values are in chunks of
doubling size, and `_positions` has the position of a slot's value; `compact` drops unused values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat, empty_column
from ivm.storage.values.types import ColumnType


class FixedStore:
    """One fixed-width column by slot."""

    __slots__ = ("_valid", "_values")

    def __init__(self, type: ColumnType) -> None:
        assert type.dtype is not None
        self._values = np.zeros(0, type.dtype)
        self._valid: Mask | None = None

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._valid is None else self._valid.nbytes)

    def put(self, slots: Indexes, column: Column, capacity: int) -> None:
        assert isinstance(column, FixedColumn)
        self._grow(capacity)
        self._values[slots] = column.values
        if column.valid is not None and self._valid is None:
            self._valid = np.ones(capacity, np.bool_)
        if self._valid is not None:
            self._valid[slots] = True if column.valid is None else column.valid

    def _grow(self, capacity: int) -> None:
        old = len(self._values)
        if capacity <= old:
            return
        values = np.zeros(capacity, self._values.dtype)
        values[:old] = self._values
        self._values = values
        if self._valid is not None:
            self._valid = np.concatenate([self._valid, np.ones(capacity - old, np.bool_)])

    def take(self, slots: Indexes) -> FixedColumn:
        return FixedColumn(self._values[slots], None if self._valid is None else self._valid[slots])

    def compact(self, live: Indexes) -> None:
        """Drops nothing: a slot's position is its own."""


class ArrowStore:
    """One Arrow column by slot."""

    __slots__ = ("_chunks", "_positions", "_starts", "_type")

    def __init__(self, type: ColumnType) -> None:
        self._type = type
        self._chunks: list[Column] = []
        self._starts: list[int] = [0]
        self._positions = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self._positions.nbytes + sum(c.nbytes for c in self._chunks)

    def put(self, slots: Indexes, column: Column, capacity: int) -> None:
        if capacity > len(self._positions):
            grown = np.zeros(capacity, np.int64)
            grown[: len(self._positions)] = self._positions
            self._positions = grown
        end = self._starts[-1]
        self._positions[slots] = np.arange(end, end + len(column))
        self._append(column)

    def _append(self, column: Column) -> None:
        """Appends a chunk; sizes at least halve from one to the next, so few are searched."""
        chunks = self._chunks
        chunks.append(column)
        while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]):
            chunks[-2:] = [concat(chunks[-2:])]
        self._starts = [0, *np.cumsum([len(c) for c in chunks]).tolist()]

    def take(self, slots: Indexes) -> Column:
        if not len(slots):
            return empty_column(self._type)
        positions = self._positions[slots]
        if len(self._chunks) == 1:
            return self._chunks[0].take(positions)
        chunk = np.searchsorted(self._starts, positions, side="right") - 1
        first = int(chunk[0])
        if (chunk == first).all():
            return self._chunks[first].take(positions - self._starts[first])
        return self._gather(chunk, positions)

    def _gather(self, chunk: Indexes, positions: Indexes) -> Column:
        order = np.argsort(chunk, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        parts = []
        for number in np.unique(chunk).tolist():
            mine = positions[chunk == number] - self._starts[number]
            parts.append(self._chunks[number].take(mine))
        return concat(parts).take(back)

    def compact(self, live: Indexes) -> None:
        """Keeps the values of the given slots only."""
        kept = self.take(live)
        self._positions[live] = np.arange(len(live))
        self._chunks, self._starts = [kept], [0, len(live)]


class KeyStore:
    """A row of key columns per slot."""

    __slots__ = ("_columns",)

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self._columns = [ArrowStore(t) if t.dtype is None else FixedStore(t) for t in types]

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self._columns)

    def put(self, slots: Indexes, columns: Sequence[Column], capacity: int) -> None:
        """Stores row i of `columns` at slots[i] (distinct, below `capacity`)."""
        for store, column in zip(self._columns, columns, strict=True):
            store.put(slots, column, capacity)

    def take(self, slots: Indexes) -> tuple[Column, ...]:
        return tuple([store.take(slots) for store in self._columns])

    def compact(self, live: Indexes) -> None:
        """Drops the keys of all other slots."""
        for store in self._columns:
            store.compact(live)

"""A Z-set batch: rows with integer weights, the one thing that flows through a circuit.

Law: a Z-set is a function from rows to integers with finite support; batches that agree after
`consolidate` are the same Z-set. Addition is concatenation, negation flips weights.
Batches have columns by position; names and types are kept once, in the plan.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.values.column import (
    Column,
    Indexes,
    Mask,
    column_from_arrow,
    concat,
    dictionary_encoded,
    empty_column,
)
from ivm.storage.values.types import ColumnType, Schema

Weights = npt.NDArray[np.int64]

_FEW = 256
_ONES = np.ones(_FEW, np.int64)
_ONES.setflags(write=False)
_ONE_BYTES = _ONES.tobytes()


def ones(count: int) -> Weights:
    """The weights of `count` rows that are each there once; never to be written to."""
    return _ONES[:count] if count <= _FEW else np.ones(count, np.int64)


def all_ones(weights: Weights) -> bool:
    """Returns whether every weight is 1."""
    count = len(weights)
    if count <= _FEW:  # comparing bytes beats a numpy reduction on few rows
        return weights.tobytes() == _ONE_BYTES[: 8 * count]
    return bool((weights == 1).all())


class ZSet:
    """Columns of equal length and one int64 weight a row (never shared mutably)."""

    __slots__ = ("columns", "weights")

    def __init__(self, columns: tuple[Column, ...], weights: Weights) -> None:
        self.columns = columns
        self.weights = weights

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, indexes: Indexes) -> ZSet:
        """The rows at `indexes` with their weights."""
        return ZSet(tuple([c.take(indexes) for c in self.columns]), self.weights[indexes])

    def filter(self, mask: Mask) -> ZSet:
        """The rows where `mask` is true."""
        if mask.all():
            return self
        return self.take(mask.nonzero()[0])

    def valid(self, positions: Iterable[int]) -> Mask | None:
        """The rows without NULL in the columns at `positions`, as a mask; None for all."""
        masks = [mask for i in positions if (mask := self.columns[i].valid) is not None]
        return functools.reduce(np.logical_and, masks) if masks else None

    def without_nulls(self, positions: Iterable[int]) -> ZSet:
        """The rows without NULL in the columns at `positions`."""
        mask = self.valid(positions)
        return self if mask is None else self.filter(mask)

    def slice(self, start: int, stop: int) -> ZSet:
        return ZSet(tuple([c.slice(start, stop) for c in self.columns]), self.weights[start:stop])

    def project(self, positions: Sequence[int]) -> ZSet:
        """The same rows with only the columns at `positions`."""
        columns = self.columns
        return ZSet(tuple([columns[i] for i in positions]), self.weights)

    def dictionary_encoded(self) -> ZSet:
        """The same rows, with strings that repeat in dictionary encoding."""
        return ZSet(tuple([dictionary_encoded(c) for c in self.columns]), self.weights)

    def one_by_one(self) -> ZSet:
        """Each row as often as its weight, which is positive, says."""
        if all_ones(self.weights):
            return self
        each = self.take(np.arange(len(self)).repeat(self.weights))
        return ZSet(each.columns, ones(len(each)))

    def negate(self) -> ZSet:
        return ZSet(self.columns, -self.weights)

    def to_arrow(self, schema: Schema) -> pa.Table:
        """The columns (without weights) as an Arrow table that DuckDB reads losslessly."""
        arrays = [c.to_arrow(t) for c, (_, t) in zip(self.columns, schema, strict=True)]
        if not any(t.metadata for _, t in schema):
            return pa.Table.from_arrays(arrays, names=[name for name, _ in schema])
        named = zip(arrays, schema, strict=True)
        fields = [pa.field(name, a.type, metadata=t.metadata) for a, (name, t) in named]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    @property
    def nbytes(self) -> int:
        return sum(c.nbytes for c in self.columns) + self.weights.nbytes


def empty(types: Sequence[ColumnType]) -> ZSet:
    """The zero Z-set over columns of `types`."""
    return ZSet(tuple([empty_column(t) for t in types]), np.zeros(0, np.int64))


def add(batches: Sequence[ZSet]) -> ZSet:
    """The sum of the batches (at least one), not consolidated."""
    if len(batches) == 1:
        return batches[0]
    columns = tuple([concat(parts) for parts in zip(*[b.columns for b in batches], strict=True)])
    return ZSet(columns, np.concatenate([b.weights for b in batches]))


def from_arrow(
    table: pa.Table | pa.RecordBatch, schema: Schema, weights: Weights | None = None
) -> ZSet:
    """A Z-set of an Arrow table's rows, by position.

    Args:
        table: its columns are those of `schema`, in that order, values already of those types.
        schema: names (not read) and types.
        weights: int64[n]; all ones when left out.
    """
    if weights is None:
        weights = np.ones(table.num_rows, np.int64)
    arrays = zip(table.columns, schema, strict=True)
    return ZSet(tuple([column_from_arrow(a, t) for a, (_, t) in arrays]), weights)

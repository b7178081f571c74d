"""The order in which rows of a table that refers to itself are inserted.

Law: DuckDB looks for the row that another one refers to before the whole INSERT, so a row is
inserted after the one that it refers to, by a statement of its own for each level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ivm.storage.values.column import Column, Indexes, concat
from ivm.storage.values.consolidate import group
from ivm.storage.values.types import ColumnType


def levels(
    referring: Sequence[Column], key: Sequence[Column], types: Sequence[ColumnType]
) -> Iterator[Indexes]:
    """The rows of each level, those first that refer to none of the others.

    Args:
        referring: the columns that refer to a key, NULL where they do not.
        key: the columns that they refer to, in the same order.
        types: of both.
    """
    parents = _parents(referring, key, types)
    done = parents < 0
    yield done.nonzero()[0]
    while not done.all():
        ready = ~done & done[parents]
        if not ready.any():  # a circle: DuckDB refuses it
            ready = ~done
        yield ready.nonzero()[0]
        done |= ready


def _parents(
    referring: Sequence[Column], key: Sequence[Column], types: Sequence[ColumnType]
) -> Indexes:
    """The row that each row refers to; -1 if it is not among them."""
    count = len(key[0])
    numbers = group([concat(pair) for pair in zip(key, referring, strict=True)], types)
    row = np.full(len(numbers.first), -1)
    row[numbers.inverse[:count]] = np.arange(count)
    parents = row[numbers.inverse[count:]]
    for column in referring:
        if column.valid is not None:
            parents = np.where(column.valid, parents, -1)
    return parents

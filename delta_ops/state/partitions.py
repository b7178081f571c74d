"""Rows arranged by a partition, which may be the whole input.

Law: `changed` holds each partition that a delta touches once. Without partition columns there is
one partition: a constant column stands in for its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ivm.delta_ops.state.versions import Versions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values import consolidate
from ivm.storage.values.column import Column, FixedColumn, Indexes
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet


class Partitions(Versions[Arrangement]):
    """Staged arrangement of an input by its partition columns.

    Args:
        types: the input's types.
        partition: positions of the partition columns; none for a single partition.
        order: the order within a partition.

    Attributes:
        layout: of the arrangement.
    """

    def __init__(
        self,
        types: Sequence[ColumnType],
        partition: Sequence[int],
        order: Sequence[OrderKey] = (),
    ) -> None:
        self._width = len(types)
        self._single = not partition
        key = tuple(partition) or (len(types),)
        all_types = (*types, type_of("BOOLEAN")) if self._single else tuple(types)
        self.layout = Layout(all_types, key, tuple(order))
        super().__init__(Arrangement.empty(self.layout))

    def keyed(self, rows: ZSet) -> ZSet:
        """Rows of the input as rows of the arrangement."""
        if not self._single:
            return rows
        return ZSet((*rows.columns, FixedColumn(np.zeros(len(rows), np.bool_))), rows.weights)

    def stage(self, delta: ZSet) -> None:
        self.append(self.keyed(delta))

    def changed(self, delta: ZSet) -> tuple[tuple[Column, ...], Indexes]:
        """The keys of the delta's partitions, each once, and the number of each row's."""
        columns = self.layout.key_columns(self.keyed(delta).columns)
        if len(delta.weights) == 1:
            return columns, np.zeros(1, np.int64)
        first, inverse = consolidate.group(columns, self.layout.key_types)
        return tuple([c.take(first) for c in columns]), inverse

    def plain(self, rows: ZSet) -> ZSet:
        """Rows of the arrangement as rows of the input."""
        return rows.project(range(self._width)) if self._single else rows

    def build(self, chunks: Iterable[ZSet]) -> None:
        self.reset(Arrangement.build(self.layout, self._all_keyed(chunks)))

    def _all_keyed(self, chunks: Iterable[ZSet]) -> Iterator[ZSet]:
        for chunk in chunks:
            yield self.keyed(chunk)

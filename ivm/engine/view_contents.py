"""The rows of a view in memory: all of them as a Z-set, or arranged by a key.

Law: the content of a view at an epoch = its rows as loaded at an earlier epoch + its deltas since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ivm.delta_ops.state.group_table import GroupTable
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values.column import Column
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, all_ones, ones

_BEHIND = 4096
"""Changed rows that may wait for a reader, however few rows a view has."""


class Content:
    """The rows of one view, and the deltas that wait to be added when they are read.

    Attributes:
        epoch: of the rows as loaded; -1 until they are.
        count: rows at the last reading.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self.count = 0
        self._waiting: list[tuple[int, ZSet]] = []
        self._behind = 0

    def load(self, epoch: int, count: int, chunks: Iterable[ZSet]) -> None:
        """Takes the rows of an epoch; `wait` may be called meanwhile."""
        self._build(chunks)
        self.count, self.epoch = count, epoch

    def wait(self, epoch: int, delta: ZSet) -> bool:
        """Takes the delta of an epoch; False if so many wait that loading anew is cheaper."""
        self._waiting.append((epoch, delta))
        self._behind += len(delta)
        return self.epoch < 0 or self._behind <= max(_BEHIND, self.count)

    def take(self) -> list[ZSet]:
        """The deltas that wait, for `add`; none wait afterwards."""
        taken, self._waiting, self._behind = self._waiting, [], 0
        return [delta for epoch, delta in taken if epoch > self.epoch]

    def add(self, deltas: Sequence[ZSet]) -> None:
        """Adds deltas to the rows."""
        raise NotImplementedError

    def _build(self, chunks: Iterable[ZSet]) -> None:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        raise NotImplementedError


class WholeContent(Content):
    """All rows as a Z-set, in an order of no meaning.

    Args:
        schema: of the view.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self._table = GroupTable([type for _, type in schema], exact_rows=True)
        self._rows: ZSet | None = None

    def _build(self, chunks: Iterable[ZSet]) -> None:
        for chunk in chunks:
            self._add(chunk)

    def add(self, deltas: Sequence[ZSet]) -> None:
        if deltas:
            self._add(add(deltas))
            self.count = len(self._table.live())

    def _add(self, delta: ZSet) -> None:
        touched, groups = self._table.locate(delta.columns, len(delta))
        self._table.accumulate(0, touched[groups], delta.weights)
        self._rows = None

    def rows(self) -> ZSet:
        """All rows, equal ones side by side, each with weight 1."""
        if self._rows is None:
            slots = self._table.live()
            weights = self._table.read(slots)[:, 0]
            if not all_ones(weights):
                slots = slots.repeat(weights)
            self._rows = ZSet(self._table.keys(slots), ones(len(slots)))
        return self._rows

    @property
    def nbytes(self) -> int:
        return self._table.nbytes


class KeyedContent(Content):
    """All rows, arranged by a key.

    Args:
        schema: of the view.
        key: positions of the key's columns.
    """

    def __init__(self, schema: Schema, key: tuple[int, ...]) -> None:
        super().__init__()
        self.rows = Arrangement.empty(Layout(tuple([type for _, type in schema]), key))

    def _build(self, chunks: Iterable[ZSet]) -> None:
        self.rows = Arrangement.build(self.rows.layout, chunks)

    def add(self, deltas: Sequence[ZSet]) -> None:
        rows = self.rows
        for delta in deltas:
            rows = rows.append(delta)
        self.rows = rows

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


def under(rows: Arrangement, key: Sequence[Column]) -> ZSet:
    """The rows under one key, equal ones side by side, each with weight 1."""
    found = rows.lookup_live(key).rows
    if all_ones(found.weights):
        return found
    once = found.take(np.arange(len(found)).repeat(found.weights))
    return ZSet(once.columns, ones(len(once)))

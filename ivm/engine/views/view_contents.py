"""The rows of a view in memory: all of them as a Z-set, or arranged by a key.

Law: the content of a view at an epoch = its rows as loaded at an earlier epoch + its deltas since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ivm.engine.views.net_rows import MOST_ROWS, latest
from ivm.engine.views.patched_rows import encoded, replaced
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.errors import InternalError
from ivm.storage.values.column import Column
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, empty

_FEW = 16
"""Changed rows that are each searched among all; the sum of all rows costs more than that."""
_EACH = 2
"""Deltas that are each added to few rows; of more the sum of all costs less."""
_ENCODED = 1024
"""Rows whose strings are all dictionary-encoded, so that they are replaced as numbers."""
MOST_FOUND = 20_000
"""Rows of a range: of more, DuckDB reads what a query wants in less time."""
_BEHIND = 4096
"""Changed rows that may wait for a reader, however few rows a view has."""


class Content:
    """The rows of one view, and the deltas that wait to be added when they are read.

    Attributes:
        epoch: of the rows as loaded; -1 until they are.
        count: rows at the last reading.
        turn: the number of the last reading, among all of all contents.
    """

    def __init__(self) -> None:
        self.epoch = -1
        self.count = self.turn = 0
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
    """All rows in an order of no meaning, equal ones side by side, each with weight 1.

    Args:
        schema: of the view.
        key: positions of columns that are unique in the view; None if nothing is known.
    """

    def __init__(self, schema: Schema, key: tuple[int, ...] | None) -> None:
        super().__init__()
        self._types = tuple([type for _, type in schema])
        self._key = tuple(range(len(schema))) if key is None else key
        self.rows = empty(self._types)

    def _build(self, chunks: Iterable[ZSet]) -> None:
        self.rows = self._sum([self.rows, *chunks])

    def add(self, deltas: Sequence[ZSet]) -> None:
        if not deltas:
            return
        rows = self._replaced(deltas)
        if rows is None:
            rows = self._sum([self.rows, *deltas])
        self.rows, self.count = rows, len(rows)

    def _replaced(self, deltas: Sequence[ZSet]) -> ZSet | None:
        """The rows after deltas that are added one by one; None if the sum costs less."""
        if len(deltas) > _EACH and len(self.rows) < MOST_ROWS:
            return None
        if sum([len(delta.weights) for delta in deltas]) > _FEW:
            return None
        rows: ZSet | None = self.rows
        for delta in deltas:
            rows = None if rows is None else replaced(rows, delta, self._key, self._types)
        return rows

    def _sum(self, batches: Sequence[ZSet]) -> ZSet:
        rows = latest(batches, self._key, self._types)
        if rows is not None:
            return encoded(rows)
        net = consolidate(add(batches), self._types)
        if len(net) and net.weights.min() < 0:
            raise InternalError("a delta removes rows that its view has not; please report this")
        rows = net.one_by_one()
        return encoded(rows) if len(rows) <= _ENCODED else rows

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


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
    return rows.lookup_live(key).rows.one_by_one()


def between(rows: Arrangement, low: Column | None, high: Column | None) -> ZSet | None:
    """The rows with a key in a range, as `under`, and perhaps others; None if they are many."""
    found = rows.between(low, high, MOST_FOUND)
    return None if found is None else found.one_by_one()

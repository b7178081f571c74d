"""The rows of views in memory, by which queries are answered without DuckDB.

Law: the content of a view at an epoch = its rows as loaded at an earlier epoch + its deltas since.
Contract: `HeldViews.at_one_epoch` gives all views that are asked for at the epoch of the last
commit. A commit only passes on its deltas, and waits for no reader: readers add them up. Rows that
nobody reads while as many rows change as are held are dropped, and loaded again when asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping

from ivm.delta_ops.state.group_table import GroupTable
from ivm.engine.stored_tables import StoredTables
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, all_ones, ones

MOST_ROWS = 20_000
"""Rows of a view that is held whole: of more, DuckDB reads what a query wants in less time."""
_LEAST_BEHIND = 4096
"""Changed rows that may wait for a reader, however few rows a view has."""


class ViewContent:
    """The rows of one view as a Z-set that takes deltas, in an order of no meaning.

    Args:
        schema: of the view.
    """

    def __init__(self, schema: Schema) -> None:
        self._table = GroupTable([type for _, type in schema], exact_rows=True)
        self._rows: ZSet | None = None

    def add(self, delta: ZSet) -> None:
        """Adds rows with their weights."""
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
        """Bytes of the rows held."""
        return self._table.nbytes


class _Held:
    """A view's content, and the deltas that it has not taken yet."""

    def __init__(self, schema: Schema) -> None:
        self.content = ViewContent(schema)
        self.base = -1  # the epoch of the rows as loaded
        self.count = 0  # rows at the last reading
        self.waiting: list[tuple[int, ZSet]] = []
        self.behind = 0

    def take(self) -> list[ZSet]:
        """The deltas that are to be added to the content."""
        taken, self.waiting, self.behind = self.waiting, [], 0
        return [delta for epoch, delta in taken if epoch > self.base]

    def rows(self, deltas: list[ZSet]) -> ZSet:
        """The rows after the deltas."""
        if deltas:
            self.content.add(add(deltas))
        rows = self.content.rows()
        self.count = len(rows)
        return rows


class HeldViews:
    """The contents of views that are held; for one writer and any number of readers.

    Args:
        tables: the views as stored, and their pending deltas.
        meaning: equal as long as names mean the same views with the same columns; None while that
            changes.

    Attributes:
        publishing: held by a commit while its deltas become visible, here and for flushes.
    """

    def __init__(self, tables: StoredTables, meaning: Callable[[], Hashable]) -> None:
        self._tables = tables
        self._meaning = meaning
        self.publishing = threading.Lock()
        self._adding = threading.RLock()  # of readers; acquired before `publishing`
        self._held: dict[str, _Held] = {}
        self._valid: Hashable = None

    # -- the writer's side ----------------------------------------------------------------------

    def follow(self, epoch: int, deltas: Mapping[str, ZSet]) -> None:
        """Takes the deltas of one epoch; the caller holds `publishing`."""
        for name in self._held.keys() & deltas.keys():
            held = self._held[name]
            held.waiting.append((epoch, deltas[name]))
            held.behind += len(deltas[name])
            if held.behind > max(_LEAST_BEHIND, held.count) and held.base >= 0:
                del self._held[name]

    def forget(self, names: Collection[str] | None = None) -> None:
        """Drops contents, default all: their tables are written otherwise than by deltas."""
        with self.publishing:
            for name in list(self._held if names is None else names):
                self._held.pop(name, None)

    # -- the readers' side ----------------------------------------------------------------------

    def at_one_epoch(self, names: Collection[str], meaning: Hashable) -> dict[str, ZSet] | None:
        """The rows of views at the epoch of the last commit, each row with weight 1.

        Args:
            names: of incremental views that are not broken.
            meaning: under which they were found.

        Returns:
            None if a view has too many rows, or the names have another meaning by now.

        Raises:
            UnavailableError: that commit cannot be made durable, or memory differs from the log.
        """
        log = self._tables.log
        with self._adding:
            self._keep_only(meaning)
            if not all(name in self._held or self._load(name) for name in names):
                return None
            with self.publishing:
                log.demand_readable()
                held = [each for name in names if (each := self._held.get(name)) is not None]
                if len(held) < len(names) or meaning != self._meaning():
                    return None
                taken = [each.take() for each in held]
                epoch = self._tables.pending.epoch
            try:
                rows = [each.rows(deltas) for each, deltas in zip(held, taken, strict=True)]
            except BaseException:
                self.forget(names)  # deltas that were taken may not be added
                raise
        if any(each.count > 2 * MOST_ROWS for each in held):
            return None
        log.sync(epoch)  # nothing is shown that a crash could undo
        return dict(zip(names, rows, strict=True))

    def _keep_only(self, meaning: Hashable) -> None:
        if meaning != self._valid:
            self.forget()
            self._valid = meaning

    def _load(self, name: str) -> bool:
        """Loads a view's rows; False if it has too many."""
        held = _Held(self._tables.catalog.views[name].schema)
        with self.publishing:
            self._held[name] = held  # from here on it gets the deltas
        try:
            with self._tables.as_of_an_epoch(name) as (epoch, count, chunks):
                if count > MOST_ROWS:
                    self.forget([name])
                    return False
                for chunk in chunks:
                    held.content.add(chunk)
            held.base, held.count = epoch, count
        except BaseException:
            self.forget([name])
            raise
        return True

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes of the views that are held, by name."""
        with self._adding:
            return {n: (held.count, held.content.nbytes) for n, held in list(self._held.items())}

"""An arrangement: an immutable spine of runs and a write buffer, indexed by a key.

Law: an arrangement is the sum of the batches appended to it; append(d).lookup(k) = lookup(k) + the
rows of d under k. Versions stand side by side: appending never changes the rows of an older one.
Runs grow geometrically toward the oldest, and merges change the speed alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ivm.storage.arrangement.bloom import Bloom, asked, grown
from ivm.storage.arrangement.bound import Bound
from ivm.storage.arrangement.build import build_run
from ivm.storage.arrangement.builder import RunBuilder
from ivm.storage.arrangement.cancelled import known_in
from ivm.storage.arrangement.first_rows import first_rows
from ivm.storage.arrangement.late_run import new_run
from ivm.storage.arrangement.latest import (
    Piece,
    Pieces,
    last_of_each,
    latest_of_one,
    latest_rows,
    without_replaced,
)
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.nth_value import Ranks, select
from ivm.storage.arrangement.run import Run
from ivm.storage.arrangement.run_cursors import RunSource
from ivm.storage.arrangement.spine import Spine, adopt, grow
from ivm.storage.arrangement.write_buffer import WriteBuffer, has_room
from ivm.storage.errors import InternalError
from ivm.storage.values import thresholds
from ivm.storage.values.canonical import row_tuples
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, null_column
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.equality import repeats_itself
from ivm.storage.values.key_codes import KeyCodes, same_key
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, add, all_ones

__all__ = ["ENTRIES", "Arrangement", "Layout", "Matches", "OrderKey"]


ENTRIES = 4
"""Entries looked at for a row wanted: one that has changed has several, until runs are merged."""


class Matches(NamedTuple):
    """Rows found for a batch of keys.

    Attributes:
        probe: int64[m], the position of the key that each row was found for.
        rows: m rows with all columns of the layout, and their weights.
    """

    probe: Indexes
    rows: ZSet


class Arrangement:
    """Rows indexed by a key; every method leaves it as it is."""

    __slots__ = ("_bloom", "_buffer", "_seen", "_sorted_buffer", "_spine", "layout")

    def __init__(
        self,
        layout: Layout,
        spine: Spine,
        buffer: WriteBuffer,
        seen: int,
        bloom: Bloom | None = None,
    ) -> None:
        self.layout = layout
        self._spine = spine
        self._buffer = buffer
        self._seen = seen  # rows of the write buffer that belong to this version
        self._sorted_buffer: Run | None = None
        self._bloom = bloom  # of the short runs, where many rows were appended at once

    def __getstate__(self) -> tuple[Layout, tuple[Run, ...], ZSet]:
        return self.layout, self.runs, self._buffer.take(np.arange(self._seen))

    def __setstate__(self, state: tuple[Layout, tuple[Run, ...], ZSet]) -> None:
        layout, runs, newest = state
        buffer = WriteBuffer(layout)
        if len(newest):
            buffer.append(0, newest, layout.search_codes(layout.key_columns(newest.columns)))
        self.__init__(layout, Spine(runs), buffer, len(newest))  # type: ignore[misc]

    @staticmethod
    def empty(layout: Layout) -> Arrangement:
        """The arrangement of no rows."""
        return Arrangement(layout, Spine(), WriteBuffer(layout), 0)

    @staticmethod
    def build(layout: Layout, batches: Iterable[ZSet]) -> Arrangement:
        """The arrangement of the batches' sum, in one run; see `RunBuilder`."""
        builder = RunBuilder(layout)
        for batch in batches:
            builder.add(batch)
        return Arrangement.of(layout, builder.run())

    @staticmethod
    def of(layout: Layout, run: Run) -> Arrangement:
        """The arrangement of a run's rows."""
        return Arrangement(layout, Spine((run,) if len(run) else ()), WriteBuffer(layout), 0)

    def with_nulls(self, types: Sequence[ColumnType]) -> Arrangement:
        """The arrangement of the same rows with further columns of NULLs; it shares their memory.

        The layout has no order.
        """
        layout = replace(self.layout, types=(*self.layout.types, *types))
        runs = tuple([run.with_columns(_nulls(types, len(run))) for run in self.runs])
        newest = self._buffer.take(np.arange(self._seen))
        wide = ZSet((*newest.columns, *_nulls(types, len(newest))), newest.weights)
        return Arrangement(layout, Spine(runs), WriteBuffer(layout), 0, self._bloom).append(wide)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, oldest and largest first; the write buffer is not among them."""
        return self._spine.runs

    @property
    def sorted_runs(self) -> tuple[Run, ...]:
        """The runs, and the rows of the write buffer as one more run; none is empty."""
        if not self._seen:
            return self.runs
        if self._sorted_buffer is None:
            self._sorted_buffer = build_run(self.layout, self._buffer.take(np.arange(self._seen)))
        return (*self.runs, self._sorted_buffer) if len(self._sorted_buffer) else self.runs

    @property
    def row_count(self) -> int:
        """Entries held, those that cancel each other in different runs included."""
        return sum(len(run) for run in self.runs) + self._seen

    @property
    def nbytes(self) -> int:
        """Bytes of the entries held."""
        newest = self._buffer.take(np.arange(self._seen))
        return sum(run.nbytes for run in self.runs) + newest.nbytes

    def batches(self, most: int = sys.maxsize) -> Iterator[ZSet]:
        """All entries, run by run; rows may come in several that cancel each other.

        Args:
            most: rows of a run in one batch.
        """
        for run in self.runs:
            for start in range(0, len(run), most):
                yield run.slice(start, min(start + most, len(run)))
        yield self._buffer.take(np.arange(self._seen))

    def append(self, delta: ZSet) -> Arrangement:
        """The arrangement with a delta (columns of the layout, any weights) added."""
        count = len(delta)
        if count == 0:
            return self
        layout, seen = self.layout, self._seen
        spine = self._spine
        if spine.merges:
            spine = adopt(spine)
        if has_room(seen + count):
            codes = layout.search_codes(layout.key_columns(delta.columns))
            buffer = self._buffer.append(seen, delta, codes)
            return Arrangement(layout, spine, buffer, seen + count, self._bloom)
        if seen:
            delta = add([self._buffer.take(np.arange(seen)), delta])
        run = new_run(layout, delta)
        bloom = grown(self._bloom, spine.runs, run)
        return Arrangement(layout, grow(layout, spine, run), WriteBuffer(layout), 0, bloom)

    def lookup(self, keys: Sequence[Column], codes: KeyCodes | None = None) -> Matches:
        """All entries whose key equals (grouping equality, NULL = NULL) one of the keys.

        Args:
            keys: the key's columns, of the key's types; a key may stand in it several times.
            codes: `key_codes(keys, types)` if already known.

        Returns:
            Entries in no promised order; a row may come in several entries, also with weights
            that cancel each other.
        """
        many = len(keys[0]) >= thresholds.HALVED_KEYS and codes is None
        if many and repeats_itself(keys, self.layout.key_types):
            return self._lookup_twice(keys)
        probes = self.layout.search_codes(keys, codes)
        pieces = self._find_one(probes[0]) if len(probes) == 1 else self._find(probes)
        return self.verified(keys, self._joined(pieces)) if pieces else self._joined(pieces)

    def _lookup_twice(self, keys: Sequence[Column]) -> Matches:
        """The entries for keys whose second half is the first one again."""
        half = len(keys[0]) // 2
        probe, rows = self.lookup([key.slice(0, half) for key in keys])
        return Matches(np.concatenate([probe, probe + half]), add([rows, rows]))

    def lookup_live(self, keys: Sequence[Column], codes: KeyCodes | None = None) -> Matches:
        """The rows under the keys whose net weight is positive.

        Returns:
            As `lookup`, with cancelled rows left out and positive weights; rows are merged
            only where some weight was not positive, so equal rows may stand side by side.
        """
        return self.live(self.lookup(keys, codes), len(keys[0]))

    def live(self, found: Matches, count: int) -> Matches:
        """The rows found for `count` keys whose net weight is positive, as `lookup_live` does."""
        probe, rows = found
        if all_ones(rows.weights):
            return found
        doubt = np.zeros(count, np.bool_)
        doubt[probe[rows.weights <= 0]] = True
        sure = ~doubt[probe]
        live = ZSet((FixedColumn(probe), *rows.columns), rows.weights)
        apart = live.filter(~sure) if sure.any() else live
        net = consolidate(apart, (type_of("BIGINT"), *self.layout.types))
        net = net.filter(net.weights > 0)
        live = add([live.filter(sure), net]) if sure.any() else net
        return Matches(live.columns[0].values, ZSet(live.columns[1:], live.weights))  # type: ignore[union-attr]

    def between(self, low: Column | None, high: Column | None, most: int) -> ZSet | None:
        """The live rows whose key, one column of an ordered type, lies between two values.

        Args:
            low: the least value, of one row; None for no bound.
            high: the greatest value.
            most: rows wanted.

        Returns:
            The rows with positive weights, and perhaps some whose key is NULL; None if there are
            more, or many more entries.
        """
        first, last = self._code(low), self._code(high)
        pieces, seen = list[Piece](), self._seen
        for run in self.runs:
            start = 0 if first is None else int(run.codes.searchsorted(first))
            stop = len(run) if last is None else int(run.codes.searchsorted(last, "right"))
            if stop > start:
                pieces.append(Piece(run.codes[start:stop], run.slice(start, stop)))
        if seen:
            rows = self._buffer.between(first, last, seen)
            pieces.append(Piece(self._buffer.codes[rows], self._buffer.take(rows)))
        if self.layout.unique:
            pieces = without_replaced(pieces)
        if sum([len(piece.rows) for piece in pieces]) > ENTRIES * most:
            return None
        live = self._live(pieces)
        return live if len(live) <= most else None

    def _live(self, pieces: Sequence[Piece]) -> ZSet:
        """The live rows of entries, oldest first."""
        if not pieces:
            return self.layout.zero
        if self.layout.unique:
            return last_of_each(pieces)
        entries = add([piece.rows for piece in pieces])
        if all_ones(entries.weights):
            return entries
        net = consolidate(entries, self.layout.types)
        return net.filter(net.weights > 0)

    def _code(self, bound: Column | None) -> Any:
        return None if bound is None else self.layout.search_codes([bound])[0]

    def latest(self, keys: Sequence[Column], codes: KeyCodes | None = None) -> Matches:
        """The live row under each key of a `unique` layout.

        Returns:
            As `lookup_live`.
        """
        found = self.last_entries(keys, codes)
        live = found.rows.weights > 0
        return found if live.all() else Matches(found.probe[live], found.rows.filter(live))

    def last_entries(self, keys: Sequence[Column], codes: KeyCodes | None = None) -> Matches:
        """The last entry under each key of a `unique` layout.

        Its weight is negative where it takes the key's row out.
        """
        exact = self.layout.exact
        if exact and keys[0].valid is not None:
            return self._last_of_all(keys, codes)
        probes = self.layout.search_codes(keys, codes)
        if len(probes) == 1:
            pieces = latest_of_one(self._source, probes[0])
        else:
            runs = asked(self._spine.runs, probes, self._bloom)
            pieces = latest_rows(self._source, probes, runs)
        found = self._joined(pieces)
        if exact or len(self.verified(keys, found).probe) == len(found.probe):
            return found
        return self._last_of_all(keys, codes)  # two keys have one hash

    def _last_of_all(self, keys: Sequence[Column], codes: KeyCodes | None) -> Matches:
        """The same by all entries under the codes, those of equal keys apart from others."""
        pieces = self._find(self.layout.search_codes(keys, codes))
        probe, rows = self.verified(keys, self._joined(pieces))
        last = np.full(len(keys[0]), -1, np.int64)
        last[probe] = np.arange(len(probe))  # numpy keeps the last of repeated indexes
        found = (last >= 0).nonzero()[0]
        return Matches(found, rows.take(last[found]))

    def first(
        self,
        keys: Sequence[Column],
        k: int,
        codes: KeyCodes | None = None,
        bound: Bound | None = None,
        wanted: Sequence[int] | None = None,
        *,
        backwards: bool = False,
    ) -> Matches:
        """The first k live rows (each as often as it weighs) under every key.

        The order is the layout's, then all columns ascending with NULLS LAST, then their bits.

        Args:
            keys: the key's columns.
            k: rows wanted per key, at least 1.
            codes: `key_codes(keys, types)` if already known.
            bound: of each key the value from which on its rows are read.
            wanted: positions of the columns that the rows found are to have; None for all.
            backwards: the order is the opposite one.

        Returns:
            Rows by probe and then in the order; the weights under a probe sum to at most k (the
            last row's is cut).
        """
        if not self.layout.order:
            raise InternalError(
                "The first rows were asked of an arrangement that keeps no order. "
                "Please report this with the statement that led to it."
            )
        parts = self.layout, self.runs, self._buffer, self._seen
        source = RunSource(*parts, backwards, known_in(self.runs), bound, wanted)
        return Matches(*first_rows(source, keys, k, codes))

    def size(self, keys: Sequence[Column]) -> int:
        """Entries under the keys (exact ones), those that cancel each other included; at least."""
        probes = self.layout.search_codes(keys)
        found = [run.find_ranges(probes) for run in self.runs]
        return sum(int((stops - starts).sum()) for _, starts, stops in found)

    def select(self, code: Any, column: int, ranks: Ranks) -> tuple[list[Any], int]:
        """The column's values of some ranks under a key, and the number of rows; see `select`."""
        return select(self._source, code, column, ranks)

    @property
    def _source(self) -> RunSource:
        return RunSource(self.layout, self._spine.runs, self._buffer, self._seen)

    def _joined(self, pieces: Pieces) -> Matches:
        if not pieces:
            return Matches(np.zeros(0, np.int64), self.layout.zero)
        if len(pieces) == 1:
            return Matches(*pieces[0])
        return Matches(np.concatenate([n for n, _ in pieces]), add([rows for _, rows in pieces]))

    def _find_one(self, code: Any) -> Pieces:
        seen = self._seen
        found: list[ZSet] = []
        for run in self._spine.runs:
            start, stop = run.find_one(code)
            if stop > start:
                found.append(run.slice(start, stop))
        if seen:
            rows = self._buffer.find_one(code, seen)
            if len(rows):
                found.append(self._buffer.take(rows))
        return [(np.zeros(len(piece), np.int64), piece) for piece in found]

    def _find(self, probes: Indexes) -> Pieces:
        """All entries; those under a code in the order of their arrival."""
        pieces: Pieces = []
        for run, mine, numbers in asked(self._spine.runs, probes, self._bloom):
            which, rows = run.find(mine)
            if len(rows):
                pieces.append((which if numbers is None else numbers[which], run.take(rows)))
        pieces.reverse()
        if self._seen:
            order = np.argsort(probes)
            which, rows = self._buffer.find(probes[order], self._seen)
            if len(rows):
                pieces.append((order[which], self._buffer.take(rows)))
        return pieces

    def verified(self, keys: Sequence[Column], matches: Matches) -> Matches:
        """The matches whose keys are equal, not only their codes."""
        layout = self.layout
        stored = layout.key_columns(matches.rows.columns)
        if layout.exact and keys[0].valid is None and stored[0].valid is None:
            return matches
        equal = _equal_keys(keys, matches.probe, stored, layout.key_types)
        if equal.all():
            return matches
        return Matches(matches.probe[equal], matches.rows.filter(equal))


def _equal_keys(
    keys: Sequence[Column], probe: Indexes, stored: Sequence[Column], types: Sequence[ColumnType]
) -> Mask:
    """Returns whether key probe[i] equals stored key i."""
    if len(keys[0]) == 1:
        one, many = row_tuples(keys, types, True), row_tuples(stored, types, True)
        if one is not None and many is not None:
            return np.array([key == one[0] for key in many])
    return same_key(keys, probe, stored, np.arange(len(probe)), types)


def _nulls(types: Sequence[ColumnType], count: int) -> tuple[Column, ...]:
    return tuple([null_column(type, count) for type in types])

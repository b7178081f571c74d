"""The rows of an ordered arrangement that meet the rows of a delta by comparisons.

Law: the rows under a key are in the order of one column. Comparisons of that column bound a range
of rows, found by binary search; one more comparison, of another column, is searched in the range by
a max tree of that column's greatest (or least) values; any others, or all if there is no order, are
tested on the rows found. A row with a NULL among its compared values meets none, unless that side
is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ivm.storage.arrangement.arrangement import Arrangement, Matches
from ivm.storage.arrangement.run import Run
from ivm.storage.values.column import AnyCodes, Column, FixedColumn, Indexes
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.ordering.compare_rows import compare_rows
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.ordering.ranges import expand, first_places, net_ranges, present
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Comparison(NamedTuple):
    """Column `left` of one side, compared with column `right` of the other by ``<``, …

    Attributes:
        open: the side (``left``, ``right``) whose NULL is no bound, so that it meets everything
            (the other column is also in a comparison that is not open); empty where NULL meets
            nothing.
    """

    left: int
    operator: str
    right: int
    open: str = ""

    def mirrored(self) -> Comparison:
        """The same comparison with its sides exchanged."""
        other = {"left": "right", "right": "left"}.get(self.open, "")
        return Comparison(self.right, MIRRORED[self.operator], self.left, other)

    @property
    def is_lower(self) -> bool:
        """Returns whether the left column is bounded from below."""
        return self.operator[0] == ">"

    @property
    def is_strict(self) -> bool:
        return len(self.operator) == 1


def order_column(comparisons: Sequence[Comparison]) -> int:
    """The left column that is bounded from both sides; the first one if there is none.

    A column whose NULL is no bound is left out, because an order has NULL at its end; there is
    always another one.
    """
    closed = [c for c in comparisons if c.open != "left"]
    lower = {c.left for c in closed if c.is_lower}
    both = [c.left for c in closed if not c.is_lower and c.left in lower]
    return both[0] if both else closed[0].left


class RunRanges(NamedTuple):
    """Ranges of entries of a run, none empty: those of a key begin one after the other, or end so.

    Attributes:
        hits: the probing rows, by their positions, for which each was found.
    """

    run: Run
    hits: Indexes
    starts: Indexes
    stops: Indexes

    def __len__(self) -> int:
        """Entries in the ranges, those in several as often."""
        return int((self.stops - self.starts).sum())

    def entries(self, order: Indexes, *, lower: bool) -> tuple[Indexes, ZSet]:
        """The entries in the ranges, each once, for the last probing row that has it.

        Args:
            order: of each probing row a number that rises with its bound.
            lower: the bounds are lower ones, so the greatest is the last; else the least is.
        """
        ranks = np.lexsort((order[self.hits], self.starts if lower else self.stops))
        starts, stops = self.starts[ranks], self.stops[ranks]
        along = stops if lower else starts
        nested = (along[1:] < along[:-1]).any()  # one is in another: of two keys with one code
        which, members = (_once if nested else _apart)(starts, stops, last=lower)
        return self.hits[ranks[which]], self.run.take(members)


class RangeSearch:
    """A search in rows under a key.

    Args:
        types: of the rows searched.
        comparisons: their columns (left) with columns of the probing rows (right).
        needed: columns of the probing rows that the result's reader distinguishes; None for all.
            Matches of probing rows that agree in them may be exchanged, with weights that add up
            to the same.
        ordered: the rows stand in the order of the comparisons' `order_column`.
    """

    def __init__(
        self,
        types: Sequence[ColumnType],
        comparisons: Sequence[Comparison],
        needed: Sequence[int] | None = None,
        *,
        ordered: bool = True,
    ) -> None:
        self._types = tuple(types)
        self._order = order_column(comparisons)
        self._ordered = ordered
        closed = [c for c in comparisons if c.open != "left"]
        bounds = [c for c in closed if ordered and c.left == self._order]
        self._lower = next((c for c in bounds if c.is_lower), None)
        self._upper = next((c for c in bounds if not c.is_lower), None)
        rest = [c for c in comparisons if c not in (self._lower, self._upper)]
        words = [c for c in rest if self._types[c.left].is_word]
        trees = [c for c in words if ordered and c.open != "right"]
        self._by_tree = trees[0] if trees else None
        self._checks = [c for c in rest if c is not self._by_tree]
        self._probed = sorted({c.right for c in comparisons if c.open != "right"})
        self._needed = None if rest or needed is None else tuple(needed)

    def find(
        self, held: Arrangement, keys: Sequence[Column], probe: ZSet, types: Sequence[ColumnType]
    ) -> Matches:
        """The rows found, weighing as much as they and the rows they were found for together.

        Args:
            held: ordered as this search wants it.
            keys: of the probing rows; none if all rows held are under one key.
            probe: the probing rows.
            types: of the probing rows.
        """
        if not self._ordered:
            return self._looked_up(held, keys, probe)
        codes: AnyCodes = np.zeros(len(probe), np.bool_)
        if keys:
            codes = held.layout.search_codes(keys)
        group = self._groups(probe, types)
        found: list[Indexes] = []
        pieces: list[ZSet] = []
        for run in held.sorted_runs:
            self._find(run, codes, bool(keys), probe, group, found, pieces)
        if not pieces:
            return Matches(np.zeros(0, np.int64), held.layout.zero)
        matches = Matches(np.concatenate(found), add(pieces))
        matches = held.verified(keys, matches) if keys else matches
        return self._checked(matches, probe) if self._checks else matches

    def ranges(self, held: Arrangement, keys: Sequence[Column], probe: ZSet) -> Iterator[RunRanges]:
        """The ranges of entries found in each run, in which there are some.

        Args:
            held: ordered as this search wants it; the comparisons are all of its order's column.
            keys: as of `find`; a range may hold entries of other keys with the same code.
            probe: as of `find`.
        """
        codes = held.layout.search_codes(keys) if keys else np.zeros(len(probe), np.bool_)
        for run in held.sorted_runs:
            hits, starts, stops = self._ranges_of(run, codes, bool(keys), probe)
            if len(hits):
                yield RunRanges(run, hits, starts, stops)

    def _looked_up(self, held: Arrangement, keys: Sequence[Column], probe: ZSet) -> Matches:
        which, rows = held.lookup(keys)
        weighed = ZSet(rows.columns, rows.weights * probe.weights[which])
        return self._checked(Matches(which, weighed), probe)

    def present(self, probe: ZSet) -> ZSet:
        """The probing rows without NULL in the compared columns."""
        return probe.without_nulls(self._probed)

    def _groups(self, probe: ZSet, types: Sequence[ColumnType]) -> Indexes | None:
        """The first probing row that agrees with each in all needed columns; None: each is its own.

        An update removes and adds rows that agree in the needed columns; their ranges of matches
        overlap, and cancel but for the difference.
        """
        if self._needed is None or len(probe) < 2:
            return None
        if not self._needed:
            return np.zeros(len(probe), np.int64)
        columns = [probe.columns[i] for i in self._needed]
        first, inverse = distinct_rows(columns, [types[i] for i in self._needed])
        return None if len(first) == len(inverse) else first[inverse]

    def _find(
        self,
        run: Run,
        codes: AnyCodes,
        keyed: bool,
        probe: ZSet,
        group: Indexes | None,
        found: list[Indexes],
        pieces: list[ZSet],
    ) -> None:
        """Adds the matches of one run."""
        hits, starts, stops = self._ranges_of(run, codes, keyed, probe)
        weights = probe.weights[hits]
        if group is not None:  # ranges of −old and +new rows cancel but where they differ
            hits, starts, stops, weights = net_ranges(group[hits], starts, stops, weights)
        if len(hits) == 0:
            return
        if self._by_tree is None and len(hits) == 1:  # one range is a slice, without a gather
            rows = run.slice(int(starts[0]), int(stops[0]))
            found.append(hits.repeat(len(rows)))
            pieces.append(ZSet(rows.columns, rows.weights * weights[0]))
            return
        which, members = self._members(run, starts, stops, probe, hits)
        if len(members):
            rows = run.take(members)
            found.append(hits[which])
            pieces.append(ZSet(rows.columns, rows.weights * weights[which]))

    def _ranges_of(
        self, run: Run, codes: AnyCodes, keyed: bool, probe: ZSet
    ) -> tuple[Indexes, Indexes, Indexes]:
        """The probing rows for which the run has a range, and the ranges."""
        if keyed:
            hits, starts, stops = run.find_ranges(codes)
        else:
            hits = np.arange(len(codes))
            starts = np.zeros(len(hits), np.int64)
            stops = starts + len(run)
        if len(hits) == 0:
            return hits, starts, stops
        # Narrow the key's ranges: to the rows without NULL, then by the lower and upper bound.
        column, type = run.columns[self._order], self._types[self._order]
        stops = present(column, type, starts, stops)
        if self._lower is not None:
            wanted = _at(probe, self._lower.right, hits)
            after = self._lower.is_strict
            found = first_places(column, type, starts, stops, wanted, right=after)
            starts = where_valid(wanted, found, starts)
        if self._upper is not None:
            wanted = _at(probe, self._upper.right, hits)
            after = not self._upper.is_strict
            found = first_places(column, type, starts, stops, wanted, right=after)
            stops = where_valid(wanted, found, stops)
        some = (starts < stops).nonzero()[0]
        if len(some) == len(hits):
            return hits, starts, stops
        return hits[some], starts[some], stops[some]

    def _members(
        self, run: Run, starts: Indexes, stops: Indexes, probe: ZSet, hits: Indexes
    ) -> tuple[Indexes, Indexes]:
        by_tree = self._by_tree
        if by_tree is None:
            return expand(starts, stops)
        bounds = _at(probe, by_tree.right, hits)
        assert isinstance(bounds, FixedColumn)
        type, open_ = self._types[by_tree.left], bool(by_tree.open)
        tree = run.max_tree(by_tree.left, type, greatest=by_tree.is_lower, open=open_)
        return tree.find(starts, stops, bounds, strict=by_tree.is_strict)

    def _checked(self, matches: Matches, probe: ZSet) -> Matches:
        every = np.arange(len(matches.probe))
        kept = np.ones(len(every), np.bool_)
        for check in self._checks:
            column, term = matches.rows.columns[check.left], [OrderTerm(0, self._types[check.left])]
            other = probe.columns[check.right]
            # The sign of row against probing row decides; NULL meets only where its side is open.
            signs = compare_rows([column], every, [other], matches.probe, term)
            met = signs > 0 if check.is_lower else signs < 0
            met = met if check.is_strict else met | (signs == 0)
            if column.valid is not None:
                met = met | ~column.valid if check.open == "left" else met & column.valid
            if other.valid is not None:  # only of an open side: others have been left out
                met |= ~other.valid[matches.probe]
            kept &= met
        return Matches(matches.probe[kept], matches.rows.filter(kept))


def _apart(starts: Indexes, stops: Indexes, *, last: bool) -> tuple[Indexes, Indexes]:
    """The members of rising ranges, each once, for the last or the first one that has it.

    The ranges are written to.
    """
    if last:
        stops[:-1] = np.minimum(stops[:-1], starts[1:])
    else:
        starts[1:] = np.maximum(starts[1:], stops[:-1])
    return expand(starts, stops)


def _once(starts: Indexes, stops: Indexes, *, last: bool) -> tuple[Indexes, Indexes]:
    """The same of ranges in any order."""
    which, members = expand(starts, stops)
    if last:
        which, members = which[::-1], members[::-1]
    members, first = np.unique(members, return_index=True)
    return which[first], members


def where_valid(wanted: Column, found: Indexes, otherwise: Indexes) -> Indexes:
    """The position found for a bound; a NULL, which bounds nothing, keeps the other one."""
    return found if wanted.valid is None else np.where(wanted.valid, found, otherwise)


def _at(rows: ZSet, column: int, members: Indexes) -> Column:
    found = rows.columns[column]
    return found if len(members) == len(found) else found.take(members)

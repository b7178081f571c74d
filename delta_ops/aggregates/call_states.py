"""What is kept for the calls of an aggregate, beside the keys and lanes of its groups.

Law: a call's result for a group is a function of the group's lanes, of the extremes of the call's
argument, or of the group's rows in order; each takes a delta without reading other rows. Calls of
one argument share what is kept of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.aggregates.distinct_values import DistinctValues, changes_of_set
from ivm.delta_ops.aggregates.group_rows import GroupRows, Reading, RowsSpec
from ivm.delta_ops.aggregates.lanes.accumulators import Accumulator, Contribution
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec, Argument, ArgumentRows
from ivm.delta_ops.aggregates.lanes.finish import AccumulatorTable, Finish, finisher, is_linear
from ivm.delta_ops.aggregates.min_max import MinMax, make_extremes
from ivm.delta_ops.aggregates.mode_histogram import FromValueCounts
from ivm.delta_ops.aggregates.quantiles import FromRanks
from ivm.delta_ops.aggregates.row_aggregates import Finish as RowsFinish
from ivm.delta_ops.aggregates.row_aggregates import plan_rows
from ivm.delta_ops.aggregates.value_counts import make_rows
from ivm.delta_ops.operator import Staged
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.zset import ZSet


class CallStates:
    """The states of all calls, without rows at first.

    Args:
        calls: the aggregates.
        terms: makes accumulators of lanes.
    """

    def __init__(self, calls: Sequence[AggregateSpec], terms: AccumulatorTable) -> None:
        self._extremes: dict[Argument, _KeptExtremes] = {}
        self._rows: dict[RowsSpec, GroupRows] = {}
        self._finishers = [self._prepare(call, terms) for call in calls]
        self._arguments = [_KeptArgument.of(a, found) for a, found in terms.items()]

    @property
    def parts(self) -> tuple[Staged, ...]:
        """The states, to be committed and rolled back."""
        sets = [kept.set for kept in self._arguments if kept.set is not None]
        return (*sets, *[kept.extremes for kept in self._extremes.values()], *self._rows.values())

    @property
    def in_order(self) -> bool:
        """Returns whether some are kept in order by group: sorted chunks are collected best."""
        return bool(self._extremes or self._rows)

    def accumulators(self) -> Iterator[Accumulator]:
        """The accumulators, in an order that the calls determine."""
        return (term for kept in self._arguments for term in kept.terms)

    def _prepare(
        self, call: AggregateSpec, terms: AccumulatorTable
    ) -> Finish | _OfExtremes | _OfRows:
        """The function or state that computes the call's output."""
        found = None if is_linear(call) else plan_rows(call)
        if found is not None:
            spec, finish = found
            return _OfRows(self._rows.setdefault(spec, make_rows(spec)), finish)
        if call.function not in ("min", "max"):
            return finisher(call, terms)
        assert call.argument_type is not None
        which = _OfExtremes(Argument.of(call), call.function == "max")
        if which.argument not in self._extremes:
            lane = terms.count(which.argument).lane
            kept = _KeptExtremes(make_extremes(call.argument_type), lane)
            self._extremes[which.argument] = kept
        self._extremes[which.argument].extremes.want(which.greatest)
        return which

    # Stepping

    def stage_rows(self, delta: ZSet, slots: Indexes) -> None:
        """Stages a delta's rows, of the groups in these slots, where rows are kept."""
        for state in self._rows.values():
            state.stage(delta, slots)

    def contributing(self, delta: ZSet, touched: Indexes, groups: Indexes) -> list[ArgumentRows]:
        """The rows of every argument; those of DISTINCT ones are the changes of their sets."""
        found = []
        for kept in self._arguments:
            rows = kept.argument.rows(delta, groups)
            found.append(rows if kept.set is None else changes_of_set(kept.set, rows, touched))
        return found

    def contributions(self, rows: list[ArgumentRows]) -> list[Contribution]:
        """The contributions to every accumulator (new lanes are made on the way)."""
        out: list[Contribution] = []
        for kept, of_argument in zip(self._arguments, rows, strict=True):
            for block in of_argument.blocks() if kept.terms else ():
                for term in kept.terms:
                    out += term.contributions(block)
        return out

    def _rows_of(self, argument: Argument, rows: list[ArgumentRows]) -> ArgumentRows:
        pairs = zip(self._arguments, rows, strict=True)
        return next(r for kept, r in pairs if kept.argument == argument)

    def outputs(
        self, rows: list[ArgumentRows], touched: Indexes, old: Indexes, new: Indexes
    ) -> tuple[Column, ...]:
        """The aggregates' columns: first of all touched groups before, then of all after."""
        extremes = {}
        for argument, (kept, lane) in self._extremes.items():
            mine = self._rows_of(argument, rows)
            extremes[argument] = kept.step(mine, touched, old[:, lane], new[:, lane])
        both = np.concatenate([old, new])
        return self._finished(both, extremes, lambda state: state.both(touched))

    def _finished(
        self,
        lanes: Indexes,
        extremes: Mapping[Argument, Mapping[bool, Column]],
        read: Callable[[GroupRows], Reading],
    ) -> tuple[Column, ...]:
        """The aggregates' columns, of lanes, extremes and rows of the same groups."""
        outputs = []
        for finish in self._finishers:
            if isinstance(finish, _OfExtremes):
                outputs.append(extremes[finish.argument][finish.greatest])
            elif isinstance(finish, _OfRows):
                outputs.append(finish.column(read(finish.rows)))
            else:
                outputs.append(finish(lanes))
        return tuple(outputs)

    def current(self, slots: Indexes, lanes: Indexes) -> tuple[Column, ...]:
        """The aggregates' columns for the groups in these slots, as committed."""
        extremes = {
            argument: kept.current(slots, lanes[:, lane])
            for argument, (kept, lane) in self._extremes.items()
        }
        return self._finished(lanes, extremes, lambda state: state.current(slots))

    # Hydrating

    def collect(self, chunk: ZSet, slots: Indexes, rows: list[ArgumentRows]) -> None:
        """Adds a chunk to the sets at once; extremes and rows collect it for `collected`.

        Args:
            chunk: rows of the input.
            slots: their groups.
            rows: what `contributing` gave for it, with slots as groups.
        """
        for state in self._rows.values():
            state.collect(state.entries(chunk, slots))
        for kept in self._arguments:
            if kept.set is not None:
                kept.set.commit()
        for argument, extremes in self._extremes.items():
            extremes.extremes.collect(self._rows_of(argument, rows))

    def collected(self) -> None:
        """Builds the states from what was collected."""
        for kept in self._extremes.values():
            kept.extremes.collected()
        for state in self._rows.values():
            state.collected()


class _KeptArgument(NamedTuple):
    """An argument, its terms, and the sets of its values if it is a DISTINCT one."""

    argument: Argument
    terms: list[Accumulator]
    set: DistinctValues | None

    @staticmethod
    def of(argument: Argument, terms: list[Accumulator]) -> _KeptArgument:
        if not argument.distinct:
            return _KeptArgument(argument, terms, None)
        assert argument.type is not None
        return _KeptArgument(argument, terms, DistinctValues(argument.type))


class _OfRows(NamedTuple):
    """A call's result from the rows of a group."""

    rows: GroupRows
    finish: RowsFinish

    def column(self, reading: Reading) -> Column:
        if isinstance(self.finish, FromRanks | FromValueCounts):
            return self.finish.column(reading)
        return self.finish(reading.grouped)


class _OfExtremes(NamedTuple):
    """A MIN or MAX of an argument."""

    argument: Argument
    greatest: bool


class _KeptExtremes(NamedTuple):
    """An argument's extremes, and the lane that counts its values."""

    extremes: MinMax
    lane: int

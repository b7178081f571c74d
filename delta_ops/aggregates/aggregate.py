"""GROUP BY with aggregate functions.

Law: a group's output row is a function of its lanes (sums over its rows), of the set of its
distinct values and of its first values in order, all of which take a delta without reading other
rows. A step emits −old row and +new row of the groups whose row changed, and nothing of the
others; a group without rows has no output row, except the one group of a scalar aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ivm.delta_ops.aggregates.accumulators import Accumulator, Contribution, added
from ivm.delta_ops.aggregates.call import AggregateSpec, Argument, ArgumentRows
from ivm.delta_ops.aggregates.distinct_values import DistinctValues, changes_of_set
from ivm.delta_ops.aggregates.finish import (
    AccumulatorTable,
    Finish,
    finisher,
    is_checked,
    is_linear,
    rounds,
)
from ivm.delta_ops.aggregates.group_rows import GroupRows, Reading, RowsSpec
from ivm.delta_ops.aggregates.min_max import MinMax, has_extremes, make_extremes
from ivm.delta_ops.aggregates.mode_histogram import FromValueCounts
from ivm.delta_ops.aggregates.quantiles import FromRanks
from ivm.delta_ops.aggregates.row_aggregates import Finish as RowsFinish
from ivm.delta_ops.aggregates.row_aggregates import plan_rows, reads_every_row, reads_whole_groups
from ivm.delta_ops.aggregates.row_changes import changes, differs
from ivm.delta_ops.aggregates.value_counts import make_rows
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.state.group_table import GroupTable
from ivm.delta_ops.state.representatives import Representatives, has_representatives
from ivm.storage.errors import InternalError
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty, ones

_ROWS = Argument(None, None, None, False)
_CHUNK = 1 << 17
_LABELS = 1000  # more than an accumulator has; labels of a partial state are numbered by them
_MINUS_PLUS = np.array([-1, 1])


def supported(call: AggregateSpec) -> bool:
    """Returns whether `Aggregate` can maintain this call; others go to `GroupRecompute`."""
    if call.function in ("min", "max") and not call.parameters:
        return call.argument_type is not None and has_extremes(call.argument_type)
    return is_linear(call) or plan_rows(call) is not None


class Aggregate(Operator):
    """GROUP BY; without keys it is a scalar aggregate, which always has its one row.

    Args:
        inputs: the input's types.
        keys: positions of the grouping columns; they are the first output columns.
        calls: the aggregates, the further output columns; each `supported`.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "the change is added to its groups' accumulators"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        keys: Sequence[int],
        calls: Sequence[AggregateSpec],
    ) -> None:
        super().__init__([*[inputs[i] for i in keys], *[call.output for call in calls]])
        self._keys = tuple(keys)
        self._calls = tuple(calls)
        self._call_types = self.types[len(self._keys) :]
        self._none = empty(self.types)
        key_types = self.types[: len(self._keys)]
        self.reproducible = not (
            has_representatives(key_types) or any(rounds(call) for call in calls)
        )
        self._strict = False
        self._build()

    def _build(self) -> None:
        """Starts from no rows."""
        key_types = self.types[: len(self._keys)]
        self._table = GroupTable(key_types, width=0)
        self._representatives = (
            Representatives(key_types, self._table) if has_representatives(key_types) else None
        )
        terms = AccumulatorTable(self._table.add_lane, strict=self._strict)
        terms.count(_ROWS)  # lane 0
        self._extremes: dict[Argument, _KeptExtremes] = {}
        self._rows: dict[RowsSpec, GroupRows] = {}
        self._finishers = [self._prepare(call, terms) for call in self._calls]
        self._arguments = [_KeptArgument.of(a, found) for a, found in terms.items()]
        sets = [a.set for a in self._arguments if a.set is not None]
        extremes = [kept.extremes for kept in self._extremes.values()]
        representatives = [] if self._representatives is None else [self._representatives]
        self.parts = (
            self._table,
            *representatives,
            *sets,
            *extremes,
            *self._rows.values(),
        )

    def demand_bits(self) -> bool:
        """Starts from no rows, with an error for each average that DuckDB may round otherwise.

        Returns:
            Whether all other results have DuckDB's bits.
        """
        self._strict = True
        self._build()
        key_types = self.types[: len(self._keys)]
        return not has_representatives(key_types) and all(is_checked(c) for c in self._calls)

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

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        table, keys = self._table, [delta.columns[i] for i in self._keys]
        touched, groups = table.locate(keys, len(delta.weights))
        rows = self._contributing(delta, touched, groups)
        for state in self._rows.values():
            state.stage(delta, touched[groups])
        contributions = self._contributions(rows)
        old = table.read(touched)
        new = added(old, contributions)
        table.stage(touched, new)
        outputs = self._outputs(rows, touched, old, new)
        if self._representatives is not None:
            representatives = self._representatives.step(keys, delta.weights, touched, groups)
            if representatives[0] is not representatives[1]:
                shown = tuple([concat(pair) for pair in zip(*representatives, strict=True)])
                return self._difference_of_representatives(old, new, (*shown, *outputs))
        if len(touched) == 1:
            return self._difference_of_one(touched, old, new, outputs)
        return self._difference(touched, old, new, outputs)

    def _contributing(self, delta: ZSet, touched: Indexes, groups: Indexes) -> list[ArgumentRows]:
        """The rows of every argument; those of DISTINCT ones are the changes of their sets."""
        found = []
        for kept in self._arguments:
            rows = kept.argument.rows(delta, groups)
            found.append(rows if kept.set is None else changes_of_set(kept.set, rows, touched))
        return found

    def _contributions(self, rows: list[ArgumentRows]) -> list[Contribution]:
        """The contributions to every accumulator (new lanes are made on the way)."""
        out: list[Contribution] = []
        for kept, of_argument in zip(self._arguments, rows, strict=True):
            for term in kept.terms:
                out += term.contributions(of_argument)
        return out

    def _rows_of(self, argument: Argument, rows: list[ArgumentRows]) -> ArgumentRows:
        pairs = zip(self._arguments, rows, strict=True)
        return next(r for kept, r in pairs if kept.argument == argument)

    def _outputs(
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

    def _difference(
        self, touched: Indexes, old: Indexes, new: Indexes, outputs: tuple[Column, ...]
    ) -> ZSet:
        """The rows −old and +new of the groups whose row changed."""
        was, now = self._present(old), self._present(new)
        picked, weights = changes(was, now, outputs, self._call_types)
        if not len(picked):
            return self._none
        columns = self._table.keys(touched[picked % len(touched)])
        return ZSet((*columns, *[c.take(picked) for c in outputs]), weights)

    def _difference_of_representatives(
        self, old: Indexes, new: Indexes, columns: tuple[Column, ...]
    ) -> ZSet:
        """The difference where the keys' representatives may change too."""
        was, now = self._present(old), self._present(new)
        picked, weights = changes(was, now, columns, self.types)
        return ZSet(tuple([c.take(picked) for c in columns]), weights)

    def _difference_of_one(
        self, touched: Indexes, old: Indexes, new: Indexes, outputs: tuple[Column, ...]
    ) -> ZSet:
        """The difference of one group, without masks: most steps touch one."""
        was, now = (not self._keys or old[0, 0] > 0), (not self._keys or new[0, 0] > 0)
        if was and now:
            if not differs(outputs, self._call_types):
                return self._none
            return ZSet((*self._table.keys(touched.repeat(2)), *outputs), _MINUS_PLUS)
        if not (was or now):
            return self._none
        side = 1 if now else 0
        row = [c.slice(side, side + 1) for c in outputs]
        return ZSet((*self._table.keys(touched), *row), _MINUS_PLUS[side : side + 1])

    def _present(self, lanes: Indexes) -> Mask:
        return lanes[:, 0] > 0 if self._keys else np.ones(len(lanes), np.bool_)

    # Hydrating

    def hydration_key(self, number: int) -> tuple[int, ...]:
        return self._keys if self._extremes or self._rows else ()

    def hydrate(self, inputs: Fetch) -> None:
        self._build()
        for chunk in inputs(0):
            self._accumulate(chunk)
        for kept in self._extremes.values():
            kept.extremes.collected()
        for state in self._rows.values():
            state.collected()

    def _accumulate(self, chunk: ZSet) -> None:
        """Adds a chunk to the lanes and sets at once; extremes and rows collect it."""
        columns = [chunk.columns[i] for i in self._keys]
        touched, groups = self._table.locate(columns, len(chunk.weights))
        rows = self._contributing(chunk, np.arange(self._table.capacity), touched[groups])
        for state in self._rows.values():
            state.collect(state.entries(chunk, touched[groups]))
        for contribution in self._contributions(rows):
            self._table.accumulate(*contribution)
        if self._representatives is not None:
            self._representatives.step(columns, chunk.weights, touched, groups)
            self._representatives.commit()
        for kept in self._arguments:
            if kept.set is not None:
                kept.set.commit()
        for argument, extremes in self._extremes.items():
            extremes.extremes.collect(self._rows_of(argument, rows))

    # Saving

    def saved(self) -> tuple[object, ...]:
        lanes = [
            (lane, i, label) for i, a in self._accumulators() for label, lane in a.labels().items()
        ]
        return sorted(lanes), super().saved()

    def restore(self, saved: tuple[list[tuple[int, int, int]], Any]) -> None:
        self._build()
        accumulators = dict(self._accumulators())
        for lane, number, label in saved[0]:
            if accumulators[number].lane_of(label) != lane:
                raise InternalError(
                    f"lane {lane} was saved of another aggregate; please report this"
                )
        super().restore(saved[1])

    # Partial states

    @property
    def adds_up(self) -> bool:
        """Whether its state is lanes alone, so that states of parts add up to that of the whole."""
        return self.parts == (self._table,)

    def collect(self, chunk: ZSet) -> int:
        """Adds rows to the state at once; returns the number of groups so far."""
        self._accumulate(chunk)
        return len(self._table.live())

    def take_partial(self) -> PartialState:
        """The state, which is empty afterwards."""
        slots = self._table.live() if self._keys else np.zeros(1, np.int64)
        lanes = self._table.read(slots)
        found = {
            _LABELS * i + n: lane for i, a in self._accumulators() for n, lane in a.labels().items()
        }
        keys = self._table.keys(slots) if self._keys else ()
        self._build()
        return PartialState(keys, tuple(found), lanes[:, list(found.values())])

    def absorb(self, states: Iterable[PartialState], groups: int = 0) -> None:
        """Builds the state from partial states, in place of any earlier state.

        Args:
            states: of parts of the rows.
            groups: as many as there may be, if that is known.
        """
        self._build()
        self._table.reserve(groups)
        for state in states:
            self.add_partial(state)

    def add_partial(self, state: PartialState) -> None:
        """Adds a partial state to the state at once."""
        keys, labels, lanes = state
        accumulators = dict(self._accumulators())
        touched, groups = self._table.locate(keys, len(lanes))
        slots = touched[groups]
        for label, values in zip(labels, lanes.T, strict=True):
            number, own = divmod(label, _LABELS)
            if own >= _LABELS // 2:  # a negative label of the next accumulator
                number, own = number + 1, own - _LABELS
            lane = accumulators[number].lane_of(own)
            self._table.accumulate(lane, slots, values)

    def _accumulators(self) -> Iterator[tuple[int, Accumulator]]:
        return enumerate(term for kept in self._arguments for term in kept.terms)

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        slots = self._table.live() if self._keys else np.zeros(1, np.int64)
        for start in range(0, len(slots), _CHUNK):
            yield self._current(slots[start : start + _CHUNK])

    @property
    def key_count(self) -> int:
        """The count of the grouping columns."""
        return len(self._keys)

    def row_of(self, key: Sequence[Column]) -> ZSet | None:
        """The committed output row of the group with a key, one row of columns without NULLs.

        None if there is no such group.
        """
        slot = self._table.find_one(key)
        return self._current(np.array([slot])) if slot >= 0 else None

    def _current(self, slots: Indexes) -> ZSet:
        """The committed output rows of the groups."""
        lanes = self._table.read(slots)
        extremes = {
            argument: kept.current(slots, lanes[:, lane])
            for argument, (kept, lane) in self._extremes.items()
        }
        outputs = self._finished(lanes, extremes, lambda state: state.current(slots))
        keys = (
            self._table.keys(slots)
            if self._representatives is None
            else self._representatives.current(slots)
        )
        return ZSet((*keys, *outputs), ones(len(slots)))

    # Describing

    def describe(self) -> str:
        functions = ", ".join(call.function for call in self._calls)
        return f"Aggregate(by {list(self._keys)}: {functions})"

    def state_rows(self) -> int:
        return len(self._table.live())


class PartialState(NamedTuple):
    """What an `Aggregate` that `adds_up` holds of some of its rows.

    Attributes:
        keys: the key columns, a row a group.
        labels: which accumulator's lane each column of `lanes` is.
        lanes: int64[groups, labels].
    """

    keys: tuple[Column, ...]
    labels: tuple[int, ...]
    lanes: Indexes


class CollectingAggregate(Aggregate):
    """One of whose calls reads all rows of a touched group."""

    strategy: ClassVar[Strategy] = "group recompute"
    why: ClassVar[str] = "the rows of the touched groups are read in order, before and after"

    @property
    def whole(self) -> bool:
        """Every change reads all rows: there is one group."""
        calls = [call for call in self._calls if not is_linear(call)]
        return not self._keys and any(reads_every_row(call) for call in calls)


def aggregate(
    inputs: Sequence[ColumnType], keys: Sequence[int], calls: Sequence[AggregateSpec]
) -> Aggregate:
    """The operator of these calls, by the strategy that EXPLAIN is to show."""
    whole = any(not is_linear(call) and reads_whole_groups(call) for call in calls)
    return (CollectingAggregate if whole else Aggregate)(inputs, keys, calls)


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

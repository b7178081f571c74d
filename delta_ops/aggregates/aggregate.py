"""GROUP BY with aggregate functions.

Law: a group's output row is a function of its lanes (sums over its rows), of the set of its
distinct values and of its first values in order, all of which take a delta without reading other
rows. A step emits −old row and +new row of the groups whose row changed, and nothing of the
others; a group without rows has no output row, except the one group of a scalar aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ivm.delta_ops.aggregates.call_states import CallStates
from ivm.delta_ops.aggregates.lanes.accumulators import added
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec, Argument
from ivm.delta_ops.aggregates.lanes.finish import (
    AccumulatorTable,
    is_checked,
    is_linear,
    rounds,
)
from ivm.delta_ops.aggregates.min_max import has_extremes
from ivm.delta_ops.aggregates.row_aggregates import plan_rows, reads_every_row, reads_whole_groups
from ivm.delta_ops.aggregates.row_changes import changes, differs
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.state.group_table import GroupTable
from ivm.delta_ops.state.representatives import Representatives, has_representatives
from ivm.storage.state.pickles import StateError
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
        self._states = CallStates(self._calls, terms)
        representatives = () if self._representatives is None else (self._representatives,)
        self.parts = (self._table, *representatives, *self._states.parts)

    def demand_bits(self) -> bool:
        """Starts from no rows, with an error for each average that DuckDB may round otherwise.

        Returns:
            Whether all other results have DuckDB's bits.
        """
        self._strict = True
        self._build()
        key_types = self.types[: len(self._keys)]
        return not has_representatives(key_types) and all(is_checked(c) for c in self._calls)

    # Stepping

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        table, states = self._table, self._states
        keys = [delta.columns[i] for i in self._keys]
        touched, groups = table.locate(keys, len(delta.weights))
        rows = states.contributing(delta, touched, groups)
        states.stage_rows(delta, touched[groups])
        contributions = states.contributions(rows)
        old = table.read(touched)
        new = added(old, contributions)
        table.stage(touched, new)
        outputs = states.outputs(rows, touched, old, new)
        if self._representatives is not None:
            representatives = self._representatives.step(keys, delta.weights, touched, groups)
            if representatives[0] is not representatives[1]:
                shown = tuple([concat(pair) for pair in zip(*representatives, strict=True)])
                return self._difference_of_representatives(old, new, (*shown, *outputs))
        if len(touched) == 1:
            return self._difference_of_one(touched, old, new, outputs)
        return self._difference(touched, old, new, outputs)

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
        return self._keys if self._states.in_order else ()

    def hydrate(self, inputs: Fetch) -> None:
        self._build()
        for chunk in inputs(0):
            self._accumulate(chunk)
        self._states.collected()

    def _accumulate(self, chunk: ZSet) -> None:
        """Adds a chunk to the lanes and sets at once; extremes and rows collect it."""
        columns = [chunk.columns[i] for i in self._keys]
        touched, groups = self._table.locate(columns, len(chunk.weights))
        slots = touched[groups]
        rows = self._states.contributing(chunk, np.arange(self._table.capacity), slots)
        for contribution in self._states.contributions(rows):
            self._table.accumulate(*contribution)
        if self._representatives is not None:
            self._representatives.step(columns, chunk.weights, touched, groups)
            self._representatives.commit()
        self._states.collect(chunk, slots, rows)

    # Saving

    def saved(self) -> tuple[object, ...]:
        return sorted((lane, *label) for label, lane in self._labels().items()), super().saved()

    def restore(self, saved: tuple[list[tuple[int, int, int]], Any]) -> None:
        self._build()
        accumulators = list(self._states.accumulators())
        for lane, number, label in saved[0]:
            if accumulators[number].lane_of(label) != lane:
                raise StateError(f"lane {lane} is of another accumulator")
        super().restore(saved[1])

    def _labels(self) -> dict[tuple[int, int], int]:
        """The lanes by the numbers of their accumulators and their labels there."""
        numbered = enumerate(self._states.accumulators())
        return {(i, label): lane for i, a in numbered for label, lane in a.labels().items()}

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
        found = {_LABELS * i + label: lane for (i, label), lane in self._labels().items()}
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
        accumulators = list(self._states.accumulators())
        touched, groups = self._table.locate(keys, len(lanes))
        slots = touched[groups]
        for label, values in zip(labels, lanes.T, strict=True):
            number, own = divmod(label, _LABELS)
            if own >= _LABELS // 2:  # a negative label of the next accumulator
                number, own = number + 1, own - _LABELS
            lane = accumulators[number].lane_of(own)
            self._table.accumulate(lane, slots, values)

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
        outputs = self._states.current(slots, lanes)
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

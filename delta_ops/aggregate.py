"""GROUP BY with aggregate functions.

Law: a group's output row is a function of its lanes (sums over its rows), of the set of its distinct
values and of its first values in order, all of which take a delta without looking at other rows.
A step puts out −old row and +new row of the groups whose row changed, and nothing of the others;
a group without rows has no output row, except the one group of a scalar aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.aggregate_call import AggregateCall, Argument, ArgumentRows
from ivm.delta_ops.aggregate_outputs import Finish, TermTable, finisher, is_linear
from ivm.delta_ops.distinct_values import DistinctValues
from ivm.delta_ops.extremes import Extreme, has_extreme, make_extreme
from ivm.delta_ops.group_table import GroupTable
from ivm.delta_ops.linear_terms import Contribution
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.storage import keys as row_keys
from ivm.storage.column import Column, Indexes, Mask, concat
from ivm.storage.types import ColumnType
from ivm.storage.zset import ZSet, empty

_ROWS = Argument(None, None, None, False)
_CHUNK = 1 << 17


def supported(call: AggregateCall) -> bool:
    """Whether `Aggregate` can maintain this call; what it cannot goes to `GroupRecompute`."""
    if call.function in ("min", "max"):
        return call.argument_type is not None and has_extreme(call.argument_type)
    return is_linear(call)


class Aggregate(Operator):
    """GROUP BY; without keys it is a scalar aggregate, which always has its one row.

    Args:
        inputs: the input's types.
        keys: positions of the grouping columns; they are the first output columns.
        calls: the aggregates, the further output columns; each `supported`.
    """

    strategy: ClassVar[Strategy] = "indexed"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
    ) -> None:
        super().__init__([*[inputs[i] for i in keys], *[call.output for call in calls]])
        self._keys = tuple(keys)
        self._calls = tuple(calls)
        self.reproducible = not any(_rounds(call) for call in calls)
        self._build()

    def _build(self) -> None:
        """Start from no rows."""
        self._table = GroupTable(self.types[: len(self._keys)], width=0)
        terms = TermTable(self._table.add_lane)
        terms.count(_ROWS)  # lane 0
        self._distinct: dict[Argument, DistinctValues] = {}
        self._extremes: dict[tuple[Argument, bool], tuple[Extreme, int]] = {}
        self._finishers = [self._prepare(call, terms) for call in self._calls]
        self._terms = terms.items()

    def _prepare(self, call: AggregateCall, terms: TermTable) -> Finish | tuple[Argument, bool]:
        argument = Argument.of(call)
        if call.function in ("min", "max"):
            assert call.argument_type is not None
            key = (argument, call.function == "max")
            if key not in self._extremes:
                extreme = make_extreme(call.argument_type, key[1])
                self._extremes[key] = (extreme, terms.count(argument).lane)
            return key
        if argument.distinct and argument not in self._distinct:
            assert argument.type is not None
            self._distinct[argument] = DistinctValues(argument.type)
        return finisher(call, terms)

    # Stepping

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        table = self._table
        slots = table.slots([delta.columns[i] for i in self._keys], len(delta.weights))
        touched, groups = table.distinct(slots)
        rows = self._rows_by_argument(delta, slots, groups)
        contributions = self._contributions(rows)
        old = table.read(touched)
        new = _added(old, contributions)
        table.stage(touched, new)
        outputs = self._outputs(rows, touched, old, new)
        return self._difference(touched, old, new, outputs)

    def _rows_by_argument(
        self, delta: ZSet, slots: Indexes, groups: Indexes
    ) -> dict[Argument, ArgumentRows]:
        found = {}
        for argument, _ in self._terms:
            rows = argument.rows(delta, groups)
            if argument.distinct:
                rows = self._changes_of_set(argument, rows, slots)
            found[argument] = rows
        return found

    def _changes_of_set(
        self, argument: Argument, rows: ArgumentRows, slots: Indexes
    ) -> ArgumentRows:
        kept = np.flatnonzero(rows.weights)
        assert rows.values is not None
        values = rows.values.take(kept)
        moved, change = self._distinct[argument].step(values, slots[kept], rows.weights[kept])
        return ArgumentRows(values.take(moved), change, rows.groups[kept[moved]])

    def _contributions(self, rows: dict[Argument, ArgumentRows]) -> list[Contribution]:
        """What every term adds (new lanes are made on the way)."""
        return [
            contribution
            for argument, terms in self._terms
            for term in terms
            for contribution in term.contributions(rows[argument])
        ]

    def _outputs(
        self, rows: dict[Argument, ArgumentRows], touched: Indexes, old: Indexes, new: Indexes
    ) -> tuple[Column, ...]:
        """The aggregates' columns: first of all touched groups before, then of all after."""
        extremes = {}
        for key, (extreme, lane) in self._extremes.items():
            pair = extreme.step(rows[key[0]], touched, old[:, lane], new[:, lane])
            extremes[key] = concat(pair)
        both = np.concatenate([old, new])
        return tuple([extremes[f] if isinstance(f, tuple) else f(both) for f in self._finishers])

    def _difference(
        self, touched: Indexes, old: Indexes, new: Indexes, outputs: tuple[Column, ...]
    ) -> ZSet:
        was, now = self._present(old), self._present(new)
        changed = self._changed(len(touched), was, now, outputs)
        gone, come = np.flatnonzero(was & changed), np.flatnonzero(now & changed)
        count = len(gone)
        groups = np.concatenate([gone, come])
        if not len(groups):
            return empty(self.types)
        picked = groups.copy()
        picked[count:] += len(touched)
        weights = np.ones(len(groups), np.int64)
        weights[:count] = -1
        columns = self._table.keys(touched[groups])
        return ZSet((*columns, *[c.take(picked) for c in outputs]), weights)

    def _present(self, lanes: Indexes) -> Mask:
        return lanes[:, 0] > 0 if self._keys else np.ones(len(lanes), np.bool_)

    def _changed(
        self, count: int, was: Mask, now: Mask, outputs: tuple[Column, ...]
    ) -> Mask:
        changed = was != now
        if not outputs:
            return changed
        before = np.arange(count)
        same = row_keys.same_row(outputs, before, outputs, before + count, self._call_types)
        return changed | ~same

    @property
    def _call_types(self) -> tuple[ColumnType, ...]:
        return self.types[len(self._keys) :]

    def commit(self) -> None:
        self._table.commit()
        for values in self._distinct.values():
            values.commit()
        for extreme, _ in self._extremes.values():
            extreme.commit()

    def rollback(self) -> None:
        self._table.rollback()
        for values in self._distinct.values():
            values.rollback()
        for extreme, _ in self._extremes.values():
            extreme.rollback()

    # Hydrating

    def hydrate(self, inputs: Fetch) -> None:
        self._build()
        pending: dict[tuple[Argument, bool], list[ArgumentRows]] = {k: [] for k in self._extremes}
        for chunk in inputs(0):
            rows = self._accumulate(chunk)
            for key, batches in pending.items():
                batches.append(rows[key[0]])
        for key, batches in pending.items():
            self._extremes[key][0].hydrate(batches)

    def _accumulate(self, chunk: ZSet) -> dict[Argument, ArgumentRows]:
        """Add a chunk to the lanes and sets at once."""
        slots = self._table.slots([chunk.columns[i] for i in self._keys], len(chunk.weights))
        rows = self._rows_by_argument(chunk, slots, slots)
        for contribution in self._contributions(rows):
            self._table.accumulate(*contribution)
        for values in self._distinct.values():
            values.commit()
        return rows

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        slots = self._table.live() if self._keys else np.zeros(1, np.int64)
        for start in range(0, len(slots), _CHUNK):
            yield self._rows_of(slots[start : start + _CHUNK])

    def _rows_of(self, slots: Indexes) -> ZSet:
        lanes = self._table.read(slots)
        outputs = []
        for finish in self._finishers:
            if isinstance(finish, tuple):
                extreme, lane = self._extremes[finish]
                outputs.append(extreme.current(slots, lanes[:, lane]))
            else:
                outputs.append(finish(lanes))
        return ZSet((*self._table.keys(slots), *outputs), np.ones(len(slots), np.int64))

    # Describing

    def describe(self) -> str:
        functions = ", ".join(call.function for call in self._calls)
        return f"Aggregate(by {list(self._keys)}: {functions})"

    def state_rows(self) -> int:
        return len(self._table.live())

    def state_bytes(self) -> int:
        parts = [*self._distinct.values(), *[extreme for extreme, _ in self._extremes.values()]]
        return self._table.nbytes + sum(part.nbytes for part in parts)


def _rounds(call: AggregateCall) -> bool:
    """Whether DuckDB rounds on the way where we round once, so that bits may differ."""
    if call.function in ("sum", "avg"):
        return call.argument_type is not None and call.argument_type.is_float
    return call.function in ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


def _added(old: Indexes, contributions: list[Contribution]) -> Indexes:
    """Lanes with the contributions added (new lanes are in `old` already)."""
    new = old.copy()
    for lanes, groups, values in contributions:
        if isinstance(lanes, int):
            np.add.at(new[:, lanes], groups, values)
        else:
            np.add.at(new.reshape(-1), groups * new.shape[1] + lanes, values)
    return new

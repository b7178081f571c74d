"""Aggregate calls: function, argument and FILTER, and the rows that an argument contributes.

Law: an argument's weight is the row's weight where the argument is not NULL and the FILTER holds,
else 0; an aggregate is a function of these weighted values alone. DISTINCT replaces the weights by
the changes of the set of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ivm.delta_ops.operator import Kernel, Predicate
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights, ZSet

_BLOCK = 1 << 14  # rows


@dataclass(frozen=True)
class AggregateSpec:
    """One aggregate function of a GROUP BY.

    Attributes:
        function: count_star, count, count_if, sum, avg, var_pop, var_samp, stddev_pop,
            stddev_samp, bool_and, bool_or, min, max.
        output: the result's type, as DuckDB describes it.
        argument: an input position, or a kernel over all input columns; None for count_star.
        argument_type: its type.
        filter: the FILTER clause over all input columns.
        distinct: count, sum, avg (and the rest) of distinct arguments.
        further: input positions of the arguments after the first.
        order: of the group's rows, where the result depends on it.
        parameters: values of the constants after the arguments.
        fields: names under which the first arguments are packed into one struct, if any.
    """

    function: str
    output: ColumnType
    argument: int | Kernel | None = None
    argument_type: ColumnType | None = None
    filter: Predicate | None = None
    distinct: bool = False
    further: tuple[int, ...] = ()
    further_types: tuple[ColumnType, ...] = ()
    order: tuple[OrderKey, ...] = ()
    order_types: tuple[ColumnType, ...] = ()
    parameters: tuple[object, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass
class ArgumentRows:
    """The rows an argument contributes to a step.

    Attributes:
        values: the argument, or None for count(*).
        weights: int64[n]; 0 where the row does not count.
        groups: int64[n], the row's group: a position among the touched groups, or a slot.
        partner: the other argument of a function of two.
    """

    values: Column | None
    weights: Weights
    groups: Indexes
    partner: Column | None = None

    def blocks(self) -> Iterator[ArgumentRows]:
        """The rows in parts so short that what is computed of one stays in a core's caches."""
        count = len(self.weights)
        if count <= _BLOCK:
            yield self
            return
        for start in range(0, count, _BLOCK):
            stop = min(start + _BLOCK, count)
            yield ArgumentRows(
                None if self.values is None else self.values.slice(start, stop),
                self.weights[start:stop],
                self.groups[start:stop],
                None if self.partner is None else self.partner.slice(start, stop),
            )


@dataclass(frozen=True)
class Argument:
    """An argument under a FILTER; calls that agree on it share one.

    Attributes:
        partner: position of the other argument of a function of two; rows count where both are
            not NULL.
    """

    source: int | Kernel | None
    type: ColumnType | None
    filter: Predicate | None
    distinct: bool
    partner: int | None = None

    @staticmethod
    def of(call: AggregateSpec) -> Argument:
        """The argument of a call; DISTINCT means nothing to a maximum or a conjunction."""
        idle = call.function in ("min", "max", "bool_and", "bool_or", "count_star")
        distinct = call.distinct and not idle
        return Argument(call.argument, call.argument_type, call.filter, distinct)

    def rows(self, delta: ZSet, groups: Indexes) -> ArgumentRows:
        """The delta's rows as this argument weighs them."""
        columns, weights = delta.columns, delta.weights
        if self.filter is not None:
            weights = np.where(self.filter(columns, len(weights)), weights, 0)
        values = self._evaluate(columns, len(weights))
        valid = None if values is None else values.valid
        if valid is not None:
            weights = np.where(valid, weights, 0)
        if self.partner is None:
            return ArgumentRows(values, weights, groups)
        partner = columns[self.partner]
        if partner.valid is not None:
            weights = np.where(partner.valid, weights, 0)
        return ArgumentRows(values, weights, groups, partner)

    def _evaluate(self, columns: Sequence[Column], count: int) -> Column | None:
        if self.source is None:
            return None
        return columns[self.source] if isinstance(self.source, int) else self.source(columns, count)

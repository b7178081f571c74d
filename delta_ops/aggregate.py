"""GROUP BY with aggregate functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ivm.delta_ops.operator import Kernel, Operator, Predicate, Strategy
from ivm.storage.types import ColumnType


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate function of a GROUP BY.

    Attributes:
        function: count_star, count, count_if, sum, avg, var_pop, var_samp, stddev_pop,
            stddev_samp, bool_and, bool_or, min, max.
        output: the result's type, as DuckDB describes it.
        argument: an input position, or a kernel over all input columns; None for count_star.
        argument_type: its type.
        filter: the FILTER clause over all input columns.
        distinct: count, sum, avg (and the rest) of distinct arguments.
    """

    function: str
    output: ColumnType
    argument: int | Kernel | None = None
    argument_type: ColumnType | None = None
    filter: Predicate | None = None
    distinct: bool = False


def supported(
    function: str, argument_type: ColumnType | None, output: ColumnType, distinct: bool
) -> bool:
    """Whether `Aggregate` can maintain this call; what it cannot goes to `GroupRecompute`."""
    raise NotImplementedError


class Aggregate(Operator):
    """GROUP BY; without keys it is a scalar aggregate, which always has its one row.

    Args:
        inputs: the input's types.
        keys: positions of the grouping columns; they are the first output columns.
        calls: the aggregates, the further output columns.
    """

    strategy: ClassVar[Strategy] = "indexed"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        keys: Sequence[int],
        calls: Sequence[AggregateCall],
    ) -> None:
        super().__init__([*[inputs[i] for i in keys], *[call.output for call in calls]])

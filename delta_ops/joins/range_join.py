"""Inner join on comparisons, with or without equal keys, of two ordered arrangements.

Law: the product rule, Δ(A ⋈ B) = ΔA ⋈ B + (A + ΔA) ⋈ ΔB, where a change finds the rows it meets as
ranges of the other side. If a bound moves (−old, +new) and is no output column, the ranges cancel
where both hold, so only the rows between the two bounds are touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join
from ivm.delta_ops.joins.range_search import Comparison, RangeSearch, order_column
from ivm.delta_ops.operator import Predicate
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.zset import ZSet


class RangeJoin(Join):
    """Inner join on comparisons. Its inputs are two `Arrange` nodes with a key (of no column, if
    there are no equal keys) and the `range_order` of their side; a side with few rows under a key
    may do without the order.

    Args:
        left: arranged by the left key columns, in order.
        right: arranged by the right ones.
        output: as for `Join`.
        comparisons: at least one, of left columns with right columns of the same type.
        null_safe: as for `Join`.
        residual: as for `Join`.
    """

    why = "a ⋈ B + A′ ⋈ b: the change of each side finds its ranges in the other"

    def __init__(
        self,
        left: Arrange,
        right: Arrange,
        output: Sequence[int],
        comparisons: Sequence[Comparison],
        null_safe: Sequence[bool] | None = None,
        residual: Predicate | None = None,
    ) -> None:
        super().__init__(left, right, output, null_safe, residual)
        mirrored = [c.mirrored() for c in comparisons]
        needed = self._needed(left, 0), self._needed(right, self._width)
        self._in_right = RangeSearch(right.types, mirrored, needed[0], ordered=bool(right.order))
        self._in_left = RangeSearch(left.types, comparisons, needed[1], ordered=bool(left.order))

    def _needed(self, side: Arrange, start: int) -> list[int] | None:
        """The columns of a side that the output distinguishes."""
        if self._residual is not None:
            return None
        own = {i - start for i in self._output if start <= i < start + len(side.types)}
        return sorted(own | set(side.key))

    def _probe(
        self, delta: ZSet, side: Arrange, other: Arrangement, *, probe_is_left: bool
    ) -> ZSet:
        search = self._in_right if probe_is_left else self._in_left
        delta = search.present(self._joinable(delta, side))
        keys = side.keys(delta) if side.key else ()
        probe, rows = search.find(other, keys, delta, side.types)
        if probe_is_left:
            return self._pairs(delta.columns, probe, rows.columns, None, rows.weights)
        return self._pairs(rows.columns, None, delta.columns, probe, rows.weights)

    def describe(self) -> str:
        return f"RangeJoin(on {list(self._left.key)} = {list(self._right.key)})"


def range_order(comparisons: Sequence[Comparison]) -> tuple[OrderKey, ...]:
    """The order of the side whose columns are left in the comparisons."""
    return (OrderKey(order_column(comparisons), descending=False, nulls_first=False),)

"""Inner equi-join of two arrangements by the product rule.

Law: Δ(A ⋈ B) = ΔA ⋈ B + (A + ΔA) ⋈ ΔB; weights multiply. A NULL key joins nothing, unless that
key is compared by IS NOT DISTINCT FROM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.operator import Fetch, Operator, Predicate, Strategy
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.ordering.order import Columns
from ivm.storage.values.zset import ZSet, add, empty


class Join(Operator):
    """Inner join on equal keys. Its inputs are two `Arrange` nodes (one and the same may serve
    both sides of a self-join).

    Args:
        left: arranged by the left key columns.
        right: arranged by the right key columns, in the same order and of the same types.
        output: positions in (left columns, right columns) of the output's columns, in order.
        null_safe: per key column, whether NULL = NULL; None for never.
        residual: a further condition over all columns of left and right.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "a ⋈ B + A′ ⋈ b: the change of each side looks up its keys in the other"

    def __init__(
        self,
        left: Arrange,
        right: Arrange,
        output: Sequence[int],
        null_safe: Sequence[bool] | None = None,
        residual: Predicate | None = None,
    ) -> None:
        both = (*left.types, *right.types)
        super().__init__([both[i] for i in output])
        self._types = both
        self._left, self._right = left, right
        self._output = tuple(output)
        self._width = len(left.types)
        safe = null_safe or [False] * len(left.key)
        self._strict_keys = [i for i, is_safe in enumerate(safe) if not is_safe]
        self._residual = residual

    def over(self, inputs: tuple[Operator, ...]) -> Join:
        left, right = inputs
        assert isinstance(left, Arrange)
        assert isinstance(right, Arrange)
        self._left, self._right = left, right
        return self

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        pairs = [p for p in self._changes(*inputs) if len(p.weights)]
        if not pairs:
            return empty(self.types)
        try:
            return add([self._kept(p) for p in pairs])
        except EvaluationError:  # perhaps of pairs that cancel each other, which are not there
            return self._kept(consolidate(add(pairs), self._types))

    def _changes(self, a: ZSet, b: ZSet) -> Iterator[ZSet]:
        """The pairs of a change of the left and of the right side."""
        if len(a.weights):
            yield self._probe(a, self._left, self._right.before, probe_is_left=True)
        if len(b.weights):
            yield self._probe(b, self._right, self._left.after, probe_is_left=False)

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        failed = []
        for chunk in inputs(0):
            pairs = self._probe(chunk, self._left, self._right.before, probe_is_left=True)
            try:
                yield self._kept(pairs)
            except EvaluationError:  # perhaps of rows that other chunks take back
                failed.append(pairs)
        if failed:
            yield self._kept(consolidate(add(failed), self._types))

    def _probe(
        self, delta: ZSet, side: Arrange, other: Arrangement, *, probe_is_left: bool
    ) -> ZSet:
        delta = self._joinable(delta, side)
        matches = other.lookup([delta.columns[i] for i in side.key])
        weights = delta.weights[matches.probe] * matches.rows.weights
        if probe_is_left:
            return self._pairs(delta.columns, matches.probe, matches.rows.columns, None, weights)
        return self._pairs(matches.rows.columns, None, delta.columns, matches.probe, weights)

    def _joinable(self, delta: ZSet, side: Arrange) -> ZSet:
        """The rows of a side whose key may equal another."""
        return delta.without_nulls([side.key[i] for i in self._strict_keys])

    def _pairs(
        self,
        left: Columns,
        left_rows: Indexes | None,
        right: Columns,
        right_rows: Indexes | None,
        weights: Indexes,
    ) -> ZSet:
        """Pairs of rows (None: as they stand): the output's columns, or all for the residual."""

        def column(i: int) -> Column:
            if i < self._width:
                return left[i] if left_rows is None else left[i].take(left_rows)
            c = right[i - self._width]
            return c if right_rows is None else c.take(right_rows)

        places = self._output if self._residual is None else range(len(self._types))
        return ZSet(tuple([column(i) for i in places]), weights)

    def _kept(self, pairs: ZSet) -> ZSet:
        """The output of the pairs that meet the residual condition."""
        if self._residual is None:
            return pairs
        return pairs.filter(self._residual(pairs.columns, len(pairs))).project(self._output)

    def describe(self) -> str:
        return f"Join(on {list(self._left.key)} = {list(self._right.key)})"

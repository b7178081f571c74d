"""Cross and non-equi join: the product rule over all pairs.

Law: Δ(A × B) = ΔA × B + (A + ΔA) × ΔB, then the condition; weights multiply. The cost is |Δ| times
the other side: a kernel sees the pairs in blocks, a SQL condition leaves the search to DuckDB
(which has range joins), one statement for each side that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.linear.duck_eval import BIGINT, column_names, row_numbers, run_sql
from ivm.delta_ops.operator import CursorFactory, Fetch, Operator, Predicate, Strategy
from ivm.delta_ops.state.integral import Integral
from ivm.delta_ops.state.versions import Versions
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty

_BLOCK = 1 << 18  # pairs tested at a time


class ThetaJoin(Operator):
    """Inner join on any condition.

    Args:
        left: types of the left input.
        right: types of the right input.
        output: positions in (left columns, right columns) of the output's columns, in order.
        condition: None for a cross join; a predicate over all columns of left and right; or SQL
            over c0, c1, … (left, then right columns numbered on), evaluated by DuckDB.
        cursor_factory: needed for a SQL condition.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "the change of each side with all rows of the other"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        left: Sequence[ColumnType],
        right: Sequence[ColumnType],
        output: Sequence[int],
        condition: Predicate | str | None = None,
        cursor_factory: CursorFactory | None = None,
    ) -> None:
        both = (*left, *right)
        super().__init__([both[i] for i in output])
        self._sides = (tuple(left), tuple(right))
        self._output = tuple(output)
        self._condition = condition
        self._cursor_factory = cursor_factory
        self._integrals = (Versions(Integral(left)), Versions(Integral(right)))
        self.parts = self._integrals

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        a, b = inputs
        left, right = self._integrals
        left.append(a)
        right.append(b)
        try:
            parts = [*self._pairs([a], right.before.batches)]
            parts += self._pairs(left.after.batches, [b])
        except EvaluationError:  # perhaps of pairs that cancel each other, which are not there
            parts = self._real_pairs(a, b)
        parts = [p for p in parts if len(p)]
        return add(parts) if parts else empty(self.types)

    def _real_pairs(self, a: ZSet, b: ZSet) -> list[ZSet]:
        """The change made of pairs alone that were there before or are there now.

        With what comes (+), goes (−) and stays of each side: a × B₀ + A₀ × b + a⁺ × b⁺ − a⁻ × b⁻.
        """
        (a, a_gone, left), (b, b_gone, right) = [
            self._changed(delta, side) for side, delta in enumerate((a, b))
        ]
        parts = [*self._pairs([a], [right]), *self._pairs([left], [b])]
        parts += self._pairs([a.filter(a.weights > 0)], [b.filter(b.weights > 0)])
        parts += [p.negate() for p in self._pairs([a_gone], [b_gone])]
        return parts

    def _changed(self, delta: ZSet, side: int) -> tuple[ZSet, ZSet, ZSet]:
        """The net change of a side, what goes (with positive weights), and what stays."""
        net = consolidate(delta, self._sides[side])
        gone = net.filter(net.weights < 0)
        return net, gone.negate(), self._stays(side, gone)

    def _stays(self, side: int, gone: ZSet) -> ZSet:
        return consolidate(add([*self._integrals[side].before.batches, gone]), self._sides[side])

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        left, right = [self._stays(side, empty(types)) for side, types in enumerate(self._sides)]
        return self._pairs([left], [right])

    def _pairs(self, left: Sequence[ZSet], right: Sequence[ZSet]) -> Iterator[ZSet]:
        left, right = [a for a in left if len(a)], [b for b in right if len(b)]
        if not left or not right:
            return
        if isinstance(self._condition, str):
            yield self._search(add(left), add(right), self._condition)
            return
        for a in left:
            for b in right:
                yield from self._blocks(a, b)

    def _blocks(self, a: ZSet, b: ZSet) -> Iterator[ZSet]:
        width = min(len(b), _BLOCK)
        height = max(1, _BLOCK // width)
        for i in range(0, len(a), height):
            rows = np.arange(i, min(i + height, len(a)))
            for j in range(0, len(b), width):
                others = np.arange(j, min(j + width, len(b)))
                left, right = np.repeat(rows, len(others)), np.tile(others, len(rows))
                yield self._emit(a, left, b, right, self._condition)

    def _emit(
        self, a: ZSet, left: Indexes, b: ZSet, right: Indexes, condition: Predicate | str | None
    ) -> ZSet:
        if callable(condition):
            columns = [*[c.take(left) for c in a.columns], *[c.take(right) for c in b.columns]]
            found = np.flatnonzero(condition(columns, len(left)))
            left, right = left[found], right[found]
        width = len(a.columns)
        out = [
            a.columns[i].take(left) if i < width else b.columns[i - width].take(right)
            for i in self._output
        ]
        return ZSet(tuple(out), a.weights[left] * b.weights[right])

    def _search(self, a: ZSet, b: ZSet, condition: str) -> ZSet:
        assert self._cursor_factory is not None
        left, right = self._sides
        registered = {
            "l": (_numbered(a), (*column_names(left), ("l_row", BIGINT))),
            "r": (_numbered(b), (*column_names(right, len(left)), ("r_row", BIGINT))),
        }
        sql = f"SELECT l_row, r_row FROM l, r WHERE {condition}"
        output = (("l_row", BIGINT), ("r_row", BIGINT))
        found = run_sql(self._cursor_factory, sql, registered, output)
        return self._emit(a, row_numbers(found.columns[0]), b, row_numbers(found.columns[1]), None)

    def hydrate(self, inputs: Fetch) -> None:
        for side, (integral, types) in enumerate(zip(self._integrals, self._sides, strict=True)):
            integral.reset(Integral.build(types, inputs(side)))

    def describe(self) -> str:
        return f"ThetaJoin({_name(self._condition)})"

    def state_rows(self) -> int:
        return sum(integral.row_count for integral in self._integrals)


def _numbered(z: ZSet) -> ZSet:
    return ZSet((*z.columns, FixedColumn(np.arange(len(z)))), z.weights)


def _name(condition: Predicate | str | None) -> str:
    if condition is None:
        return "cross"
    return condition if isinstance(condition, str) else "kernel"

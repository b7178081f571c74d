"""DISTINCT, UNION, INTERSECT and EXCEPT: a function of a row's weights on the sides.

Law: with l and r the net weights of a row left and right, the output weight is [l > 0], [l + r >
0], [l > 0 and r > 0], min(l, r), [l > 0 and r = 0] or max(l − r, 0); a step emits its change for
the rows touched. Rows are distinguished by grouping equality (NULL = NULL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.state.group_table import GroupTable
from ivm.delta_ops.state.representatives import Representatives, has_representatives
from ivm.storage.values.column import Column, Indexes, concat
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty

SetKind: TypeAlias = Literal["distinct", "union", "intersect", "except"]
_CHUNK = 1 << 17

_WEIGHTS: dict[tuple[SetKind, bool], Callable[[Indexes, Indexes], Indexes]] = {
    ("distinct", False): lambda left, right: (left > 0).astype(np.int64),
    ("union", False): lambda left, right: (left + right > 0).astype(np.int64),
    ("intersect", False): lambda left, right: ((left > 0) & (right > 0)).astype(np.int64),
    ("intersect", True): np.minimum,
    ("except", False): lambda left, right: ((left > 0) & (right <= 0)).astype(np.int64),
    ("except", True): lambda left, right: np.maximum(left - right, 0),
}


class SetOp(Operator):
    """A set operation (UNION ALL is `UnionAll`).

    Args:
        types: the types of every input and of the output.
        kind: "distinct" has one input, the others two.
        all: INTERSECT ALL, EXCEPT ALL.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "a function of the touched rows' weights, before and after"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(self, types: Sequence[ColumnType], kind: SetKind, *, all: bool = False) -> None:
        super().__init__(types)
        self._kind: SetKind = kind
        self._all = all
        self._weight = _WEIGHTS[kind, all]
        self.reproducible = not has_representatives(self.types)
        self._build()

    def _build(self) -> None:
        """Starts from no rows."""
        self._table = GroupTable(self.types, width=3)  # both sides, left, right
        self._representatives = (
            Representatives(self.types, self._table) if has_representatives(self.types) else None
        )
        self.parts = (
            (self._table,)
            if self._representatives is None
            else (self._table, self._representatives)
        )

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        delta = add([d for d in inputs if len(d.weights)] or [empty(self.types)])
        touched, groups, old, new = self._add(delta, inputs)
        self._table.stage(touched, new)
        before, after = self._weight(old[:, 1], old[:, 2]), self._weight(new[:, 1], new[:, 2])
        if self._representatives is not None:
            representatives = self._representatives.step(
                delta.columns, delta.weights, touched, groups
            )
            if representatives[0] is not representatives[1]:
                return self._difference_of_representatives(representatives, before, after)
        moved = (after != before).nonzero()[0]
        return ZSet(self._table.keys(touched[moved]), (after - before)[moved])

    def _difference_of_representatives(
        self,
        representatives: tuple[Sequence[Column], Sequence[Column]],
        before: Indexes,
        after: Indexes,
    ) -> ZSet:
        pairs = zip(*representatives, strict=True)
        columns = tuple([concat(pair) for pair in pairs])
        return consolidate(ZSet(columns, np.concatenate([-before, after])), self.types)

    def _add(
        self, delta: ZSet, inputs: tuple[ZSet, ...]
    ) -> tuple[Indexes, Indexes, Indexes, Indexes]:
        """The touched rows' slots, the delta's positions among them, the lanes before and after."""
        touched, groups = self._table.locate(delta.columns, len(delta.weights))
        old = self._table.read(touched)
        new = old.copy()
        np.add.at(new[:, 0], groups, delta.weights)
        start = 0
        for side, part in enumerate(inputs):
            stop = start + len(part.weights)
            np.add.at(new[:, 1 + side], groups[start:stop], part.weights)
            start = stop
        return touched, groups, old, new

    def hydrate(self, inputs: Fetch) -> None:
        self._build()
        zero = empty(self.types)
        sides = 1 if self._kind == "distinct" else 2
        for side in range(sides):
            for chunk in inputs(side):
                self.step((chunk, zero) if side == 0 else (zero, chunk))
                self.commit()

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        live = self._table.live()
        for start in range(0, len(live), _CHUNK):
            slots = live[start : start + _CHUNK]
            lanes = self._table.read(slots)
            weights = self._weight(lanes[:, 1], lanes[:, 2])
            keys = (
                self._table.keys(slots)
                if self._representatives is None
                else self._representatives.current(slots)
            )
            yield ZSet(keys, weights).filter(weights > 0)

    def describe(self) -> str:
        return f"SetOp({self._kind}{' all' if self._all else ''})"

    def state_rows(self) -> int:
        return len(self._table.live())

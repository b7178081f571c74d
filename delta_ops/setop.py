"""DISTINCT, UNION, INTERSECT and EXCEPT: a function of a row's weights on the sides.

Law: with l and r the net weights of a row left and right, the output weight is [l > 0], [l + r >
0], [l > 0 and r > 0], min(l, r), [l > 0 and r = 0] or max(l − r, 0); a step puts out its change for
the rows touched. Rows are told apart by grouping equality (NULL = NULL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from ivm.delta_ops.group_table import GroupTable
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.storage.column import Indexes
from ivm.storage.types import ColumnType
from ivm.storage.zset import ZSet, add, empty

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
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(self, types: Sequence[ColumnType], kind: SetKind, *, all: bool = False) -> None:
        super().__init__(types)
        self._kind: SetKind = kind
        self._all = all
        self._weight = _WEIGHTS[kind, all]
        self._table = GroupTable(self.types, width=3)  # both sides, left, right

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        touched, old, new = self._add(inputs)
        self._table.stage(touched, new)
        change = self._weight(new[:, 1], new[:, 2]) - self._weight(old[:, 1], old[:, 2])
        moved = np.flatnonzero(change)
        return ZSet(self._table.keys(touched[moved]), change[moved])

    def _add(self, inputs: tuple[ZSet, ...]) -> tuple[Indexes, Indexes, Indexes]:
        """The touched rows' slots, and their lanes before and after."""
        delta = add([d for d in inputs if len(d.weights)] or [empty(self.types)])
        touched, groups = self._table.locate(delta.columns, len(delta.weights))
        old = self._table.read(touched)
        new = old.copy()
        np.add.at(new[:, 0], groups, delta.weights)
        start = 0
        for side, part in enumerate(inputs):
            stop = start + len(part.weights)
            np.add.at(new[:, 1 + side], groups[start:stop], part.weights)
            start = stop
        return touched, old, new

    def commit(self) -> None:
        self._table.commit()

    def rollback(self) -> None:
        self._table.rollback()

    def hydrate(self, inputs: Fetch) -> None:
        self._table = GroupTable(self.types, width=3)
        zero = empty(self.types)
        sides = 1 if self._kind == "distinct" else 2
        for side in range(sides):
            for chunk in inputs(side):
                touched, _, new = self._add((chunk,) if side == 0 else (zero, chunk))
                self._table.stage(touched, new)
                self._table.commit()

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        live = self._table.live()
        for start in range(0, len(live), _CHUNK):
            slots = live[start : start + _CHUNK]
            lanes = self._table.read(slots)
            weights = self._weight(lanes[:, 1], lanes[:, 2])
            yield ZSet(self._table.keys(slots), weights).filter(weights > 0)

    def describe(self) -> str:
        return f"SetOp({self._kind}{' all' if self._all else ''})"

    def state_rows(self) -> int:
        return len(self._table.live())

    def state_bytes(self) -> int:
        return self._table.nbytes

"""DISTINCT, UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from ivm.delta_ops.operator import Operator, Strategy
from ivm.storage.types import ColumnType

SetKind: TypeAlias = Literal["distinct", "union", "intersect", "except"]


class SetOp(Operator):
    """A set operation: a function of a row's weights on the sides (UNION ALL is `UnionAll`).

    Args:
        types: the types of every input and of the output.
        kind: "distinct" has one input, the others two.
        all: INTERSECT ALL, EXCEPT ALL.
    """

    strategy: ClassVar[Strategy] = "indexed"
    stateful: ClassVar[bool] = True

    def __init__(self, types: Sequence[ColumnType], kind: SetKind, *, all: bool = False) -> None:
        super().__init__(types)

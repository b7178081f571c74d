"""Lookups: the rows of a delta with those of another relation as it is after the step.

Law: the output is ΔA ⋈ (B + ΔB) and nothing else; so what changes in B later changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.operator import Operator, Predicate, Strategy
from ivm.storage.values.column import Column, FixedColumn, Indexes, null_column
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty


class LookupJoin(Operator):
    """A join of a delta alone.

    Args:
        types: of the left rows, which are the first input.
        key: the left columns that are compared with the key of the right rows.
        right: the second input, arranged by the columns that are compared.
        kind: as joins have it; of "left" rows without a partner get NULLs.
        null_safe: per key column, whether NULL = NULL.
        residual: a further condition over all columns of left and right.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "a ⋈ B′: each row that arrives looks up its key, once"

    def __init__(
        self,
        types: Sequence[ColumnType],
        key: Sequence[int],
        right: Arrange,
        kind: Literal["inner", "left", "semi", "anti"],
        null_safe: Sequence[bool],
        residual: Predicate | None,
    ) -> None:
        shows_right = kind in ("inner", "left")
        super().__init__([*types, *(right.types if shows_right else ())])
        self._key, self._right, self._kind = tuple(key), right, kind
        self._strict = [i for i, is_safe in zip(key, null_safe, strict=True) if not is_safe]
        self._residual = residual

    def over(self, inputs: tuple[Operator, ...]) -> LookupJoin:
        right = inputs[1]
        assert isinstance(right, Arrange)
        self._right = right
        return self

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        rows = inputs[0]
        if not len(rows):
            return empty(self.types)
        pairs, probe = self._pairs(rows)
        matched = np.zeros(len(rows), np.bool_)
        matched[probe] = True
        match self._kind:
            case "inner":
                return pairs
            case "left":
                return add([pairs, self._padded(rows.filter(~matched))])
            case "semi":
                return rows.filter(matched)
            case "anti":
                return rows.filter(~matched)

    def _pairs(self, rows: ZSet) -> tuple[ZSet, Indexes]:
        """The pairs that meet the condition, and the number of the left row of each."""
        probe, right = self._right.after.lookup_live(self._keys(rows))
        valid = rows.valid(self._strict)
        if valid is not None:
            kept = valid[probe]
            probe, right = probe[kept], right.filter(kept)
        columns = [column.take(probe) for column in rows.columns]
        others = right.columns[: len(self._right.types)]
        pairs = ZSet((*columns, *others), rows.weights[probe] * right.weights)
        if self._residual is None or not len(pairs):
            return pairs, probe
        kept = self._residual(pairs.columns, len(pairs))
        return pairs.filter(kept), probe[kept]

    def _keys(self, rows: ZSet) -> Sequence[Column]:
        """The keys of rows; without any, that under which all rows are arranged."""
        found = [rows.columns[i] for i in self._key]
        return found or [FixedColumn(np.zeros(len(rows), np.bool_))]

    def _padded(self, rows: ZSet) -> ZSet:
        nulls = [null_column(type, len(rows)) for type in self._right.types]
        return ZSet((*rows.columns, *nulls), rows.weights)

    def describe(self) -> str:
        return f"Lookup({self._kind} on {list(self._key)} = {list(self._right.key)})"

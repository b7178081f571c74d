"""Rows that wait until a bound has passed them, in the order of one column.

Law: the rows passed by `parted` and the rest are together the rows. Values are immutable: what is
added or passed gives other ones. Rows are in sorted runs, each at least twice as long as the next,
so an addition moves a row a logarithmic number of times; the passed ones are a prefix of each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import FixedColumn
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty


class _Run(NamedTuple):
    """Rows in order, and their values in the column."""

    values: npt.NDArray[Any]
    rows: ZSet


class PendingRows:
    """Rows in the order of a column of numbers, which has no NULL.

    Args:
        types: of the rows.
        by: the column.
        runs: the rows.
    """

    def __init__(self, types: Sequence[ColumnType], by: int, runs: Sequence[_Run] = ()) -> None:
        self._types = tuple(types)
        self._by = by
        self._runs = tuple(runs)

    def added(self, rows: ZSet) -> PendingRows:
        """These rows and others."""
        if not len(rows):
            return self
        runs = [*self._runs, self._run(rows)]
        while len(runs) > 1 and len(runs[-2].values) < 2 * len(runs[-1].values):
            last = runs.pop().rows
            runs[-1] = self._run(consolidate(add([runs[-1].rows, last]), self._types))
        return PendingRows(self._types, self._by, [run for run in runs if len(run.values)])

    def _run(self, rows: ZSet) -> _Run:
        values = self._values(rows)
        order = np.argsort(values, kind="stable")
        return _Run(values[order], rows.take(order))

    def _values(self, rows: ZSet) -> npt.NDArray[Any]:
        column = rows.columns[self._by]
        assert isinstance(column, FixedColumn)
        return column.values

    def parted(self, bound: int, *, inclusive: bool) -> tuple[ZSet, PendingRows]:
        """The rows before a bound, or up to it, and the rest."""
        side: Literal["left", "right"] = "right" if inclusive else "left"
        passed, rest = [empty(self._types)], list[_Run]()
        for values, rows in self._runs:
            at = int(values.searchsorted(bound, side))
            if at:
                passed.append(rows.slice(0, at))
            if at < len(values):
                rest.append(_Run(values[at:], rows.slice(at, len(values))))
        return consolidate(add(passed), self._types), PendingRows(self._types, self._by, rest)

    def all(self) -> ZSet:
        """All rows."""
        return add([empty(self._types), *[run.rows for run in self._runs]])

    def __len__(self) -> int:
        return sum([len(run.values) for run in self._runs])

    @property
    def nbytes(self) -> int:
        return sum([run.values.nbytes + run.rows.nbytes for run in self._runs])

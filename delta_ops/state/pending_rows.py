"""Rows that wait until a bound has passed them, in the order of one column.

Law: the rows passed by `parted` and the rest are together the rows. Values are immutable: what is
added or passed gives other ones. Rows are in sorted runs, each at least twice as long as the next,
so an addition moves a row a logarithmic number of times; the passed ones are a prefix of each run.
Few rows that came last are not sorted yet: most bounds pass none of them.
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

_FEW = 512


class _Run(NamedTuple):
    """Rows in order, and their values in the column."""

    values: npt.NDArray[Any]
    rows: ZSet


class PendingRows:
    """Rows in the order of a column of numbers, which has no NULL.

    Args:
        types: of the rows.
        by: the column.
        runs: the rows, sorted.
        last: further rows.
        few: how many these are.
        least: no value of these rows is before it; None if that is to be found out.
    """

    def __init__(
        self,
        types: Sequence[ColumnType],
        by: int,
        runs: Sequence[_Run] = (),
        last: Sequence[ZSet] = (),
        least: int | None = None,
        few: int = 0,
    ) -> None:
        self._types = tuple(types)
        self._by = by
        self._runs = tuple(runs)
        self._last = tuple(last)
        if least is None:
            least = min([int(run.values[0]) for run in runs], default=None)
        self._least, self._few = least, few

    def added(self, rows: ZSet) -> PendingRows:
        """These rows and others."""
        if not len(rows):
            return self
        last = (*self._last, rows)
        few = self._few + len(rows)
        if few <= _FEW:
            least = int(self._values(rows).min())
            least = least if self._least is None else min(least, self._least)
            return PendingRows(self._types, self._by, self._runs, last, least, few)
        return PendingRows(self._types, self._by, self._sorted(last))

    def _sorted(self, last: Sequence[ZSet]) -> list[_Run]:
        """The runs, with these rows as another one."""
        runs = list(self._runs)
        if last:
            runs.append(self._run(consolidate(add(last), self._types)))
        while len(runs) > 1 and len(runs[-2].values) < 2 * len(runs[-1].values):
            rows = runs.pop().rows
            runs[-1] = self._run(consolidate(add([runs[-1].rows, rows]), self._types))
        return [run for run in runs if len(run.values)]

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
        if self._least is None or self._least > bound - (not inclusive):
            return empty(self._types), self
        side: Literal["left", "right"] = "right" if inclusive else "left"
        passed, rest = [empty(self._types)], list[_Run]()
        for values, rows in self._sorted(self._last):
            at = int(values.searchsorted(bound, side))
            if at:
                passed.append(rows.slice(0, at))
            if at < len(values):
                rest.append(_Run(values[at:], rows.slice(at, len(values))))
        return consolidate(add(passed), self._types), PendingRows(self._types, self._by, rest)

    def all(self) -> ZSet:
        """All rows."""
        return add([empty(self._types), *[run.rows for run in self._runs], *self._last])

    def __len__(self) -> int:
        return sum([len(run.values) for run in self._runs]) + sum([len(r) for r in self._last])

    @property
    def nbytes(self) -> int:
        runs = sum([run.values.nbytes + run.rows.nbytes for run in self._runs])
        return runs + sum([rows.nbytes for rows in self._last])

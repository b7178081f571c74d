"""Bounds that rise, and what they have passed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.zset import ZSet


class Bound(NamedTuple):
    """A value that never falls.

    Attributes:
        inclusive: whether what is as large as it is passed, too.
        value: None if it is not known yet: then nothing is passed.
    """

    inclusive: bool
    value: int | None = None

    def moved(self, delta: ZSet) -> Bound:
        """The bound after a change of the one row, of one column, that tells it."""
        (column,) = delta.columns
        found = [column.cell(i) for i in (delta.weights > 0).nonzero()[0].tolist()]
        known = [value for value in (self.value, *found) if value is not None]
        return self._replace(value=max(known, default=None))

    def is_open(self, column: Column) -> Mask:
        """Which values are not passed; NULL counts as passed."""
        assert isinstance(column, FixedColumn)
        kept = np.ones(len(column), np.bool_) if column.valid is None else column.valid
        if self.value is None:
            return kept
        below = column.values <= self.value if self.inclusive else column.values < self.value
        return kept & ~below

"""Rows of a column by position, NULL where there is no row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Indexes, Mask


def picked(column: Column, rows: Indexes, there: Mask) -> Column:
    """The values at `rows`; NULL where not `there` (the row is not read)."""
    if isinstance(column, FixedColumn):
        return _picked_fixed(column, rows, there)
    return ArrowColumn(column.array.take(pa.array(rows, mask=~there)))


def _picked_fixed(column: FixedColumn, rows: Indexes, there: Mask) -> FixedColumn:
    if not len(column):
        values = np.zeros(len(rows), column.values.dtype)
        return FixedColumn(values, np.zeros(len(rows), np.bool_) if len(rows) else None)
    found = column.take(np.where(there, rows, 0))
    valid = there if found.valid is None else found.valid & there
    if valid.all():
        return FixedColumn(found.values)
    return FixedColumn(np.where(valid, found.values, np.zeros(1, found.values.dtype)), valid)

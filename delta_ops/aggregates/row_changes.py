"""The rows of an output delta, chosen from the rows before and after a step.

Law: the delta is −old and +new of every group whose row was added, removed or has other bits, and
nothing of the others. The n rows before come first, then the n rows after in the same order.
"""

from __future__ import annotations

import numpy as np

from ivm.delta_ops.operator import Types
from ivm.storage.values import key_codes
from ivm.storage.values.canonical import row_tuples
from ivm.storage.values.column import Column, Indexes, Mask
from ivm.storage.values.zset import Weights


def changes(
    was: Mask, now: Mask, columns: tuple[Column, ...], types: Types
) -> tuple[Indexes, Weights]:
    """The positions among 2n rows of those in the output delta, and their weights.

    Args:
        was: bool[n], where there was a row.
        now: bool[n], where there is one.
        columns: 2n values each.
        types: of the columns.
    """
    count = len(was)
    changed = (was != now) | _differ(count, columns, types)
    gone, come = (was & changed).nonzero()[0], (now & changed).nonzero()[0]
    weights = np.ones(len(gone) + len(come), np.int64)
    weights[: len(gone)] = -1
    return np.concatenate([gone, come + count]), weights


def differs(columns: tuple[Column, ...], types: Types) -> bool:
    """Returns whether the one row before and the one after have different bits."""
    rows = row_tuples(columns, types, False) if columns else [(), ()]
    return rows[0] != rows[1] if rows is not None else bool(_differ(1, columns, types)[0])


def _differ(count: int, columns: tuple[Column, ...], types: Types) -> Mask:
    """Returns whether row i and row count + i have different bits, for every i."""
    if not columns:
        return np.zeros(count, np.bool_)
    rows = row_tuples(columns, types, False)
    if rows is not None:
        return np.array([rows[i] != rows[count + i] for i in range(count)])
    before = np.arange(count)
    return ~key_codes.same_row(columns, before, columns, before + count, types)

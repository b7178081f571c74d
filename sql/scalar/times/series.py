"""Series of times at constant steps: range() over timestamps, as lists.

Law: the times from the start on, a step apart, as long as the end is not reached; none where the
step leads away from it. A step of months, or of days of a TIMESTAMPTZ, is on no list: it is not
the same length everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import (
    NotListedError,
    Operand,
    Values,
    beyond,
    both,
    computed,
    fixed,
    refuse_if,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.times.calendar import MICROS_PER_DAY
from ivm.sql.scalar.times.instants import TIME_LIMIT, ZONED, instant
from ivm.storage.values.canonical import interval_parts
from ivm.storage.values.column import Column, FixedColumn, Mask, column_from_arrow
from ivm.storage.values.types import ColumnType

_MOST = 2**31 - 1  # elements of a batch; Arrow's lists have offsets of 32 bits


def _range(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if not node.args.get("is_end_exclusive"):
        raise NotListedError("generate_series()")
    start, end = instant(compiler, node.args["start"]), instant(compiler, node.args["end"])
    output = compiler.type(node)
    if start.type.sql != end.type.sql or output.sql != f"{start.type.sql}[]":
        raise NotListedError(f"range() from {start.type} to {end.type}")
    step = _step(compiler.operand(node.args["step"]), days=start.type.sql != ZONED)
    first, last = fixed(start), fixed(end)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        a, b = first(columns, count), last(columns, count)
        starts, ends = np.broadcast_arrays(a.values, b.values)
        return _series(starts, ends, both(a.valid, b.valid), step, output)

    return computed(output, kernel, start, end)


def _step(operand: Operand, *, days: bool) -> int:
    """The microseconds of a constant step."""
    column = operand.constant
    if not isinstance(column, FixedColumn) or column.valid is not None:
        raise NotListedError("range() by a computed step")
    months, whole, nanos = [int(part[0]) for part in interval_parts(column.values)]
    step = whole * MICROS_PER_DAY + nanos // 1000
    if months or (whole and not days) or min(whole, nanos) < 0 < max(whole, nanos) or not step:
        raise NotListedError("range() by such a step")
    return step


def _series(
    starts: Values, ends: Values, valid: Mask | None, step: int, output: ColumnType
) -> Column:
    refuse_if(beyond(starts, TIME_LIMIT // 2) | beyond(ends, TIME_LIMIT // 2))
    counts = np.maximum(-((starts - ends) // step), 0)  # the quotient, rounded up
    if valid is not None:
        valid = np.broadcast_to(valid, counts.shape)
        counts = np.where(valid, counts, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    refuse_if(offsets[-1:] > _MOST)
    ordinals = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    times = np.repeat(starts, counts) + ordinals * step
    elements = pa.array(times).view(output.memory.value_type)
    mask = None if valid is None else pa.array(~valid)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, mask=mask)
    return column_from_arrow(lists.cast(output.memory), output)


_ARGUMENTS = ("start", "end", "step", "is_end_exclusive")
RULES: Rules = {exp.GenerateSeries: rule(_range, *_ARGUMENTS)}

"""What scalar kernels are made of: the kernel's type, typed terms, and NULL handling.

Law: a kernel's column is bit-equal to what DuckDB computes for the same rows, or the kernel raises
`UndecidedError` and DuckDB itself computes the batch. So a kernel needs not know how an error reads
nor whether a lazy branch would have skipped it: in doubt it gives the batch away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.delta_ops.operator import Kernel
from ivm.storage.values.column import Column, FixedColumn, Mask, null_column
from ivm.storage.values.types import WIDE, ColumnType, type_of

Values: TypeAlias = npt.NDArray[Any]
FixedKernel: TypeAlias = Callable[[Sequence[Column], int], FixedColumn]

BOOLEAN = type_of("BOOLEAN")
BIGINT = type_of("BIGINT")
DOUBLE = type_of("DOUBLE")
VARCHAR = type_of("VARCHAR")


class NotListedError(Exception):
    """A construct for which there is no kernel; its text names the construct."""


class UndecidedError(Exception):
    """A kernel met a batch that it cannot settle (overflow, division by zero, odd Unicode)."""


@dataclass(frozen=True)
class Operand:
    """A compiled subexpression.

    Attributes:
        type: DuckDB's type of it.
        kernel: computes it; a constant's kernel returns one row, whatever the row count.
        constant: the one-row column of an expression without columns, else None.
    """

    type: ColumnType
    kernel: Kernel
    constant: Column | None = None

    @property
    def is_null(self) -> bool:
        """True of a constant NULL."""
        valid = None if self.constant is None else self.constant.valid
        return valid is not None and not valid[0]


def constant(column: Column, type: ColumnType) -> Operand:
    """A term that is the same one-row column for every batch."""
    return Operand(type, lambda columns, count: column, column)


def null_term(type: ColumnType) -> Operand:
    """A constant NULL of `type`."""
    return constant(null_column(type, 1), type)


def fixed(term: Operand) -> FixedKernel:
    """The term's kernel, known to yield a `FixedColumn`."""
    if term.type.dtype is None:
        raise NotListedError(f"{term.type} values")
    return term.kernel  # type: ignore[return-value]


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Rows where both sides are not NULL."""
    if left is None:
        return right
    return left if right is None else left & right


def masked(values: Values, valid: Mask | None) -> FixedColumn:
    """A column of `values` with zero bits under NULL."""
    if valid is None:
        return FixedColumn(values)
    return FixedColumn(np.where(valid, values, np.zeros((), values.dtype)), valid)


def unary(term: Operand, output: ColumnType, compute: Callable[[Values], Values]) -> Operand:
    """A strict function of one fixed-width argument: NULL in, NULL out.

    Args:
        compute: values of `term.type` (zero bits under NULL) to values of `output.dtype`.
    """
    if term.is_null:
        return null_term(output)
    argument = fixed(term)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        column = argument(columns, count)
        return masked(compute(column.values), column.valid)

    return Operand(output, kernel)


def binary(
    left: Operand, right: Operand, output: ColumnType, compute: Callable[[Values, Values], Values]
) -> Operand:
    """A strict function of two fixed-width arguments; a constant side has one row (broadcast)."""
    return binary_checked(left, right, output, lambda a, b, valid: compute(a, b))


def binary_checked(
    left: Operand,
    right: Operand,
    output: ColumnType,
    compute: Callable[[Values, Values, Mask | None], Values],
) -> Operand:
    """As `binary`, for functions that must look at the valid rows alone to find an error."""
    if left.is_null or right.is_null:
        return null_term(output)
    first, second = fixed(left), fixed(right)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        a, b = first(columns, count), second(columns, count)
        valid = both(a.valid, b.valid)
        return masked(compute(a.values, b.values, valid), valid)

    return Operand(output, kernel)


def refuse_if(wrong: npt.NDArray[np.bool_]) -> None:
    """Give the batch to DuckDB if any row is marked."""
    if np.count_nonzero(wrong):  # several times faster than any() on a few rows
        raise UndecidedError


def round_half_away(values: Values) -> Values:
    """C's round: x.5 away from zero, the sign of zero kept."""
    whole = np.trunc(values)
    up = np.abs(values - whole) >= 0.5
    return np.where(up, whole + np.copysign(values.dtype.type(1), values), whole)


def beyond(values: Values, limit: int) -> Mask:
    """Integers above `limit` or below −`limit` (the least integer has no absolute value)."""
    result: Mask = (values > limit) | (values < -limit)
    return result


def expand(column: Column, count: int) -> Column:
    """A constant's one row as `count` rows."""
    return column if count == 1 else column.take(np.zeros(count, np.int64))


def is_wide(type: ColumnType) -> bool:
    """True of 16-byte types."""
    return type.dtype == WIDE

"""Operands, from which kernels are composed, and the helpers that all kernels share.

Contract: a kernel's column has the bits that DuckDB computes for the same rows; or the kernel
raises `UndecidedError`, and DuckDB computes the batch. Therefore a kernel need not know the words
of an error, nor whether a lazy branch would have avoided it: in doubt, the batch is undecided.

Invariants: fixed-width values have zero bits under NULL. What is computed of constants alone is a
constant; anything else has as many rows as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.delta_ops.operator import Kernel
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Mask,
    column_from_arrow,
    dictionary_encoded,
    null_column,
)
from ivm.storage.values.types import WIDE, ColumnType, type_of

Values: TypeAlias = npt.NDArray[Any]
FixedKernel: TypeAlias = Callable[[Sequence[Column], int], FixedColumn]

BOOLEAN = type_of("BOOLEAN")
BIGINT = type_of("BIGINT")
DOUBLE = type_of("DOUBLE")
VARCHAR = type_of("VARCHAR")


class NotListedError(Exception):
    """A construct has no kernel; the message names it."""


class UndecidedError(Exception):
    """A batch is left to DuckDB (overflow, division by zero, rare Unicode)."""


@dataclass(frozen=True)
class Operand:
    """A compiled subexpression.

    Attributes:
        type: its type in DuckDB.
        kernel: computes it; the kernel of a constant returns one row, whatever the row count.
        constant: the column, of one row, of a constant; else None.
    """

    type: ColumnType
    kernel: Kernel
    constant: Column | None = None

    @property
    def is_null(self) -> bool:
        """Returns whether it is a constant NULL."""
        valid = None if self.constant is None else self.constant.valid
        return valid is not None and not valid[0]


def constant(column: Column, type: ColumnType) -> Operand:
    """Makes a constant operand of a column of one row."""
    return Operand(type, lambda columns, count: column, column)


def null_operand(type: ColumnType) -> Operand:
    """Makes a constant NULL of `type`."""
    return constant(null_column(type, 1), type)


def computed(output: ColumnType, kernel: Kernel, *inputs: Operand) -> Operand:
    """Makes an operand of the kernel that computes it of others: a constant of constants.

    Raises:
        NotListedError: DuckDB has to compute the constant.
    """
    if any(operand.constant is None for operand in inputs):
        return Operand(output, kernel)
    try:
        with np.errstate(all="ignore"):
            return constant(kernel((), 1), output)
    except UndecidedError as undecided:
        raise NotListedError("a constant that DuckDB alone computes") from undecided


def fixed(operand: Operand) -> FixedKernel:
    """The operand's kernel, if its columns are `FixedColumn`s; else raises NotListedError."""
    if operand.type.dtype is None:
        raise NotListedError(f"{operand.type} values")
    return operand.kernel  # type: ignore[return-value]


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """The rows where neither side is NULL."""
    if left is None:
        return right
    return left if right is None else left & right


def masked(values: Values, valid: Mask | None) -> FixedColumn:
    """Makes a column of `values`, with zero bits under NULL."""
    if valid is None:
        return FixedColumn(values)
    return FixedColumn(np.where(valid, values, np.zeros((), values.dtype)), valid)


def unary(operand: Operand, output: ColumnType, compute: Callable[[Values], Values]) -> Operand:
    """Applies a function to one fixed-width operand; of NULL the result is NULL.

    Args:
        compute: values of `operand.type` (zero bits under NULL) to values of `output.dtype`.
    """
    if operand.is_null:
        return null_operand(output)
    argument = fixed(operand)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        column = argument(columns, count)
        values = column.values
        if column.valid is None and len(values) > 1 and values.strides == (0,):  # of a parameter
            return FixedColumn(np.broadcast_to(compute(values[:1]), len(values)))
        return masked(compute(values), column.valid)

    return computed(output, kernel, operand)


def binary(
    left: Operand, right: Operand, output: ColumnType, compute: Callable[[Values, Values], Values]
) -> Operand:
    """Applies a function to two fixed-width operands; a constant one has one row (broadcast)."""
    return binary_checked(left, right, output, lambda a, b, valid: compute(a, b))


def binary_checked(
    left: Operand,
    right: Operand,
    output: ColumnType,
    compute: Callable[[Values, Values, Mask | None], Values],
) -> Operand:
    """As `binary`, for functions that may fail only at rows without NULL."""
    if left.is_null or right.is_null:
        return null_operand(output)
    first, second = fixed(left), fixed(right)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        a, b = first(columns, count), second(columns, count)
        valid = both(a.valid, b.valid)
        return masked(compute(a.values, b.values, valid), valid)

    return computed(output, kernel, left, right)


def by_arrow(
    operand: Operand, output: ColumnType, compute: Callable[[pa.Array], pa.Array]
) -> Operand:
    """Applies a function to one operand of strings or nested values; of NULL the result is NULL.

    Args:
        compute: an array of `operand.type.memory` to one in a form that DuckDB exports `output` in.
    """
    if operand.is_null:
        return null_operand(output)
    argument = operand.kernel

    def kernel(columns: Sequence[Column], count: int) -> Column:
        return column_from_arrow(compute(argument(columns, count).array), output)  # type: ignore[union-attr]

    return computed(output, kernel, operand)


def refuse_if(wrong: npt.NDArray[np.bool_]) -> None:
    """Raises UndecidedError if any row is marked."""
    if np.count_nonzero(wrong):  # several times faster than any() on a few rows
        raise UndecidedError


def round_half_away(values: Values) -> Values:
    """Rounds as C's round does: x.5 away from zero, and −0.4 to −0.0."""
    truncated = np.trunc(values)
    up = np.abs(values - truncated) >= 0.5
    return np.where(up, truncated + np.copysign(values.dtype.type(1), values), truncated)


def beyond(values: Values, limit: int) -> Mask:
    """Marks integers above `limit` or below −`limit`."""
    # Not by abs(): the least integer has no absolute value.
    result: Mask = (values > limit) | (values < -limit)
    return result


def expand(column: Column, count: int) -> Column:
    """Repeats the one row of a constant."""
    if count == 1:
        return column
    encoded = dictionary_encoded(column)
    if isinstance(encoded, ArrowColumn) and not isinstance(encoded, DictionaryColumn):
        array = encoded.array
        if array.type == pa.large_string():  # a take costs ten times as much
            return ArrowColumn(pa.repeat(array[0], count))
    return encoded.take(np.zeros(count, np.int64))


def is_128_bit(type: ColumnType) -> bool:
    """Returns whether values have 16 bytes: HUGEINT, decimals of over 18 digits, UUID, INTERVAL."""
    return type.dtype == WIDE

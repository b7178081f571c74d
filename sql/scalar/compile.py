"""Scalar expressions compiled to numpy and Arrow kernels, if all their constructs are on the list.

Contract: a kernel has the bits, NULLs and errors that DuckDB has for the same rows (the tests
compare the two). It passes a batch to DuckDB where it cannot be sure of that. An expression with a
construct that is not on the list has no kernel, and DuckDB computes all its batches.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from ivm.delta_ops.operator import Kernel, Predicate
from ivm.sql.scalar import cast as scalar_cast
from ivm.sql.scalar import nested
from ivm.sql.scalar.logic import comparison, conditional, logic
from ivm.sql.scalar.numbers import arithmetic, bits, division, rounding
from ivm.sql.scalar.operands.constants import Fallback
from ivm.sql.scalar.operands.int128 import widen
from ivm.sql.scalar.operands.kernel import (
    BOOLEAN,
    NotListedError,
    Operand,
    UndecidedError,
    expand,
    fixed,
    is_128_bit,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler
from ivm.sql.scalar.strings import like, regexp_extract, string, string_forms, string_parts
from ivm.sql.scalar.times import instants, series, temporal
from ivm.storage.values.column import Column, FixedColumn, Mask, empty_column
from ivm.storage.values.types import ColumnType

_RULES = {
    **arithmetic.RULES,
    **bits.RULES,
    **scalar_cast.RULES,
    **comparison.RULES,
    **conditional.RULES,
    **division.RULES,
    **instants.RULES,
    **string_forms.RULES,
    **like.RULES,
    **logic.RULES,
    **nested.RULES,
    **regexp_extract.RULES,
    **rounding.RULES,
    **series.RULES,
    **string.RULES,
    **string_parts.RULES,
    **temporal.RULES,
}
_DEEPEST = 100  # levels of nesting; each is a few of Python's calls, of which 1,000 may nest
_FUNCTIONS = {
    **bits.FUNCTIONS,
    **instants.FUNCTIONS,
    **nested.FUNCTIONS,
    **string.FUNCTIONS,
    **temporal.FUNCTIONS,
}


def compile_scalar(
    expr: exp.Expr, types: Sequence[ColumnType], output: ColumnType, *, optimized: bool = True
) -> Kernel | None:
    """Compiles an expression to a kernel.

    Args:
        expr: its columns are c0, c1, …, positions in `types`.
        types: the types of the input columns.
        output: the type of `expr` as DuckDB's DESCRIBE gave it.
        optimized: DuckDB's optimizer rewrites it first, as in a query; not so in a CHECK.

    Returns:
        A function of (columns, row count) to a column of `output`, which raises EvaluationError
        where DuckDB fails; None if some construct is not on the list.
    """
    try:
        compiler, operand = _compile(expr, types)
    except NotListedError:
        return None
    if operand.type.sql != output.sql:
        return None
    return _finish(operand, compiler.inexact, Fallback(expr, types, output, optimized))


def compile_predicate(expr: exp.Expr, types: Sequence[ColumnType]) -> Predicate | None:
    """Compiles a condition to the mask of the rows where it is true (neither false nor NULL).

    Returns:
        A function of (columns, row count) to bool[n]; None as `compile_scalar` does.
    """
    try:
        compiler, operand = _compile(expr, types)
        operand = compiler.cast(operand, BOOLEAN)
    except NotListedError:
        return None
    return _finish_predicate(operand, compiler.inexact, Fallback(expr, types, BOOLEAN))


def explain_missing(expr: exp.Expr, types: Sequence[ColumnType]) -> str | None:
    """Names the first construct of `expr` that is not on the list; None if all are."""
    try:
        _compile(expr, types)
    except NotListedError as missing:
        return str(missing)
    return None


def cast_column(column: Column, source: ColumnType, target: ColumnType) -> Column | None:
    """Casts a column; None where DuckDB must do it."""
    if len(column) == 0:
        return empty_column(target)
    kernel = _cast_kernel(source, target)
    try:
        return None if kernel is None else kernel((column,), len(column))
    except UndecidedError:
        return None


@functools.lru_cache(256)
def _cast_kernel(source: ColumnType, target: ColumnType) -> Kernel | None:
    compiler = ExpressionCompiler((source,), _RULES, _FUNCTIONS, scalar_cast.cast)
    column = Operand(source, lambda columns, count: columns[0])
    try:
        cast = compiler.cast(column, target)
    except NotListedError:
        return None
    return _silenced(_widened(cast), compiler.inexact)


def _compile(expr: exp.Expr, types: Sequence[ColumnType]) -> tuple[ExpressionCompiler, Operand]:
    if _is_deep(expr):
        raise NotListedError("an expression nested too deeply for a kernel")
    compiler = ExpressionCompiler(types, _RULES, _FUNCTIONS, scalar_cast.cast)
    compiler.binder.learn(expr)
    return compiler, compiler.operand(expr)


def _is_deep(expr: exp.Expr) -> bool:
    """Returns whether the kernel would nest too many calls; each branch of a CASE is one."""
    waiting = [(expr, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            return True
        below = depth + 1 + len(node.args.get("ifs") or ())
        waiting.extend((child, below) for child in node.iter_expressions())
    return False


def _finish(operand: Operand, inexact: bool, fallback: Fallback) -> Kernel:
    """Repeats a constant in every row, and passes undecided batches to DuckDB."""
    column = operand.constant
    if column is not None:
        return lambda columns, count: expand(column, count)
    compute, type = _silenced(_widened(operand), inexact), operand.type

    def kernel(columns: Sequence[Column], count: int) -> Column:
        if count == 0:
            return empty_column(type)
        try:
            return compute(columns, count)
        except UndecidedError:
            return fallback.column(columns, count)

    return kernel


def _finish_predicate(operand: Operand, inexact: bool, fallback: Fallback) -> Predicate:
    column = operand.constant
    if column is not None:
        return lambda columns, count: expand(column, count).values  # type: ignore[union-attr]
    compute = _silenced(operand.kernel, inexact)

    def predicate(columns: Sequence[Column], count: int) -> Mask:
        if count == 0:
            return np.zeros(0, np.bool_)
        try:
            return compute(columns, count).values  # type: ignore[union-attr]
        except UndecidedError:
            return fallback.mask(columns, count)

    return predicate


def _widened(operand: Operand) -> Kernel:
    """Returns the kernel with 128-bit numbers in their stored form."""
    if not is_128_bit(operand.type) or not (operand.type.is_integer or operand.type.is_decimal):
        return operand.kernel
    compute = fixed(operand)

    def widened(columns: Sequence[Column], count: int) -> Column:
        column = compute(columns, count)
        return FixedColumn(widen(column.values), column.valid)

    return widened


def _silenced(kernel: Kernel, inexact: bool) -> Kernel:
    """Returns the kernel without numpy's warnings of floats that become ±Inf or NaN."""
    if not inexact:
        return kernel

    def silenced(columns: Sequence[Column], count: int) -> Column:
        with np.errstate(all="ignore"):
            return kernel(columns, count)

    return silenced

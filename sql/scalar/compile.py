"""Scalar expressions compiled to numpy and Arrow kernels, for what is tested equal to DuckDB.

Law: a kernel gives the bits, NULLs and errors that DuckDB gives for the same rows, or the
expression is not on the list and `compile_scalar` returns None; then DuckDB computes every batch.
A kernel that meets a batch it cannot settle asks DuckDB for that batch itself.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from ivm.delta_ops.operator import Kernel, Predicate
from ivm.sql.scalar import (
    arithmetic,
    comparison,
    conditional,
    division,
    like,
    logic,
    rounding,
    string,
    temporal,
    text_forms,
)
from ivm.sql.scalar import cast as scalar_cast
from ivm.sql.scalar.constants import Fallback
from ivm.sql.scalar.int128 import widen
from ivm.sql.scalar.kernel import (
    BOOLEAN,
    NotListedError,
    Operand,
    UndecidedError,
    expand,
    fixed,
    is_wide,
)
from ivm.sql.scalar.rules import ExpressionCompiler
from ivm.storage.values.column import Column, FixedColumn, Mask, empty_column
from ivm.storage.values.types import ColumnType

_RULES = {
    **arithmetic.RULES,
    **scalar_cast.RULES,
    **comparison.RULES,
    **conditional.RULES,
    **division.RULES,
    **text_forms.RULES,
    **like.RULES,
    **logic.RULES,
    **rounding.RULES,
    **string.RULES,
    **temporal.RULES,
}
_DEEPEST = 100
_FUNCTIONS = {**string.FUNCTIONS, **temporal.FUNCTIONS}


def compile_scalar(
    expr: exp.Expr, types: Sequence[ColumnType], output: ColumnType, *, optimized: bool = True
) -> Kernel | None:
    """The kernel of an expression.

    Args:
        expr: its columns are c0, c1, …, positions in `types`.
        types: the types of the input columns.
        output: the type of `expr` as DuckDB's DESCRIBE gave it.
        optimized: DuckDB evaluates it after its optimizer, as in a query; a CHECK as it stands.

    Returns:
        A function of (columns, row count) to a column of `output`, which raises EvaluationError
        where DuckDB fails; None if some construct is not on the list.
    """
    try:
        compiler, term = _compile(expr, types)
    except NotListedError:
        return None
    if term.type.sql != output.sql:
        return None
    return _finish(term, compiler.inexact, Fallback(expr, types, output, optimized))


def compile_predicate(expr: exp.Expr, types: Sequence[ColumnType]) -> Predicate | None:
    """The mask of rows where a condition is true (NULL counts as false).

    Returns:
        A function of (columns, row count) to bool[n], or None as `compile_scalar`.
    """
    try:
        compiler, term = _compile(expr, types)
        term = compiler.cast(term, BOOLEAN)
    except NotListedError:
        return None
    return _finish_predicate(term, compiler.inexact, Fallback(expr, types, BOOLEAN))


def explain_missing(expr: exp.Expr, types: Sequence[ColumnType]) -> str | None:
    """The first construct of `expr` that is not on the list, or None if all are."""
    try:
        _compile(expr, types)
    except NotListedError as missing:
        return str(missing)
    return None


def cast_column(column: Column, source: ColumnType, target: ColumnType) -> Column | None:
    """A column cast to another type, None where DuckDB must do it."""
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
    given = Operand(source, lambda columns, count: columns[0])
    try:
        cast = compiler.cast(given, target)
    except NotListedError:
        return None
    return _silenced(_widened(cast), compiler.inexact)


def _compile(expr: exp.Expr, types: Sequence[ColumnType]) -> tuple[ExpressionCompiler, Operand]:
    if _is_deep(expr):
        raise NotListedError("an expression nested too deeply for a kernel")
    compiler = ExpressionCompiler(types, _RULES, _FUNCTIONS, scalar_cast.cast)
    compiler.binder.learn(expr)
    return compiler, compiler.term(expr)


def _is_deep(expr: exp.Expr) -> bool:
    """Whether the kernel would be too many calls in one another; CASE is one for each branch."""
    waiting = [(expr, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            return True
        below = depth + 1 + len(node.args.get("ifs") or ())
        waiting.extend((child, below) for child in node.iter_expressions())
    return False


def _finish(term: Operand, inexact: bool, fallback: Fallback) -> Kernel:
    """Constants spread, empty batches settled, undecided batches given to DuckDB."""
    column = term.constant
    if column is not None:
        return lambda columns, count: expand(column, count)
    compute, type = _silenced(_widened(term), inexact), term.type

    def kernel(columns: Sequence[Column], count: int) -> Column:
        if count == 0:
            return empty_column(type)
        try:
            return compute(columns, count)
        except UndecidedError:
            return fallback.column(columns, count)

    return kernel


def _finish_predicate(term: Operand, inexact: bool, fallback: Fallback) -> Predicate:
    column = term.constant
    if column is not None:
        return lambda columns, count: expand(column, count).values  # type: ignore[union-attr]
    compute = _silenced(term.kernel, inexact)

    def predicate(columns: Sequence[Column], count: int) -> Mask:
        if count == 0:
            return np.zeros(0, np.bool_)
        try:
            return compute(columns, count).values  # type: ignore[union-attr]
        except UndecidedError:
            return fallback.mask(columns, count)

    return predicate


def _widened(term: Operand) -> Kernel:
    """The kernel with 16-byte numbers in their stored form."""
    if not is_wide(term.type) or not (term.type.is_integer or term.type.is_decimal):
        return term.kernel
    compute = fixed(term)

    def widened(columns: Sequence[Column], count: int) -> Column:
        column = compute(columns, count)
        return FixedColumn(widen(column.values), column.valid)

    return widened


def _silenced(kernel: Kernel, inexact: bool) -> Kernel:
    """Float operations that overflow or divide by zero give ±Inf or NaN, without a warning."""
    if not inexact:
        return kernel

    def silenced(columns: Sequence[Column], count: int) -> Column:
        with np.errstate(all="ignore"):
            return kernel(columns, count)

    return silenced

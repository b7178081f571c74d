"""Three-valued logic: AND, OR, NOT, IS [NOT] NULL, IS [NOT] TRUE / FALSE.

Values under NULL are false. Thus a conjunction or disjunction is true where the plain `&` or `|` of
the values is, and only validity needs Kleene's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import BOOLEAN, NotListedError, Operand, computed, fixed, unary
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.storage.values.column import Column, FixedColumn, Mask


def _boolean(compiler: ExpressionCompiler, expr: exp.Expr) -> Operand:
    operand = compiler.operand(expr)
    if operand.type.sql == "BOOLEAN":
        return operand
    return compiler.cast(operand, BOOLEAN)


def _true(column: FixedColumn) -> Mask:
    """The rows that are true, as values under NULL are false."""
    return column.values


def _false(column: FixedColumn) -> Mask:
    return ~column.values if column.valid is None else column.valid & ~column.values


def conjunction(left: Operand, right: Operand) -> Operand:
    """Computes AND: NULL unless one side is false or neither is NULL."""
    first, second = fixed(left), fixed(right)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        a, b = first(columns, count), second(columns, count)
        values = a.values & b.values
        if a.valid is None and b.valid is None:
            return FixedColumn(values)
        return FixedColumn(values, values | _false(a) | _false(b))

    return computed(BOOLEAN, kernel, left, right)


def disjunction(left: Operand, right: Operand) -> Operand:
    """Computes OR: NULL unless one side is true or neither is NULL."""
    first, second = fixed(left), fixed(right)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        a, b = first(columns, count), second(columns, count)
        values = a.values | b.values
        if a.valid is None and b.valid is None:
            return FixedColumn(values)
        return FixedColumn(values, values | (_false(a) & _false(b)))

    return computed(BOOLEAN, kernel, left, right)


def any_of(tests: Sequence[Operand]) -> Operand:
    """Computes OR of at least one test."""
    result, *rest = tests
    for test in rest:
        result = disjunction(result, test)
    return result


def negation(operand: Operand) -> Operand:
    return unary(operand, BOOLEAN, np.logical_not)


def is_null(operand: Operand) -> Operand:
    """Computes IS NULL of any type."""
    argument = operand.kernel

    def kernel(columns: Sequence[Column], count: int) -> Column:
        valid = argument(columns, count).valid
        return FixedColumn(np.zeros(count, np.bool_) if valid is None else ~valid)

    return computed(BOOLEAN, kernel, operand)


def _binary(
    join: Callable[[Operand, Operand], Operand],
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        return join(_boolean(compiler, node.this), _boolean(compiler, node.expression))

    return compile


def _not(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return _is_not_null(compiler.operand(node.this.this))
    return negation(_boolean(compiler, node.this))


def _is_not_null(operand: Operand) -> Operand:
    argument = operand.kernel

    def kernel(columns: Sequence[Column], count: int) -> Column:
        valid = argument(columns, count).valid
        return FixedColumn(np.ones(count, np.bool_) if valid is None else valid)

    return computed(BOOLEAN, kernel, operand)


def _is(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if isinstance(node.expression, exp.Null):
        return is_null(compiler.operand(node.this))
    if not isinstance(node.expression, exp.Boolean):
        raise NotListedError(f"IS {node.expression}")
    operand = _boolean(compiler, node.this)
    argument, known = fixed(operand), _true if node.expression.this else _false

    def kernel(columns: Sequence[Column], count: int) -> Column:
        return FixedColumn(known(argument(columns, count)))

    return computed(BOOLEAN, kernel, operand)


RULES: Rules = {
    exp.And: rule(_binary(conjunction), "this", "expression"),
    exp.Or: rule(_binary(disjunction), "this", "expression"),
    exp.Not: rule(_not, "this"),
    exp.Is: rule(_is, "this", "expression"),
}

"""CASE, IF, COALESCE, IFNULL, NULLIF.

Contract: every branch is computed for all rows, where DuckDB computes it only for the rows that
need it. The difference shows only when a branch fails: then the batch is undecided.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.logic.comparison import arrow_input, compare
from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.kernel import (
    BOOLEAN,
    NotListedError,
    Operand,
    computed,
    expand,
    fixed,
    null_operand,
    refuse_if,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Mask
from ivm.storage.values.types import ColumnType


def choose(test: Operand, then: Operand, other: Operand) -> Operand:
    """Takes `then` where `test` is true, `other` where it is false or NULL."""
    if then.type.dtype is None:
        _need_strings(then.type)
        return _choose_arrow(test, then, other)
    condition, first, second = fixed(test), fixed(then), fixed(other)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        mask = condition(columns, count).values
        a, b = first(columns, count), second(columns, count)
        values = np.where(mask, *int128.in_one_form(a.values, b.values))
        return FixedColumn(values, _choose_valid(mask, a.valid, b.valid))

    return computed(then.type, kernel, test, then, other)


def _need_strings(type: ColumnType) -> None:
    """Raises NotListedError for nested values and BIT: Arrow's choice of them is not tested."""
    if not (type.is_string or type.base in ("ENUM", "BLOB")):
        raise NotListedError(f"a choice of {type}")


def _choose_valid(mask: Mask, first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None and second is None:
        return None
    valid: Mask = np.where(
        mask, True if first is None else first, True if second is None else second
    )
    return None if valid.all() else valid


def _choose_arrow(test: Operand, then: Operand, other: Operand) -> Operand:
    condition, first, second = fixed(test), arrow_input(then), arrow_input(other)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        mask = pa.array(condition(columns, count).values)
        chosen = pc.if_else(mask, first(columns, count), second(columns, count))
        return ArrowColumn(chosen)

    return computed(then.type, kernel, test, then, other)


def _case(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    default = node.args.get("default")
    result = null_operand(type) if default is None else compiler.cast_to(default, type)
    for branch in reversed(node.args["ifs"]):
        if _fails(branch.args["true"]):
            result = _unless(_test(compiler, node.this, branch.this), result)
            continue
        then = compiler.cast_to(branch.args["true"], type)
        result = choose(_test(compiler, node.this, branch.this), then, result)
    return result


def _fails(then: exp.Expr) -> bool:
    """Returns whether a branch is a call of error()."""
    return isinstance(then, exp.Anonymous) and then.name.lower() == "error"


def _unless(test: Operand, other: Operand) -> Operand:
    """Takes `other`; undecided if `test` is true in a row, so that DuckDB raises the error."""
    condition = fixed(test)
    result = other.kernel if other.constant is None else _every_row(other).kernel

    def kernel(columns: Sequence[Column], count: int) -> Column:
        refuse_if(condition(columns, count).values)
        return result(columns, count)

    return computed(other.type, kernel, test, other)


def _test(compiler: ExpressionCompiler, subject: exp.Expr | None, when: exp.Expr) -> Operand:
    """The condition of a branch, in every row also if it is constant."""
    if subject is not None:
        left, right = compiler.compared([subject, when])
        test = compare("=", left, right)
    else:
        test = compiler.cast(compiler.operand(when), BOOLEAN)
    return test if test.constant is None else _every_row(test)


def _every_row(operand: Operand) -> Operand:
    column = operand.constant
    assert column is not None
    return Operand(operand.type, lambda columns, count: expand(column, count))


def _if(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    otherwise = node.args.get("false")
    other = null_operand(type) if otherwise is None else compiler.cast_to(otherwise, type)
    then = compiler.cast_to(node.args["true"], type)
    return choose(_test(compiler, None, node.this), then, other)


def _coalesce(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    parts = [compiler.cast_to(part, type) for part in (node.this, *node.expressions)]
    result = parts.pop()
    while parts:
        result = _first_not_null(parts.pop(), result)
    return result


def _first_not_null(first: Operand, second: Operand) -> Operand:
    if first.constant is not None:
        return second if first.is_null else _every_row(first)
    if first.type.dtype is None:
        _need_strings(first.type)
        return _first_not_null_arrow(first, second)
    one, two = fixed(first), fixed(second)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        a = one(columns, count)
        if a.valid is None:
            return a
        b = two(columns, count)
        values = np.where(a.valid, *int128.in_one_form(a.values, b.values))
        return FixedColumn(values, _choose_valid(a.valid, None, b.valid))

    return computed(first.type, kernel, first, second)


def _first_not_null_arrow(first: Operand, second: Operand) -> Operand:
    one, two = first.kernel, arrow_input(second)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        array = one(columns, count).array  # type: ignore[union-attr]
        if array.null_count == 0:
            return ArrowColumn(array)
        return ArrowColumn(pc.coalesce(array, two(columns, count)))

    return computed(first.type, kernel, first, second)


def _nullif(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    left, right = compiler.compared([node.this, node.expression])
    type: ColumnType = compiler.type(node)
    value = compiler.cast_to(node.this, type)
    test = compare("=", left, right)
    return choose(test if test.constant is None else _every_row(test), null_operand(type), value)


RULES: Rules = {
    exp.Case: rule(_case, "this", "ifs", "default"),
    exp.If: rule(_if, "this", "true", "false"),
    exp.Coalesce: rule(_coalesce, "this", "expressions"),
    exp.Nullif: rule(_nullif, "this", "expression"),
}

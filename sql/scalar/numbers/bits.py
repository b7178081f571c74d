"""Bits of integers (& | xor ~ << >>), and the classes of floats and times (isnan, isinf, isfinite).

Law: a shift to the left that loses bits, or of a negative number, fails in DuckDB: undecided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import (
    BOOLEAN,
    NotListedError,
    Operand,
    Values,
    binary,
    is_128_bit,
    refuse_if,
    unary,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, FunctionRules, Rules, arguments, rule
from ivm.sql.scalar.strings.string import constant_integer
from ivm.sql.scalar.times.instants import is_finite
from ivm.storage.values.types import ColumnType


def _need_word(type: ColumnType) -> ColumnType:
    if not type.is_integer or is_128_bit(type):
        raise NotListedError(f"bits of {type}")
    return type


def _bitwise(
    compute: Callable[[Values, Values], Values],
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type = _need_word(compiler.type(node))
        left, right = [compiler.cast_to(side, type) for side in (node.this, node.expression)]
        return binary(left, right, type, compute)

    return compile


def _not(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = _need_word(compiler.type(node))
    return unary(compiler.cast_to(node.this, type), type, np.invert)


def _shift(*, left: bool) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type, count = _need_word(compiler.type(node)), constant_integer(node.expression)
        assert type.dtype is not None
        most = int(np.iinfo(type.dtype).max)
        if not 0 <= count < most.bit_length():
            raise NotListedError(f"a shift by {count}")
        operand = compiler.cast_to(node.this, type)
        if not left:
            return unary(operand, type, lambda values: values >> count)

        def compute(values: Values) -> Values:
            refuse_if((values < 0) | (values > most >> count))
            return values << count

        return unary(operand, type, compute)

    return compile


def _class(
    name: str, test: Callable[[Any], Any]
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        (argument,) = arguments(node)
        operand = compiler.operand(argument)
        if name == "isfinite" and operand.type.is_date_or_timestamp:
            return is_finite(operand)
        if not operand.type.is_float:
            raise NotListedError(f"{name}({operand.type})")
        return unary(operand, BOOLEAN, test)

    return compile


RULES: Rules = {
    exp.BitwiseAnd: rule(_bitwise(np.bitwise_and), "this", "expression"),
    exp.BitwiseOr: rule(_bitwise(np.bitwise_or), "this", "expression"),
    exp.BitwiseXor: rule(_bitwise(np.bitwise_xor), "this", "expression"),
    exp.BitwiseNot: rule(_not, "this"),
    exp.BitwiseLeftShift: rule(_shift(left=True), "this", "expression"),
    exp.BitwiseRightShift: rule(_shift(left=False), "this", "expression"),
    exp.IsNan: rule(_class("isnan", np.isnan), "this"),
    exp.IsInf: rule(_class("isinf", np.isinf), "this"),
}
FUNCTIONS: FunctionRules = {"isfinite": _class("isfinite", np.isfinite)}

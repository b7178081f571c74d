"""Comparisons: = <> < <= > >=, IS [NOT] DISTINCT FROM, BETWEEN, IN.

Law: both sides are cast to the one type in which DuckDB compares them. NaN equals NaN and is the
greatest float, −0.0 equals 0.0, strings order by their bytes. Types with another order than their
stored form has (ENUM, INTERVAL, JSON, nested) are not on the list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.logic.logic import any_of, conjunction, is_null, negation
from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.constants import fold_all
from ivm.sql.scalar.operands.kernel import (
    BOOLEAN,
    NotListedError,
    Operand,
    Values,
    binary,
    both,
    computed,
    fixed,
    is_128_bit,
    null_operand,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.storage.values import dictionary
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Mask,
    column_from_arrow,
)
from ivm.storage.values.types import ColumnType

Compare = Callable[[Values, Values], Mask]

_PLAIN: dict[str, Compare] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ORDERED = ("BOOLEAN", "DATE", "TIME", "TIME_NS", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS")
_MORE_ORDERED = ("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE")


def _float_less(a: Values, b: Values) -> Mask:
    less: Mask = ~(a >= b) & (a == a)  # NaN is not less than anything
    return less


def _float_equal(a: Values, b: Values) -> Mask:
    equal: Mask = (a == b) | ((a != a) & (b != b))  # in numpy NaN is not equal to itself
    return equal


_FLOAT: dict[str, Compare] = {
    "=": _float_equal,
    "<>": lambda a, b: ~_float_equal(a, b),
    "<": _float_less,
    "<=": lambda a, b: ~_float_less(b, a),
    ">": lambda a, b: _float_less(b, a),
    ">=": lambda a, b: ~_float_less(a, b),
}
# Cheaper forms for a constant that is no NaN on the right: only a NaN on the left needs care,
# which is greater.
_FLOAT_TO_NUMBER: dict[str, Compare] = {
    **_PLAIN,
    ">": lambda a, b: ~(a <= b),
    ">=": lambda a, b: ~(a < b),
}
_MIRROR = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compare_int128(sign: str) -> Compare:
    compare: Callable[[int128.Int128, int128.Int128], Mask] = {
        "=": int128.equal,
        "<>": lambda a, b: ~int128.equal(a, b),
        "<": int128.less,
        "<=": lambda a, b: ~int128.less(b, a),
        ">": lambda a, b: int128.less(b, a),
        ">=": lambda a, b: ~int128.less(a, b),
    }[sign]
    return lambda a, b: compare(int128.load(a), int128.load(b))


def _compare_fixed(sign: str, type: ColumnType) -> Compare:
    if type.is_float:
        return _FLOAT[sign]
    if type.sql in ("HUGEINT",) or (type.is_decimal and is_128_bit(type)):
        return _compare_int128(sign)
    if type.sql == "UUID" and sign in ("=", "<>"):
        return _compare_int128(sign)
    if (type.is_integer or type.is_decimal) and not is_128_bit(type):
        return _PLAIN[sign]
    if type.sql in _ORDERED or type.sql in _MORE_ORDERED:
        return _PLAIN[sign]
    raise NotListedError(f"{type} {sign} {type}")


def compare(sign: str, left: Operand, right: Operand) -> Operand:
    """Compares two operands of one type."""
    if left.is_null or right.is_null:
        return null_operand(BOOLEAN)
    if left.type.sql in ("VARCHAR", "BLOB") or (left.type.base == "ENUM" and sign in ("=", "<>")):
        return _compare_strings(sign, left, right)
    if left.type.is_float and _is_number(right):
        return binary(left, right, BOOLEAN, _FLOAT_TO_NUMBER[sign])
    if left.type.is_float and _is_number(left):
        return binary(right, left, BOOLEAN, _FLOAT_TO_NUMBER[_MIRROR[sign]])
    return binary(left, right, BOOLEAN, _compare_fixed(sign, left.type))


def _is_number(operand: Operand) -> bool:
    return isinstance(operand.constant, FixedColumn) and not np.isnan(operand.constant.values[0])


def arrow_input(operand: Operand) -> Callable[[Sequence[Column], int], pa.Array | pa.Scalar]:
    """Returns a function to the operand's Arrow array, or to a scalar for all rows of several."""
    if operand.constant is not None:
        array = operand.constant.array  # type: ignore[union-attr]
        return lambda columns, count: array if count == 1 else array[0]
    kernel = operand.kernel
    return lambda columns, count: kernel(columns, count).array  # type: ignore[union-attr]


def _compare_strings(sign: str, left: Operand, right: Operand) -> Operand:
    if sign in ("=", "<>") and right.constant is not None:
        return _compare_dictionary(sign, left, right)
    return _compare_arrow(sign, left, right)


def _compare_dictionary(sign: str, left: Operand, right: Operand) -> Operand:
    """Tests equality with a constant; strings of a dictionary are compared by their numbers."""
    first = Operand(left.type, lambda columns, count: columns[0])
    in_arrow = fixed(_compare_arrow(sign, first, right))
    value, string = left.kernel, right.constant.array[0].as_py()  # type: ignore[union-attr]

    def kernel(columns: Sequence[Column], count: int) -> Column:
        column = value(columns, count)
        if not isinstance(column, DictionaryColumn):
            return in_arrow([column], count)
        codes = column.codes
        number = dictionary.number(string)  # at each batch: the string may have one by now
        found = codes == number if sign == "=" else codes != number
        valid = column.valid
        return FixedColumn(found if valid is None else found & valid, valid)

    return computed(BOOLEAN, kernel, left)


def _compare_arrow(sign: str, left: Operand, right: Operand) -> Operand:
    operate, first, second = _ARROW[sign], arrow_input(left), arrow_input(right)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        return column_from_arrow(operate(first(columns, count), second(columns, count)), BOOLEAN)

    return computed(BOOLEAN, kernel, left, right)


def _comparison(sign: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        left, right = compiler.compared([node.this, node.expression])
        return compare(sign, left, right)

    return compile


def _between(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    value, low, high = compiler.compared([node.this, node.args["low"], node.args["high"]])
    return conjunction(compare(">=", value, low), compare("<=", value, high))


def _distinct(negated: bool) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        left, right = compiler.compared([node.this, node.expression])
        same = not_distinct(left, right)
        return same if negated else negation(same)

    return compile


def not_distinct(left: Operand, right: Operand) -> Operand:
    """Tests IS NOT DISTINCT FROM, which is never NULL."""
    equal = fixed(compare("=", left, right))
    if left.is_null or right.is_null:
        return _both_null(left, right)
    first, second = left.kernel, right.kernel

    def kernel(columns: Sequence[Column], count: int) -> Column:
        same = equal(columns, count)
        if same.valid is None:
            return FixedColumn(same.values)
        a, b = first(columns, count).valid, second(columns, count).valid
        if a is None or b is None:
            return FixedColumn(same.values)
        return FixedColumn(same.values | ~(a | b))

    return computed(BOOLEAN, kernel, left, right)


def _both_null(left: Operand, right: Operand) -> Operand:
    return is_null(right if left.is_null else left)


def _in(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    sides = [node.this, *node.expressions]
    type = compiler.binder.common(sides)
    value = compiler.cast_to(node.this, type)
    literals = [side for side in node.expressions if isinstance(side, exp.Literal)]
    others = [side for side in node.expressions if not isinstance(side, exp.Literal)]
    # From three literals on, one look-up in all of them beats a comparison with each. Floats are
    # compared one by one: a search would not find NaN.
    if len(literals) < 3 or type.is_float or is_128_bit(type):
        literals, others = [], node.expressions
    tests = [compare("=", value, compiler.cast_to(side, type)) for side in others]
    return any_of([*_membership(value, literals), *tests])


def _membership(value: Operand, literals: Sequence[exp.Expr]) -> list[Operand]:
    """Returns one test for all literals, or none if there are none."""
    if not literals:
        return []
    choices = fold_all(literals, value.type)
    if isinstance(choices, ArrowColumn):
        return [_string_membership(value, choices.array)]
    _compare_fixed("=", value.type)
    return [_fixed_membership(value, np.unique(choices.values))]


def _fixed_membership(value: Operand, choices: Values) -> Operand:
    argument, last = fixed(value), len(choices) - 1

    def kernel(columns: Sequence[Column], count: int) -> Column:
        column = argument(columns, count)
        position = np.minimum(np.searchsorted(choices, column.values), last)
        found = choices[position] == column.values
        return FixedColumn(
            found if column.valid is None else found & column.valid, both(column.valid, None)
        )

    return computed(BOOLEAN, kernel, value)


def _string_membership(value: Operand, choices: pa.Array) -> Operand:
    if value.type.sql != "VARCHAR" and value.type.base != "ENUM":
        raise NotListedError(f"{value.type} IN (…)")
    argument, options = value.kernel, pc.SetLookupOptions(value_set=choices)

    def kernel(columns: Sequence[Column], count: int) -> Column:
        column = argument(columns, count)
        found = pc.is_in(column.array, options=options)  # type: ignore[union-attr]
        values = column_from_arrow(found, BOOLEAN).values  # type: ignore[union-attr]
        return FixedColumn(values, column.valid)

    return computed(BOOLEAN, kernel, value)


RULES: Rules = {
    exp.EQ: rule(_comparison("="), "this", "expression"),
    exp.NEQ: rule(_comparison("<>"), "this", "expression"),
    exp.LT: rule(_comparison("<"), "this", "expression"),
    exp.LTE: rule(_comparison("<="), "this", "expression"),
    exp.GT: rule(_comparison(">"), "this", "expression"),
    exp.GTE: rule(_comparison(">="), "this", "expression"),
    exp.NullSafeEQ: rule(_distinct(True), "this", "expression"),
    exp.NullSafeNEQ: rule(_distinct(False), "this", "expression"),
    exp.Between: rule(_between, "this", "low", "high"),
    exp.In: rule(_in, "this", "expressions"),
}

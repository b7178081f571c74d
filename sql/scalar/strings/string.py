"""String functions on Arrow's kernels: length, ||, concat, substring, trim, replace, case, search.

Law: positions and lengths count code points, as DuckDB's do. Upper and lower case are computed for
code points up to U+017F, where Arrow's and DuckDB's Unicode tables agree; a batch with others is
undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.logic.comparison import arrow_input
from ivm.sql.scalar.operands.constants import fold, is_constant, sql_of
from ivm.sql.scalar.operands.kernel import (
    BIGINT,
    BOOLEAN,
    VARCHAR,
    NotListedError,
    Operand,
    UndecidedError,
    by_arrow,
    computed,
    null_operand,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, FunctionRules, Rules, arguments, rule
from ivm.storage.values.column import ArrowColumn, Column

# Arrow imports pandas for the first value that it makes of Python's, which must not be a late one:
# as a program ends, and what it has left open is written, Python can import it no more.
EMPTY = pa.scalar("", pa.large_string())
# The first UTF-8 byte of U+0140 to U+017F, up to which the case mappings agree.
_LATIN = 0xC5


def string_operand(compiler: ExpressionCompiler, expr: exp.Expr) -> Operand:
    """Compiles a VARCHAR expression; other types are not on the list."""
    operand = compiler.operand(expr)
    if operand.type.sql != "VARCHAR":
        raise NotListedError(f"a string function of {operand.type}")
    return operand


def constant_string(compiler: ExpressionCompiler, expr: exp.Expr) -> str:
    """The value of a constant string that is not NULL."""
    operand = string_operand(compiler, expr)
    if operand.constant is None or operand.is_null:
        raise NotListedError(f"a computed pattern: {sql_of(expr)}")
    return operand.constant.array[0].as_py()  # type: ignore[union-attr, no-any-return]


def constant_integer(expr: exp.Expr) -> int:
    """The value of a constant integer that is not NULL."""
    if not is_constant(expr):
        raise NotListedError(f"a computed length: {sql_of(expr)}")
    column = fold(f"CAST({sql_of(expr)} AS BIGINT)", BIGINT)
    if column.valid is not None:
        raise NotListedError("a NULL length")
    return int(column.values[0])  # type: ignore[union-attr]


def highest_byte(array: pa.Array) -> int:
    """The greatest byte of the strings of a large_string array, 0 if there is none."""
    # The array may be a slice: only the bytes between its first and last offset are its own.
    offsets = np.frombuffer(array.buffers()[1], np.int64)
    start, stop = offsets[array.offset], offsets[array.offset + len(array)]
    if start == stop:
        return 0
    return int(np.frombuffer(array.buffers()[2], np.uint8)[start:stop].max())


def need_ascii(array: pa.Array) -> None:
    """Raises UndecidedError if a string has a code point beyond ASCII."""
    if highest_byte(array) > 127:
        raise UndecidedError


def _case_mapping(map: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    def compute(array: pa.Array) -> pa.Array:
        if highest_byte(array) > _LATIN:
            raise UndecidedError
        return map(array)

    return compute


def _mapped(
    compute: Callable[[pa.Array], pa.Array],
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        return by_arrow(string_operand(compiler, node.this), VARCHAR, compute)

    return compile


def length(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    """Compiles the length of a VARCHAR expression."""
    return by_arrow(string_operand(compiler, node.this), compiler.type(node), pc.utf8_length)


def _byte_length(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    (argument,) = arguments(node)
    return by_arrow(string_operand(compiler, argument), compiler.type(node), pc.binary_length)


def _join(operands: Sequence[Operand]) -> Operand:
    """Concatenates strings; NULL if one is NULL."""
    inputs = [arrow_input(operand) for operand in operands]

    def kernel(columns: Sequence[Column], count: int) -> Column:
        parts: list[Any] = [get(columns, count) for get in inputs]
        # The last argument is the separator.
        return ArrowColumn(pc.binary_join_element_wise(*parts, EMPTY))

    return computed(VARCHAR, kernel, *operands)


def _without_null(operand: Operand, separator: str) -> Operand:
    """Puts a separator before a string, and makes NULL the empty string."""
    argument, between = operand.kernel, pa.scalar(separator, pa.large_string())

    def kernel(columns: Sequence[Column], count: int) -> Column:
        array = argument(columns, count).array  # type: ignore[union-attr]
        if separator:
            array = pc.binary_join_element_wise(between, array, EMPTY)
        return ArrowColumn(pc.coalesce(array, EMPTY) if array.null_count else array)

    return computed(VARCHAR, kernel, operand)


def _append(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if compiler.type(node).sql != "VARCHAR":
        raise NotListedError(f"|| to {compiler.type(node)}")
    operands = [compiler.cast_to(side, VARCHAR) for side in (node.this, node.expression)]
    if any(operand.is_null for operand in operands):
        return null_operand(VARCHAR)
    return _join(operands)


def _concat(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    if compiler.type(node).sql != "VARCHAR":
        raise NotListedError(f"concat() to {compiler.type(node)}")
    operands = [compiler.cast_to(part, VARCHAR) for part in node.expressions]
    return _join([_without_null(operand, "") for operand in operands])


def _concat_with(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    first, *rest = node.expressions
    separator = constant_string(compiler, first)
    operands = [compiler.cast_to(part, VARCHAR) for part in rest]
    joined = _join([_without_null(operand, separator) for operand in operands])
    return by_arrow(joined, VARCHAR, _slice(len(separator), None)) if separator else joined


def _slice(start: int, stop: int | None) -> Callable[[pa.Array], pa.Array]:
    return lambda array: pc.utf8_slice_codeunits(array, start=start, stop=stop)


def _substring(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, start = string_operand(compiler, node.this), constant_integer(node.args["start"])
    length = node.args.get("length")
    count = None if length is None else constant_integer(length)
    if count is not None and count < 0:
        raise NotListedError("substring() of negative length")
    return by_arrow(operand, VARCHAR, _substring_slice(start, count))


def _substring_slice(start: int, count: int | None) -> Callable[[pa.Array], pa.Array]:
    # Positions count from 1. DuckDB's position 0 is before the first code point, and uses up one of
    # the count; negative positions count from the end.
    if start > 0:
        return _slice(start - 1, None if count is None else start - 1 + count)
    if start == 0:
        return _slice(0, None if count is None else max(count - 1, 0))
    stop = None if count is None or start + count >= 0 else start + count
    return _slice(start, stop)


def _left(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    return by_arrow(
        string_operand(compiler, node.this), VARCHAR, _slice(0, constant_integer(node.expression))
    )


def _right(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, count = string_operand(compiler, node.this), constant_integer(node.expression)
    return by_arrow(operand, VARCHAR, _slice(0, 0) if count == 0 else _slice(-count, None))


def _trim(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    trim = {"LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}.get(
        node.args.get("position", "BOTH"), pc.utf8_trim
    )
    operand, given = string_operand(compiler, node.this), node.args.get("expression")
    characters = _SPACES if given is None else constant_string(compiler, given)
    if not characters:
        return operand
    return by_arrow(operand, VARCHAR, lambda array: trim(array, characters=characters))


# DuckDB trims Unicode's category "space separator" only; Arrow's own white space has tabs and
# newlines too.
_SPACES = " \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACES += "\u202f\u205f\u3000"


def _replace(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = string_operand(compiler, node.this)
    old = constant_string(compiler, node.expression)
    new = constant_string(compiler, node.args["replacement"])
    if not old:
        return operand
    return by_arrow(
        operand, VARCHAR, lambda array: pc.replace_substring(array, pattern=old, replacement=new)
    )


def search(operand: Operand, name: str, pattern: str) -> Operand:
    """Searches for a constant string by one of Arrow's functions."""
    options = pc.MatchSubstringOptions(pattern)
    return by_arrow(operand, BOOLEAN, lambda array: pc.call_function(name, [array], options))


def _searching(name: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        subject, pattern = arguments(node)
        return search(string_operand(compiler, subject), name, constant_string(compiler, pattern))

    return compile


def _position(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = string_operand(compiler, node.this)
    pattern = constant_string(compiler, node.args["substr"])

    def compute(array: pa.Array) -> pa.Array:
        need_ascii(array)  # Arrow's offset is in bytes, DuckDB's in code points
        found = pc.find_substring(array, pattern=pattern)
        return pc.add(found, 1).cast(pa.int64())

    return by_arrow(operand, compiler.type(node), compute)


RULES: Rules = {
    exp.Upper: rule(_mapped(_case_mapping(pc.utf8_upper)), "this"),
    exp.Lower: rule(_mapped(_case_mapping(pc.utf8_lower)), "this"),
    exp.DPipe: rule(_append, "this", "expression", safe=True),
    exp.Concat: rule(_concat, "expressions", safe=True, coalesce=True),
    exp.ConcatWs: rule(_concat_with, "expressions", safe=True, coalesce=True),
    exp.Substring: rule(_substring, "this", "start", "length"),
    exp.Left: rule(_left, "this", "expression"),
    exp.Right: rule(_right, "this", "expression"),
    exp.Trim: rule(_trim, "this", "position", "expression"),
    exp.Replace: rule(_replace, "this", "expression", "replacement"),
    exp.StartsWith: rule(_searching("starts_with"), "this", "expression"),
    exp.EndsWith: rule(_searching("ends_with"), "this", "expression"),
    exp.Contains: rule(_searching("match_substring"), "this", "expression"),
    exp.StrPosition: rule(_position, "this", "substr"),
}
FUNCTIONS: FunctionRules = {
    "strlen": _byte_length,
    "prefix": _searching("starts_with"),
    "suffix": _searching("ends_with"),
}

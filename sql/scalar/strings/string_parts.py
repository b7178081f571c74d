"""split_part, lpad, rpad and regexp_replace with constants beside the string, on Arrow's kernels.

Law: lengths count code points, as DuckDB's do; a part that is not there is the empty string.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import VARCHAR, NotListedError, Operand, by_arrow
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.strings.like import regular_expression
from ivm.sql.scalar.strings.string import EMPTY, constant_integer, constant_string, string_operand


def _split_part(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = string_operand(compiler, node.this)
    separator = constant_string(compiler, node.args["delimiter"])
    number = constant_integer(node.args["part_index"])
    if not separator or number < 1:
        raise NotListedError("split_part() from the end, or without a separator")
    return by_arrow(operand, VARCHAR, lambda array: _part(array, separator, number))


def _part(array: pa.Array, separator: str, number: int) -> pa.Array:
    parts = pc.split_pattern(array, pattern=separator)
    offsets = np.asarray(parts.offsets, np.int64)
    places = offsets[:-1] + number - 1
    found = parts.values.take(pa.array(places, mask=places >= offsets[1:]))
    there = pc.coalesce(found, EMPTY)
    return pc.if_else(array.is_valid(), there, None) if array.null_count else there


def _pad(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, width = string_operand(compiler, node.this), constant_integer(node.expression)
    padding = constant_string(compiler, node.args["fill_pattern"])
    if len(padding) != 1 or width < 0:
        raise NotListedError("lpad() with several characters")
    pad = pc.utf8_lpad if node.args.get("is_left") else pc.utf8_rpad

    def compute(array: pa.Array) -> pa.Array:
        padded = pad(array, width=width, padding=padding)
        return pc.utf8_slice_codeunits(padded, start=0, stop=width)

    return by_arrow(operand, VARCHAR, compute)


def _regexp_replace(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = string_operand(compiler, node.this)
    pattern = regular_expression(compiler, node.expression)
    new, modifiers = constant_string(compiler, node.args["replacement"]), ""
    if node.args.get("modifiers") is not None:
        modifiers = constant_string(compiler, node.args["modifiers"])
    if "\\" in new or modifiers not in ("", "g"):
        raise NotListedError("regexp_replace() with groups or options")
    options = pc.ReplaceSubstringOptions(
        pattern, new, max_replacements=None if modifiers == "g" else 1
    )
    return by_arrow(
        operand,
        VARCHAR,
        lambda array: pc.call_function("replace_substring_regex", [array], options),
    )


RULES: Rules = {
    exp.SplitPart: rule(_split_part, "this", "delimiter", "part_index"),
    exp.Pad: rule(_pad, "this", "expression", "fill_pattern", "is_left"),
    exp.RegexpReplace: rule(
        _regexp_replace, "this", "expression", "replacement", "modifiers", single_replace=True
    ),
}

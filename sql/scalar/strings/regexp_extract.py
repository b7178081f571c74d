"""regexp_extract of a constant pattern and group, by Arrow's extract_regex.

Law: without a match, and for a group that takes no part in it, the result is the empty string.
Arrow gives groups by their names alone, so each gets one; no other part of a pattern changes.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import VARCHAR, NotListedError, Operand, by_arrow
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.strings.like import regular_expression
from ivm.sql.scalar.strings.string import EMPTY, constant_integer, string_operand

# An escaped character, a class, or the beginning of a group; what else there is does not matter.
_PART = re.compile(
    r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?!\?)|\(\?P<(?P<name>\w+)>", re.DOTALL
)


def _regexp_extract(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = string_operand(compiler, node.this)
    pattern, group = regular_expression(compiler, node.expression), node.args["group"]
    if not compiler.type(group).is_integer:
        raise NotListedError("regexp_extract() with options or names")
    number = constant_integer(group)
    options, place = _of_group(pattern, number)

    def compute(array: pa.Array) -> pa.Array:
        groups = pc.call_function("extract_regex", [array], options)
        found = pc.coalesce(pc.struct_field(groups, [place]), EMPTY)
        return pc.if_else(array.is_valid(), found, None) if array.null_count else found

    return by_arrow(operand, VARCHAR, compute)


def _of_group(pattern: str, number: int) -> tuple[pc.ExtractRegexOptions, int]:
    """Arrow's pattern, and the place of a group among those that it gives; 0 is the whole match."""
    named, names = _with_names(pattern if number else f"({pattern})")
    place = number - 1 if number else 0
    options = pc.ExtractRegexOptions(named)
    found = pc.call_function("extract_regex", [pa.array([], pa.large_string())], options)
    told = [field.name for field in found.type]
    if told != names or place >= len(names):
        raise NotListedError(f"the groups of the regular expression {pattern!r}")
    return options, place


def _with_names(pattern: str) -> tuple[str, list[str]]:
    """The pattern with a name for each group, and the names in their order."""
    names: list[str] = []

    def named(part: re.Match[str]) -> str:
        if part[0] == "(":
            names.append(f"group_{len(names)}")
            return f"(?P<{names[-1]}>"
        if part["name"]:
            names.append(part["name"])
        return part[0]

    return _PART.sub(named, pattern), names


RULES: Rules = {
    exp.RegexpExtract: rule(
        _regexp_extract, "this", "expression", "group", null_if_pos_overflow=True
    ),
}

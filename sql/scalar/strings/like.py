"""LIKE, NOT LIKE, ILIKE and regexp_matches with a constant pattern.

Law: `%` matches any string, `_` one code point (also a newline); there is no escape character
unless ESCAPE names one. ILIKE compares lower-case forms, computed here for ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.logic.logic import negation
from ivm.sql.scalar.operands.kernel import BOOLEAN, NotListedError, Operand, by_arrow
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.strings.string import constant_string, need_ascii, search, string_operand

Match = Callable[[pa.Array], pa.Array]
# A pattern is a list of literal strings and the wildcards ANY (%) and ONE (_).
_ANY, _ONE = object(), object()
_SHAPES = {
    ("literal", "%"): "starts_with",
    ("%", "literal"): "ends_with",
    ("%", "literal", "%"): "match_substring",
}


def _tokens(pattern: str, escape: str) -> list[object]:
    tokens: list[object] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            literal = next(letters, None)
            if literal is None:
                raise NotListedError("LIKE pattern that ends in its escape character")
            _append(tokens, literal)
        elif letter in "%_":
            tokens.append(_ANY if letter == "%" else _ONE)
        else:
            _append(tokens, letter)
    return [t for i, t in enumerate(tokens) if not (t is _ANY and i and tokens[i - 1] is _ANY)]


def _append(tokens: list[object], letter: str) -> None:
    if tokens and isinstance(tokens[-1], str):
        tokens[-1] += letter
    else:
        tokens.append(letter)


def _matcher(tokens: list[object]) -> Match:
    """Chooses the cheapest Arrow function for the pattern."""
    literals = [t for t in tokens if isinstance(t, str)]
    shape = ["literal" if isinstance(t, str) else "%" if t is _ANY else "_" for t in tokens]
    if shape == ["literal"]:
        literal = pa.scalar(literals[0], pa.large_string())
        return lambda array: pc.equal(array, literal)
    name = _SHAPES.get(tuple(shape), "match_substring_regex")
    options = pc.MatchSubstringOptions(literals[0] if tuple(shape) in _SHAPES else _regex(tokens))
    return lambda array: pc.call_function(name, [array], options)


def _regex(tokens: list[object]) -> str:
    parts = [_quoted(t) if isinstance(t, str) else ".*" if t is _ANY else "." for t in tokens]
    return rf"(?s)\A{''.join(parts)}\z"


def _quoted(literal: str) -> str:
    if "\0" in literal:
        raise NotListedError("LIKE pattern with a zero byte")
    return re.sub(r"[^A-Za-z0-9_\x80-\U0010ffff]", lambda m: "\\" + m.group(), literal)


def _like(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    return _match(compiler, node, "")


def _escape(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    escape = constant_string(compiler, node.expression)
    if not isinstance(node.this, exp.Like) or len(escape) != 1:
        raise NotListedError("ESCAPE")
    return _match(compiler, node.this, escape)


def _match(compiler: ExpressionCompiler, node: exp.Expr, escape: str) -> Operand:
    pattern = constant_string(compiler, node.expression)
    found = by_arrow(
        string_operand(compiler, node.this), BOOLEAN, _matcher(_tokens(pattern, escape))
    )
    return negation(found) if node.args.get("negate") else found


def _ilike(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    pattern = constant_string(compiler, node.expression)
    if not pattern.isascii():
        raise NotListedError("ILIKE with a pattern beyond ASCII")
    match = _matcher(_tokens(pattern.lower(), ""))

    def compute(array: pa.Array) -> pa.Array:
        need_ascii(array)
        return match(pc.ascii_lower(array))

    found = by_arrow(string_operand(compiler, node.this), BOOLEAN, compute)
    return negation(found) if node.args.get("negate") else found


# Case folding, the classes of Unicode and (?<name>…) differ between the versions of RE2 that Arrow
# and DuckDB contain.
_VERSIONED = re.compile(r"\\[pP]|\(\?[a-zA-Z]*i|\(\?<|\[:\^?(?!ascii)|\\[QC]")


def regular_expression(compiler: ExpressionCompiler, expr: exp.Expr) -> str:
    """A constant pattern: both Arrow and DuckDB search by RE2 with its default options."""
    pattern = constant_string(compiler, expr)
    if _VERSIONED.search(pattern) or "\0" in pattern:
        raise NotListedError(f"the regular expression {pattern!r}")
    options = pc.MatchSubstringOptions(pattern)
    try:
        pc.call_function("match_substring_regex", [pa.array([], pa.large_string())], options)
    except pa.ArrowInvalid as error:
        raise NotListedError(f"the regular expression {pattern!r}") from error
    return pattern


def _regexp_matches(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    pattern = regular_expression(compiler, node.expression)
    return search(string_operand(compiler, node.this), "match_substring_regex", pattern)


RULES: Rules = {
    exp.Like: rule(_like, "this", "expression", "negate"),
    exp.ILike: rule(_ilike, "this", "expression", "negate"),
    exp.Escape: rule(_escape, "this", "expression"),
    exp.RegexpLike: rule(_regexp_matches, "this", "expression"),
}

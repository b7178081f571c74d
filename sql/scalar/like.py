"""LIKE, NOT LIKE, ILIKE and regexp_matches with a constant pattern.

Law: `%` is any text, `_` one code point (also a newline); there is no escape character unless
ESCAPE names one. ILIKE compares lower-case forms, computed here for ASCII text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.kernel import BOOLEAN, NotListedError, Operand, UndecidedError
from ivm.sql.scalar.logic import negation
from ivm.sql.scalar.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.string import constant_text, highest_byte, search, text_of, text_to_fixed

Match = Callable[[pa.Array], pa.Array]
# A pattern is a list of literal texts and the wildcards ANY (%) and ONE (_).
_ANY, _ONE = object(), object()
_SHAPES = {
    ("text", "%"): "starts_with",
    ("%", "text"): "ends_with",
    ("%", "text", "%"): "match_substring",
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
    """The cheapest Arrow function that decides the pattern."""
    texts = [t for t in tokens if isinstance(t, str)]
    shape = ["text" if isinstance(t, str) else "%" if t is _ANY else "_" for t in tokens]
    if shape == ["text"]:
        text = pa.scalar(texts[0], pa.large_string())
        return lambda array: pc.equal(array, text)
    name = _SHAPES.get(tuple(shape), "match_substring_regex")
    options = pc.MatchSubstringOptions(texts[0] if tuple(shape) in _SHAPES else _regex(tokens))
    return lambda array: pc.call_function(name, [array], options)


def _regex(tokens: list[object]) -> str:
    parts = [_quoted(t) if isinstance(t, str) else ".*" if t is _ANY else "." for t in tokens]
    return rf"(?s)\A{''.join(parts)}\z"


def _quoted(text: str) -> str:
    if "\0" in text:
        raise NotListedError("LIKE pattern with a zero byte")
    return re.sub(r"[^A-Za-z0-9_\x80-\U0010ffff]", lambda m: "\\" + m.group(), text)


def _like(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    return _match(compiler, node, "")


def _escape(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    escape = constant_text(compiler, node.expression)
    if not isinstance(node.this, exp.Like) or len(escape) != 1:
        raise NotListedError("ESCAPE")
    return _match(compiler, node.this, escape)


def _match(compiler: ExpressionCompiler, node: exp.Expr, escape: str) -> Operand:
    pattern = constant_text(compiler, node.expression)
    found = text_to_fixed(text_of(compiler, node.this), BOOLEAN, _matcher(_tokens(pattern, escape)))
    return negation(found) if node.args.get("negate") else found


def _ilike(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    pattern = constant_text(compiler, node.expression)
    if not pattern.isascii():
        raise NotListedError("ILIKE with a pattern beyond ASCII")
    match = _matcher(_tokens(pattern.lower(), ""))

    def compute(array: pa.Array) -> pa.Array:
        if highest_byte(array) > 127:
            raise UndecidedError
        return match(pc.ascii_lower(array))

    found = text_to_fixed(text_of(compiler, node.this), BOOLEAN, compute)
    return negation(found) if node.args.get("negate") else found


# Case folding and classes of Unicode follow the tables of each library's own version.
_VERSIONED = re.compile(r"\\[pP]|\(\?[a-zA-Z]*i|\[:\^?(?!ascii)|\\[QC]")


def _regexp_matches(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    """Both sides are RE2 with its default options."""
    pattern = constant_text(compiler, node.expression)
    if _VERSIONED.search(pattern) or "\0" in pattern:
        raise NotListedError(f"the regular expression {pattern!r}")
    options = pc.MatchSubstringOptions(pattern)
    try:
        pc.call_function("match_substring_regex", [pa.array([], pa.large_string())], options)
    except pa.ArrowInvalid as error:
        raise NotListedError(f"the regular expression {pattern!r}") from error
    return search(text_of(compiler, node.this), "match_substring_regex", pattern)


RULES: Rules = {
    exp.Like: rule(_like, "this", "expression", "negate"),
    exp.ILike: rule(_ilike, "this", "expression", "negate"),
    exp.Escape: rule(_escape, "this", "expression"),
    exp.RegexpLike: rule(_regexp_matches, "this", "expression"),
}

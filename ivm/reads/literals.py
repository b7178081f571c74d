"""Literals lifted out of a query's text, so that texts that differ only in them are one.

Law: the text means its shape with the literals as the values of its parameters. A literal is lifted
only where it is compared with something in a WHERE, or added to something and the like before it;
the plan must show that the literal's own type does not matter there (see `lifted_types`). Integers
that are bounds of range() or generate_series() are BIGINTs whatever their own type is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ivm.sql.statements.text.tokens import Token, tokens

PREFIX = "ivm_"
"""The names of lifted literals begin with it; a text that has it keeps its literals."""

_COMPARED = frozenset(("=", "==", "<", ">", "<=", ">=", "<>", "!=", "BETWEEN", "AND"))
_AFTER = frozenset(("", "AND", "OR", ")", "ORDER", "GROUP", "LIMIT", "OFFSET", ";"))
_END = Token("", "", 0)
_COSTLY = frozenset(("JOIN", "OVER", "WITH", "UNION", "INTERSECT", "EXCEPT", "PIVOT", "UNPIVOT"))
_SERIES = frozenset(("RANGE", "GENERATE_SERIES"))
_SIGNS = frozenset(("+", "-", "*", "%", "//"))
_NO_OPERAND = frozenset(("", "(", ",", *_SIGNS, "SELECT", "$", "?"))
_SIMPLE = 60
"""Tokens of a simple text."""


@dataclass(frozen=True)
class Shape:
    """A text without its literals.

    Attributes:
        text: with a named parameter for each literal.
        literals: their values by name.
        simple: it is one SELECT without joins: compiling it costs no more than a flush.
    """

    text: str
    literals: Mapping[str, int | str]
    simple: bool


def shape_of(text: str, *, of_source: bool = False) -> Shape:
    """The shape of a query.

    Args:
        text: one SELECT.
        of_source: it gives the rows of a change, which takes its columns by their positions: the
            bounds of range() and generate_series() and what is added are lifted, too.
    """
    found = tokens(text)
    words = [token.word for token in found]
    simple = len(found) <= _SIMPLE and words.count("SELECT") <= 1 and _COSTLY.isdisjoint(words)
    where = words.index("WHERE") if "WHERE" in words else len(words)
    signed = _compared(found, where)
    plain = set[int]()
    if of_source:
        signed |= _bounds(words)
        plain = _added(words[:where]) - signed
    if not (signed or plain) or PREFIX in text.lower():
        return Shape(text, {}, simple)
    return Shape(*_lifted(text, found, signed, plain), simple)


def literal_value(found: Sequence[Token]) -> int | str | None:
    """The value of tokens that are one literal of 64 bits or a plain string; None of others."""
    negative = len(found) == 2 and found[0].word == "-"
    return _value(found[-1], negative=negative) if len(found) == 1 + negative else None


def _compared(found: Sequence[Token], start: int) -> set[int]:
    """The tokens behind a number that may be literals which something is compared with."""
    compared = set[int]()
    for i, (_, after) in enumerate(pairwise((*found, _END))):
        if i <= start or after.word not in _AFTER or (after is not _END and not after.word):
            continue
        negative = found[i - 1].word == "-"
        if found[i - 1 - negative].word in _COMPARED:
            compared.add(i)
    return compared


def _bounds(words: Sequence[str]) -> set[int]:
    """The tokens that are integers, and with their signs all the arguments of a series."""
    bounds = set[int]()
    for i, word in enumerate(words):
        if word not in _SERIES or words[i + 1 : i + 2] != ["("] or ")" not in words[i:]:
            continue
        arguments, at = set[int](), i + 2
        while words[at - 1] != ")":
            at += words[at] == "-"
            if not words[at].isdecimal() or words[at + 1] not in (",", ")"):
                break
            arguments.add(at)
            at += 2
        else:
            bounds |= arguments
    return bounds


def _added(words: Sequence[str]) -> set[int]:
    """The tokens that are integers beside a sign of arithmetic, 0 and what has a sign aside."""
    added = set[int]()
    for i in range(1, len(words) - 1):
        if not words[i].isdecimal() or not words[i].strip("0") or words[i - 1] in ("$", "?"):
            continue
        behind = words[i - 1] in _SIGNS and words[i - 2] not in _NO_OPERAND
        if behind or (words[i - 1] not in _SIGNS and words[i + 1] in _SIGNS):
            added.add(i)
    return added


def _lifted(
    text: str, found: Sequence[Token], signed: Collection[int], plain: Collection[int]
) -> tuple[str, Mapping[str, int | str]]:
    """The text with parameters for these tokens, where they are literals, and the values.

    Args:
        signed: those to which a sign before them belongs.
        plain: others.
    """
    literals: dict[str, int | str] = {}
    parts, at = list[str](), 0
    for i in sorted({*signed, *plain}):
        negative = i in signed and found[i - 1].word == "-"
        value = _value(found[i], negative=negative)
        if value is None:
            continue
        name = f"{PREFIX}{len(literals) + 1}"
        literals[name] = value
        parts += [text[at : found[i - negative].start], "$", name]
        at = found[i].end
    return "".join([*parts, text[at:]]), literals


def _value(token: Token, *, negative: bool) -> int | str | None:
    """The value of a literal of 64 bits or of a plain string; None for any other token."""
    if token.word.isdecimal() and token.word.isascii():
        number = -int(token.word) if negative else int(token.word)
        return number if -(1 << 63) <= number < 1 << 63 else None
    written = token.text
    plain = len(written) > 1 and written[0] == written[-1] == "'" and "\0" not in written
    return written[1:-1].replace("''", "'") if plain and not negative else None

"""Expressions of a change as texts in which parameters stand as columns.

Contract: the text means what the user's does if each column `?0`, `?1`, … of it holds the value of
the parameter at its place in `parameters`. Expressions with a subquery, a window or DEFAULT are not
read: DuckDB runs the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.sql.statements.text.tokens import Token, depths
from ivm.storage.identifiers import quote

_UNREAD = frozenset(("SELECT", "WITH", "RETURNING", "OVER", "DEFAULT", "PIVOT", "UNPIVOT"))
_QUERIES = frozenset(("FROM", "VALUES", "TABLE"))  # begin a query behind a parenthesis

_FIRST = quote("?0")


class Expression(NamedTuple):
    """An expression and its parameters.

    Attributes:
        text: with a column `"?0"`, `"?1"`, … for each parameter.
        parameters: the index (from 0) or name of each of them.
    """

    text: str
    parameters: tuple[int | str, ...] = ()

    @property
    def is_parameter(self) -> bool:
        """Returns whether it is one parameter and nothing else."""
        return self.text == _FIRST


class Marks:
    """Numbers the parameters of a statement from left to right.

    Args:
        count: the `?` that precede.
        named: whether parameters precede that are written with `$`.
    """

    def __init__(self, count: int = 0, *, named: bool = False) -> None:
        self._count = count
        self._named = named

    @property
    def mixed(self) -> bool:
        """Returns whether `?` stands beside `$a`, which DuckDB refuses, or a number follows it."""
        return self._named and self._count > 0

    def expression(self, script: str, tokens: Sequence[Token]) -> Expression | None:
        """Reads an expression; None if it is to be left to DuckDB."""
        if not tokens or any(token.word in _UNREAD for token in tokens) or _has_query(tokens):
            return None
        text, at = "", tokens[0].start
        found: list[int | str] = []
        for start, end, parameter in self._parameters(tokens):
            text += script[at:start] + quote(f"?{len(found)}")
            found.append(parameter)
            at = end
        return Expression(text + script[at : tokens[-1].end], tuple(found))

    def numbered(self, script: str, tokens: Sequence[Token]) -> str:
        """The text of tokens with each `?` written as `$` and its number, from 1."""
        text, at = "", tokens[0].start
        for start, end, parameter in self._parameters(tokens):
            name = parameter + 1 if isinstance(parameter, int) else parameter
            text += f"{script[at:start]}${name}"
            at = end
        return text + script[at : tokens[-1].end]

    def _parameters(self, tokens: Sequence[Token]) -> list[tuple[int, int, int | str]]:
        """Start, end, and index or name of each parameter."""
        found: list[tuple[int, int, int | str]] = []
        for i, token in enumerate(tokens):
            if token.word == "?":
                found.append((token.start, token.end, self._count))
                self._count += 1
                following = tokens[i + 1 : i + 2]
                self._named |= any(t.start == token.end and t.word.isdigit() for t in following)
            elif token.word == "$" and i + 1 < len(tokens):
                name = tokens[i + 1]
                self._named = True
                key = int(name.text) - 1 if name.text.isdigit() else name.text
                found.append((token.start, name.end, key))
        return found


def _has_query(tokens: Sequence[Token]) -> bool:
    """Returns whether there is a subquery, or a clause; `extract(year FROM day)` has none."""
    words = [token.word for token in tokens]
    if _QUERIES.isdisjoint(words):
        return False
    return any(
        word in _QUERIES and (before == "(" or (word == "FROM" and not depth))
        for before, word, depth in zip(["(", *words], words, depths(tokens), strict=False)
    )

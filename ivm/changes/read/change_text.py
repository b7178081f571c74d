"""The text of a change, whose pieces name their parameters without the pieces before them.

Invariant: a piece is the user's text between two tokens, never rendered from a tree. Only `?`
becomes `$1`, `$2`, …, and the letters of `$Name` small ones, as DuckDB compares such names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ivm.ingest.not_fast import NotFastError
from ivm.ingest.parameters import Params
from ivm.sql.statements.changes.clauses import Clauses, Span, clauses_of
from ivm.sql.statements.text.cached_by_text import kept
from ivm.sql.statements.text.tokens import Token, kept_tokens, text_of
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold


class ChangeText:
    """A change with numbered parameters, and their values.

    Args:
        text: the statement.
        params: as the user gave them.

    Raises:
        InputError: a value has no parameter; DuckDB, which gets pieces, would not notice.
    """

    def __init__(self, text: str, params: Params) -> None:
        self.text, self.tokens, self._names = _read(text)
        self._values = _by_name(params)
        surplus = [name for name in self._values if name not in self._names]
        if surplus:
            raise InputError(
                f"there are no parameters for the values {', '.join(surplus)}: give each one value"
            )

    @property
    def clauses(self) -> Clauses:
        """The clauses, as spans of the tokens."""
        return clauses_of(self.text)

    @property
    def prefix(self) -> str:
        """The WITH clause before the verb, "" without."""
        return self.piece(Span(0, self.clauses.verb))

    def within(self, span: Span) -> Sequence[Token]:
        """The tokens of a span."""
        return span.of(self.tokens)

    def piece(self, span: Span) -> str:
        """The text of a span."""
        return text_of(self.text, self.within(span))

    def behind(self, begin: int) -> str:
        """The text from a token to the end."""
        return text_of(self.text, self.tokens[begin:])

    def words(self, span: Span) -> list[str]:
        """The words of a span."""
        return [token.word for token in self.within(span)]

    def first_word(self, span: Span) -> str:
        """The first word of a span behind opening parentheses; "" if there is none."""
        return next((word for word in self.words(span) if word != "("), "")

    def values(self) -> list[Any]:
        """The values of all parameters."""
        return list(self._values.values())

    def demand_fit(self) -> None:
        """Raises NotFastError unless each parameter has a value."""
        if self._names != self._values.keys():
            raise NotFastError("a parameter has no value")

    def params(self, sql: str) -> Any:
        """The values of the parameters that `sql` names; None if it names none."""
        if not self._values:
            return None
        names = _read(sql).names
        return {name: self._values[name] for name in names if name in self._values} or None


class _Text(NamedTuple):
    """A statement that names its parameters, its tokens, and the names."""

    text: str
    tokens: Sequence[Token]
    names: frozenset[str]


@kept(texts=256, long_texts=1)
def _read(text: str) -> _Text:
    named = _named(text)
    found = kept_tokens(named)
    return _Text(named, found, _parameters(found))


def _parameters(found: Sequence[Token]) -> frozenset[str]:
    words = ["", *[t.word for t in found]]
    return frozenset([t.text for t, mark in zip(found, words, strict=False) if mark == "$"])


def _by_name(params: Params) -> dict[str, Any]:
    if params is None:
        return {}
    if isinstance(params, Mapping):
        return {fold(str(name)): value for name, value in params.items()}
    return {str(i): value for i, value in enumerate(params, 1)}


def _named(text: str) -> str:
    """The text with every `?` and `?1` as `$1`, and every `$Name` as `$name`: they are the same."""
    if "?" not in text and "$" not in text:
        return text
    pieces, done, number = [], 0, 0
    found = kept_tokens(text)
    for i, token in enumerate(found):
        follower = found[i + 1] if i + 1 < len(found) else None
        if token.word == "$" and follower is not None:
            pieces += [text[done : follower.start], fold(follower.text)]
            done = follower.end
        if token.word != "?":
            continue
        numbered = follower is not None and follower.start == token.end and follower.text.isdigit()
        number += not numbered
        pieces += [text[done : token.start], "$" if numbered else f"${number}"]
        done = token.end
    return "".join([*pieces, text[done:]])

"""Cuts a change into its clauses, as texts, and finds the parameters of each piece.

Invariant: a piece is the user's text between two tokens, never rendered from a tree. Only `?`
becomes `$1`, `$2`, …, so that a piece names its parameters without the pieces before it, and the
letters of `$Name` small ones, as DuckDB compares such names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ivm.ingest.not_fast import NotFastError
from ivm.ingest.parameters import Params
from ivm.sql.statements.text.cached_by_text import kept
from ivm.sql.statements.text.tokens import Reader, Token, kept_tokens, text_of
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold


class Clauses:
    """The tokens of one change, its parameters numbered.

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

    def reader(self, at: int = 0) -> Reader:
        """A reader whose next token is number `at`."""
        return Reader(self.tokens, at)

    def verb(self, word: str) -> int:
        """The number of the first token `word` outside parentheses: there a WITH clause ends."""
        return self.find(0, word)

    def piece(self, begin: int, end: int) -> str:
        """The text of the tokens from `begin` to before `end`."""
        return text_of(self.text, self.tokens[begin:end])

    def words(self, begin: int, end: int) -> list[str]:
        """The words of the tokens from `begin` to before `end`."""
        return [token.word for token in self.tokens[begin:end]]

    def first_word(self, begin: int, end: int) -> str:
        """The first of these words behind opening parentheses; "" if there is none."""
        return next((word for word in self.words(begin, end) if word != "("), "")

    def find(self, begin: int, *words: str) -> int:
        """The number of the first token from `begin`, outside parentheses, where `words` follow one
        another; the count of tokens if they nowhere do."""
        return self.reader(begin).index(*words)

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

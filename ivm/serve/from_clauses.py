"""What stands in the FROM clauses of a statement, by DuckDB's tokens.

Law: a source of rows is a name, or a plain string, which DuckDB takes for one, or a call. A name
with other signs than letters may be one of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ivm.access.functions import allowed
from ivm.sql.statements.text.cached_by_text import kept
from ivm.sql.statements.text.tokens import Token, is_name, kept_tokens, unquoted

_BEFORE = frozenset(("FROM", "JOIN", "TABLE", "USING"))
_AFTER = frozenset(
    (
        *("SELECT", "VALUES", "WITH", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER"),
        *("LIMIT", "OFFSET", "FETCH", "FOR", "UNION", "INTERSECT", "EXCEPT", "RETURNING"),
    )
)
_CALLS = frozenset(("EXTRACT", "SUBSTRING", "TRIM", "OVERLAY"))
"""The functions that have a FROM of their own."""
_BY_ROWS = frozenset(("PIVOT", "PIVOT_WIDER", "GETVARIABLE"))
"""The words by which names of columns come from rows, or from the session."""


class Source(NamedTuple):
    """What rows come from.

    Attributes:
        name: its parts, in lower case; () if it is none, as of `E'…'`.
        is_call: of a function.
        token: the first one.
    """

    name: tuple[str, ...]
    is_call: bool
    token: Token


def sources(found: Sequence[Token]) -> Iterator[Source]:
    """The sources in a statement's FROM clauses, from left to right, those in subqueries, too."""
    opened: list[bool] = []  # of each parenthesis around: whether it stands in a FROM clause
    called = [""]  # the words before these parentheses
    in_from = expected = False
    for at, token in enumerate(found):
        word = token.word
        if word == "(":
            opened.append(in_from)
            called.append(found[at - 1].word if at else "")
            in_from = expected
        elif word == ")":
            in_from, expected = bool(opened and opened.pop()), False
            del called[len(opened) + 1 :]
        elif word in _BEFORE and not _names_columns(found, at):
            in_from = expected = called[-1] not in _CALLS  # as in EXTRACT(year FROM …)
        elif word == ",":
            expected = in_from
        elif word in _AFTER:
            in_from = expected = False
        elif expected and word not in ("LATERAL", "ONLY"):
            expected = False
            yield _source(found, at)


@kept(texts=512, long_texts=8)
def means_by_catalog(text: str) -> bool:
    """Returns whether names in a statement mean the same as long as they do in the catalog.

    Not those of a file, or of what a table is pivoted to, which change without a commit.
    """
    found = kept_tokens(text)
    return all(_is_plain(each) for each in sources(found)) and _BY_ROWS.isdisjoint(
        [token.word for token in found]
    )


def _is_plain(source: Source) -> bool:
    if source.is_call:
        return source.name[-1] in allowed().tables
    return bool(source.name) and all(map(str.isidentifier, source.name))


def _names_columns(found: Sequence[Token], at: int) -> bool:
    """Returns whether a word is the USING of a join, whose FROM clause goes on behind it."""
    return found[at].word == "USING" and [token.word for token in found[at + 1 : at + 2]] == ["("]


def _source(found: Sequence[Token], at: int) -> Source:
    """The source that begins at a token."""
    first, parts = found[at], list[str]()
    if first.text[:1] == "'":
        return Source((first.text[1:-1].replace("''", "'").lower(),), False, first)
    while at < len(found) and is_name(found[at]):
        parts.append(unquoted(found[at]).lower())
        if at + 1 >= len(found) or found[at + 1].word != ".":
            break
        at += 2
    is_call = bool(parts) and [token.word for token in found[at + 1 : at + 2]] == ["("]
    return Source(tuple(parts), is_call, first)

"""Which conditions of an UPDATE or DELETE are of its source alone, so that it reads fewer rows.

Law: a condition whose every name is qualified by the source's alias means in a WHERE clause of the
source's query what it means in the statement. Calls stay where they are: some give other values
each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.sql.statements.tokens import Token, is_name, unquoted
from ivm.storage.identifiers import fold

_WORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "ILIKE")
)
"""Words that are no names where they stand in a condition without a dot."""


def is_of_source(part: Sequence[Token], alias: str) -> bool:
    """Returns whether a condition is of the source alone.

    Args:
        part: its tokens, without a query among them.
        alias: of the source.
    """
    at, named = 0, False
    while at < len(part):
        token, following = part[at], [t.word for t in part[at + 1 : at + 4]]
        if token.word == "$":
            at += 2  # a parameter and its name
        elif not is_name(token):
            at += 1
        elif following[:1] == ["."] and fold(unquoted(token)) == fold(alias):
            if following[2:] in (["("], ["."]):
                return False
            at, named = at + 3, True
        elif token.word in _WORDS and following[:1] != ["."]:
            at += 1
        else:
            return False
    return named

"""Which conditions of an UPDATE or DELETE are of its sources alone, so that fewer rows are read.

Law: a condition means in a WHERE clause of the sources' query what it means in the statement, if
each of its names is qualified by a source's alias, or is the name of nothing that the changed table
has. Calls stay where they are: some give other values each time, or tell the time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ivm.sql.plan.built_in import FACTS
from ivm.sql.resolve.clock import WORDS
from ivm.sql.statements.text.tokens import Token, is_name, unquoted
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import rows

_WORDS = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "ILIKE")
)
"""Words that are no names where they stand in a condition without a dot."""
_RESERVED = """SELECT keyword_name FROM duckdb_keywords()
WHERE keyword_category IN ('reserved', 'type_function')"""


def is_of_sources(
    part: Sequence[Token], aliases: Sequence[str], taken: frozenset[str] | None
) -> bool:
    """Returns whether a condition is of the sources alone.

    Args:
        part: its tokens, without a query among them.
        aliases: of the sources.
        taken: the folded names that mean something of the changed table; None if any may.
    """
    known = {fold(alias) for alias in aliases}
    at, named = 0, False
    while at < len(part):
        token, following = part[at], [t.word for t in part[at + 1 : at + 4]]
        if token.word == "$":
            at += 2  # a parameter and its name
        elif not is_name(token):
            at += 1
        elif following[:1] == ["."] and fold(unquoted(token)) in known:
            if following[2:] in (["("], ["."]):
                return False
            at, named = at + 3, True
        elif token.word in _WORDS and following[:1] != ["."]:
            at += 1
        elif following[:1] in (["."], ["("]) or taken is None or _may_be_other(token, taken):
            return False
        else:
            at, named = at + 1, True
    return named


def _may_be_other(token: Token, taken: frozenset[str]) -> bool:
    """Returns whether a name may be no column of a source, nor of a type."""
    name = fold(unquoted(token))
    return name in taken or (bool(token.word) and (name in WORDS or name in _reserved()))


@functools.cache
def _reserved() -> frozenset[str]:
    with FACTS.borrow() as facts:
        return frozenset([name for (name,) in rows(facts, _RESERVED)])

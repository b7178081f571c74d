"""Conditions by which a query gives the keys of the rows that an UPDATE or DELETE changes.

Law: `key IN (query)` is true for the rows whose key is among the query's rows. So is `EXISTS (FROM
source AS s WHERE s.x = t.key AND …)` for `SELECT s.x FROM source AS s WHERE …`, if the other
conditions are of the source alone. That the query of IN reads none of the changed table's columns
shows when it is run by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.changes.read.source_conditions import is_of_sources
from ivm.changes.read.sources import alias_of
from ivm.sql.statements.changes.keyed_changes import conjuncts
from ivm.sql.statements.nodes.nodes import Name
from ivm.sql.statements.text.tokens import Reader, Token, text_of
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold

_ANY_ROW = frozenset(("*", "1", "NULL", "TRUE"))
"""What is selected of a row that only has to be there."""


class KeyQuery(NamedTuple):
    """A query for keys.

    Attributes:
        name: of the column that is the key, as it is written.
        query: its text.
    """

    name: Name
    query: str


def key_query(text: str, part: Sequence[Token]) -> KeyQuery | None:
    """The query of a condition; None for another condition.

    Args:
        text: of the statement, with numbered parameters.
        part: the condition's tokens.
    """
    try:
        return _of_exists(text, part) if part[0].word == "EXISTS" else _of_in(text, part)
    except SqlError:
        return None


def _of_in(text: str, part: Sequence[Token]) -> KeyQuery | None:
    reader = Reader(part)
    name = reader.name()
    reader.expect("IN")
    query = _in_parentheses(reader)
    begins = bool(query) and query[0].word in ("SELECT", "FROM", "WITH")
    return KeyQuery(name, text_of(text, query)) if begins else None


def _in_parentheses(reader: Reader) -> Sequence[Token]:
    """The tokens between the parentheses with which the condition ends."""
    begin = reader.at + 1
    reader.skip_parentheses()
    reader.finish()
    return reader.tokens[begin:-1]


def _of_exists(text: str, part: Sequence[Token]) -> KeyQuery | None:
    query = _in_parentheses(Reader(part, 1))
    begin, where = Reader(query).index("FROM"), Reader(query).index("WHERE")
    source, parts = query[begin + 1 : where], conjuncts(query[where + 1 :])
    alias = alias_of(source)
    if alias is None or parts is None or not _selects_any(query[:begin]):
        return None
    others = [one for one in parts if not is_of_sources(one, [alias], None)]
    pair = _equal_names(others[0], alias) if len(others) == 1 else None
    if pair is None:
        return None
    own = [f"({text_of(text, one)})" for one in parts if one is not others[0]]
    narrow = f" WHERE {' AND '.join(own)}" if own else ""
    return KeyQuery(pair.outer, f"SELECT {pair.inner} FROM {text_of(text, source)}{narrow}")


def _selects_any(tokens: Sequence[Token]) -> bool:
    """Returns whether what stands before FROM asks for any row: nothing does."""
    words = [token.word for token in tokens]
    return not words or (words[0] == "SELECT" and len(words) == 2 and words[1] in _ANY_ROW)


class _Pair(NamedTuple):
    """Two names that a condition compares: of the source, as text, and of the changed table."""

    inner: str
    outer: Name


def _equal_names(part: Sequence[Token], alias: str) -> _Pair | None:
    """Reads `alias.x = t.key`, or the other way round; both names have a table before them."""
    reader = Reader(part)
    left = reader.name()
    middle = reader.at
    reader.expect("=")
    right = reader.name()
    reader.finish()
    sides = [(left, part[:middle], right), (right, part[middle + 1 :], left)]
    for inner, tokens, outer in sides:
        apart = len(inner) == len(outer) == 2 and fold(outer[0]) != fold(alias)
        if apart and fold(inner[0]) == fold(alias):
            return _Pair("".join([token.text for token in tokens]), outer)
    return None

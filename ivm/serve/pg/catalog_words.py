"""Which queries ask about the catalog as PostgreSQL has it.

Law: a query is one only if it reads a relation of `pg_catalog` or `information_schema`; or if it
reads none at all, and asks what only PostgreSQL knows: its functions about the session or the
server, or a name's OID. Names of columns, aliases, comments and texts decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ivm.serve.pg.catalog_sql import EMPTY, MACROS, RELATIONS
from ivm.sql.statements.tokens import Token, is_name, kept_tokens, unquoted

MACRO_NAMES = frozenset(re.findall(r"CREATE MACRO (\w+)\(", MACROS))
"""The functions of PostgreSQL's that the catalog has."""

_SCHEMAS = ("pg_catalog", "information_schema")
_RELATIONS = RELATIONS.keys() | EMPTY.keys()
_WORDS = "current_user|session_user|current_role|current_catalog|current_schema"
_CALLED = (
    "version|pg_[a-z_]+|current_schemas?|current_setting|set_config|inet_server_addr"
    "|inet_server_port|inet_client_addr|txid_current|has_[a-z_]+_privilege|current_database"
    "|to_regclass|to_regtype|obj_description|col_description|format_type|quote_ident|quote_literal"
)
_NAMED = "regclass|regtype|regproc|regprocedure|regnamespace|regrole|regoper"
_PERHAPS = re.compile(rf"(?i)\b(?:{_WORDS}|{_CALLED}|{_NAMED})\b|information_schema")
_WORD, _CALL, _NAME = (re.compile(each) for each in (_WORDS, _CALLED, _NAMED))
_ROWS = frozenset(("unnest", "generate_series", "generate_subscripts", "string_to_table"))
"""The functions in FROM whose rows are of no relation, besides those of the catalog."""
_BEFORE = frozenset(("FROM", "JOIN", "TABLE"))
_AFTER = frozenset(
    (
        *("SELECT", "VALUES", "WITH", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER"),
        *("LIMIT", "OFFSET", "FETCH", "FOR", "UNION", "INTERSECT", "EXCEPT"),
    )
)
_CALLS = frozenset(("EXTRACT", "SUBSTRING", "TRIM", "OVERLAY"))
"""The functions that have a FROM of their own."""


class _Read(NamedTuple):
    """What stands in FROM: the parts of a name, in lower case; () for a file."""

    name: tuple[str, ...]
    is_call: bool


def asks_catalog(text: str) -> bool:
    """Returns whether a query asks about the catalog."""
    if _PERHAPS.search(text) is None:
        return False
    found = kept_tokens(text)
    shared = set(_shared(found))
    read = [each for each in _read(found) if len(each.name) != 1 or each.name[0] not in shared]
    if any(_is_catalog(each) for each in read):
        return True
    return all(_has_own_rows(each) for each in read) and _asks_postgresql(found)


def _is_catalog(read: _Read) -> bool:
    if read.is_call or not read.name:
        return False
    *schemas, name = read.name
    return schemas[-1] in _SCHEMAS if schemas else name in _RELATIONS


def _has_own_rows(read: _Read) -> bool:
    """Returns whether it is a function whose rows are of no relation."""
    name = read.name[-1] if read.is_call else ""
    return name in _ROWS or name in MACRO_NAMES or _CALL.fullmatch(name) is not None


def _asks_postgresql(found: Sequence[Token]) -> bool:
    """Returns whether a query calls a function of PostgreSQL's, or casts to a type of names."""
    signs = ["", *[token.word for token in found], ""]
    for at, token in enumerate(found):
        name = unquoted(token).lower() if is_name(token) else ""
        before, after = signs[at], signs[at + 2]
        if after == "(" and before not in (")", "AS") and _CALL.fullmatch(name):
            return True
        if token.word and "." not in (before, after) and _WORD.fullmatch(name):
            return True
        if after == "." and name in _SCHEMAS:
            return True
        if before in ("::", "AS") and _NAME.fullmatch(name):
            return True
    return False


def _shared(found: Sequence[Token]) -> Iterator[str]:
    """The names of common table expressions; some more that are followed by AS ( do no harm."""
    for at, token in enumerate(found[:-2]):
        if is_name(token) and _begins_query(found, at + 1):
            yield unquoted(token).lower()


def _begins_query(found: Sequence[Token], at: int) -> bool:
    """Returns whether `[(column, …)] AS [[NOT] MATERIALIZED] (` stands at a token."""
    words = [token.word for token in found[at : at + 4]]
    if words[:1] == ["("]:
        end = next((i for i in range(at, len(found)) if found[i].word == ")"), len(found))
        words = [token.word for token in found[end + 1 : end + 5]]
    rest = [word for word in words[1:] if word not in ("NOT", "MATERIALIZED")]
    return words[:1] == ["AS"] and rest[:1] == ["("]


def _read(found: Sequence[Token]) -> Iterator[_Read]:
    """What stands in the FROM clauses of a query."""
    opened: list[bool] = []  # of each parenthesis around: whether it stands in a FROM clause
    in_from = expected = False
    for at, token in enumerate(found):
        word = token.word
        if word == "(":
            opened.append(in_from)
            in_from = expected
        elif word == ")":
            in_from, expected = bool(opened and opened.pop()), False
        elif word in _BEFORE:
            in_from = expected = not _is_of_call(found, at, len(opened))
        elif word == ",":
            expected = in_from
        elif word in _AFTER:
            in_from = expected = False
        elif expected and word not in ("LATERAL", "ONLY"):
            expected = False
            yield _name(found, at)


def _is_of_call(found: Sequence[Token], at: int, depth: int) -> bool:
    """Returns whether a FROM is one as in EXTRACT(year FROM …)."""
    if depth == 0:
        return False
    closed = 0
    for i in range(at - 1, 0, -1):
        word = found[i].word
        closed += (word == ")") - (word == "(")
        if closed < 0:
            return found[i - 1].word in _CALLS
    return False


def _name(found: Sequence[Token], at: int) -> _Read:
    """The qualified name that begins at a token."""
    parts: list[str] = []
    while at < len(found) and is_name(found[at]):
        parts.append(unquoted(found[at]).lower())
        if at + 1 >= len(found) or found[at + 1].word != ".":
            break
        at += 2
    return _Read(tuple(parts), at + 1 < len(found) and found[at + 1].word == "(")

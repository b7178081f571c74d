"""Which queries ask about the catalog as PostgreSQL has it.

Law: a query is one only if it reads a relation of `pg_catalog` or `information_schema`; or if it
reads none at all, and asks what only PostgreSQL knows: its functions about the session or the
server, or a name's OID. Names of columns, aliases, comments and texts decide nothing, and a change
of tables is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ivm.serve.from_clauses import Source, sources
from ivm.serve.pg.catalog.catalog_macros import MACRO_NAMES
from ivm.serve.pg.catalog.catalog_relations import RELATION_NAMES
from ivm.sql.statements.changes.dml import changes_inside
from ivm.sql.statements.text.tokens import Reader, Token, is_name, kept_tokens, unquoted

_SCHEMAS = ("pg_catalog", "information_schema")
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


def asks_catalog(text: str) -> bool:
    """Returns whether a query asks about the catalog."""
    if _PERHAPS.search(text) is None:
        return False
    found = kept_tokens(text)
    if changes_inside(Reader(found)):
        return False
    shared = set(_shared(found))
    read = [each for each in sources(found) if len(each.name) != 1 or each.name[0] not in shared]
    if any(_is_catalog(each) for each in read):
        return True
    return all(_has_own_rows(each) for each in read) and _asks_postgresql(found)


def _is_catalog(source: Source) -> bool:
    if source.is_call or not source.name:
        return False
    *schemas, name = source.name
    return schemas[-1] in _SCHEMAS if schemas else name in RELATION_NAMES


def _has_own_rows(source: Source) -> bool:
    """Returns whether it is a function whose rows are of no relation."""
    name = source.name[-1] if source.is_call else ""
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
        end = at + 1
        while end < len(found) and found[end].word not in ("(", ")"):
            end += 1
        words = [token.word for token in found[end + 1 : end + 5]]
    rest = [word for word in words[1:] if word not in ("NOT", "MATERIALIZED")]
    return words[:1] == ["AS"] and rest[:1] == ["("]

"""Hints at the cause of a syntax error, derived from the statement's words.

Contract: a hint is a question, never a correction: the statement stays as it was written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ivm.sql.statements.text.tokens import Token, depths, is_name, tokens

_WORDS = (
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "MATERIALIZED", "EXPLAIN", "VERIFY", "VALUES",
    "TABLE", "VIEW", "REPLACE", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT",
    "PRIMARY", "PARTITION", "RETURNING", "TRUNCATE", "SUBSCRIBE", "COMMIT", "ROLLBACK",
)  # fmt: skip
_OF_VIEWS = re.compile(r"AS\s+OF\s+ARRIVAL\b|EMIT\s+ON\s+WINDOW\s+CLOSE\b", re.IGNORECASE)
_WITH_TIES = re.compile(r"WITH\s+TIES\b", re.IGNORECASE)


def hint(statement: str, offset: int) -> str:
    """Returns the likely cause as the end of a sentence, "" if none is likely.

    Args:
        statement: the text that does not parse.
        offset: where the parser stopped, in characters.
    """
    if _WITH_TIES.match(statement, offset):
        return ": DuckDB has no WITH TIES; QUALIFY rank() OVER (ORDER BY …) <= n says the same"
    for clause in _OF_VIEWS.finditer(statement):
        if clause.start() <= offset < clause.end():
            written = " ".join(clause[0].upper().split())
            return f": {written} stands in CREATE MATERIALIZED VIEW alone, outside of parentheses"
    words = tokens(statement)
    depth = depths(words)[-1] if words else 0
    if depth:
        return f"; is {'a closing' if depth > 0 else 'an opening'} parenthesis missing?"
    at = next((i for i, token in enumerate(words) if token.start <= offset < token.end), None)
    if at is None:
        return ""
    if words[at].word == "MATERIALIZED":
        return _of_materialized(words, at)
    for token in (words[at], *words[max(at - 1, 0) : at]):
        similar = difflib.get_close_matches(token.word, _WORDS, 1, 0.75)
        if similar and token.word not in _WORDS:
            return f"; did you mean {similar[0]}?"
    side_by_side = at > 0 and _is_value(words[at]) and _ends_value(words[at - 1])
    return "; is a comma missing before it?" if side_by_side else ""


def _of_materialized(words: Sequence[Token], at: int) -> str:
    """The hint where the parser stopped at MATERIALIZED."""
    if [token.word for token in words[at + 1 : at + 2]] != ["VIEW"]:
        return "; is VIEW missing behind it?"
    if words[0].word == "COMMENT":
        return "; is TABLE meant in the place of MATERIALIZED VIEW?"
    return ""


def _is_value(token: Token) -> bool:
    """Returns whether the token may be a name, a number or a string."""
    return not token.word or (
        token.word not in _WORDS and (is_name(token) or token.word[0].isdigit())
    )


def _ends_value(token: Token) -> bool:
    return token.word in (")", "]", "}") or _is_value(token)

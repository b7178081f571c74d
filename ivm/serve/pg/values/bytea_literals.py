"""Bytes as PostgreSQL's drivers write them into a statement, said in DuckDB's SQL.

Law: `'\\x00ff'::bytea` are two bytes at this door, and `unhex('00ff')` gives them; as DuckDB reads
it, it would be a byte and two letters. A text that is no such number (`'\\x00\\xff'::BLOB`) stays
DuckDB's, and so does what stands in comments and texts. Offsets in the statement stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ivm.sql.statements.text.tokens import Token, tokens
from ivm.storage.errors import SqlError

_MAYBE = re.compile(r"(?i)\\x[0-9a-f]*'")
_BYTES = re.compile(r"(?i)(?:'\\|E'\\\\)x(?P<digits>[0-9a-f]*)'")
_TYPES = frozenset(("BYTEA", "BLOB", "VARBINARY", "BINARY"))
_CASTS = frozenset(("CAST", "TRY_CAST"))


def with_bytes(script: str) -> str:
    """The script with its bytes of PostgreSQL's form in DuckDB's.

    Raises:
        SqlError: a byte has one digit.
    """
    if _MAYBE.search(script) is None:
        return script
    found = tokens(script)
    parts, done = list[str](), 0
    for at, token in enumerate(found):
        literal = _BYTES.fullmatch(token.text)
        cast = _cast(found, at) if literal is not None else None
        if literal is not None and cast is not None:
            first, last = cast
            told = _told(literal["digits"], token).ljust(last.end - first.start)
            parts += [script[done : first.start], told]
            done = last.end
    return "".join([*parts, script[done:]])


def _cast(found: Sequence[Token], at: int) -> tuple[Token, Token] | None:
    """The first and the last token of the cast to bytes of a literal; None if there is none."""
    before = ["", "", *[token.word for token in found[max(at - 2, 0) : at]]][-2:]
    behind = [*[token.word for token in found[at + 1 : at + 4]], "", "", ""][:3]
    if behind[0] == "::" and behind[1] in _TYPES and behind[2] != "[":
        return found[at], found[at + 2]
    if before[0] in _CASTS and before[1] == "(" and behind[0] == "AS" and behind[1] in _TYPES:
        return (found[at - 2], found[at + 3]) if behind[2] == ")" else None
    return (found[at - 1], found[at]) if before[1] in _TYPES else None


def _told(digits: str, token: Token) -> str:
    if len(digits) % 2:
        raise SqlError("invalid bytes: a byte has two hexadecimal digits", token.start)
    return f"unhex('{digits}')"

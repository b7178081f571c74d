"""Scripts that are refused before their statements are read.

Law: no statement is read of a script that DuckDB would lex otherwise than it is lexed here, or
would lex otherwise once the statement stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.sql.statements.nodes.nodes import Statement
from ivm.sql.statements.nodes.own_nodes import CreateView
from ivm.sql.statements.text.blanks import plain_blanks
from ivm.sql.statements.text.tokens import Token
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import BLANKS_BEYOND_ASCII

_BLANKS = frozenset(BLANKS_BEYOND_ASCII)
_OPEN = {
    "/*": ("/* comment", "*/"),
    '"': ("quoted identifier", 'a "'),
    "`": ("quoted identifier", "a `"),
    "$": ("dollar-quoted string", "what it begins with"),
}
_STRING = ("string literal", "a '")


def unterminated(script: str, opened: Token) -> SqlError:
    """The refusal of a script that does not end a comment, a string or a quoted name."""
    sign = opened.text[:2] if opened.text.startswith("/*") else opened.text[:1]
    what, closing = _OPEN.get(sign, _STRING)
    where = place(script, opened.start)
    return SqlError(f"unterminated {what}{where}: end it with {closing}", opened.start)


def refuse_odd_blanks(script: str, found: Sequence[Token], statements: Sequence[Statement]) -> None:
    """Refuses blanks beyond ASCII that DuckDB takes for letters, here or in a statement alone.

    Args:
        found: the script's tokens.
        statements: what has been read of them.
    """
    letters = [token.start for token in found if not _BLANKS.isdisjoint(token.word)]
    alone = [s.offset for s in statements if any(plain_blanks(t) != t for t in _texts(s))]
    if letters or alone:
        reason = "DuckDB does not take a blank beyond ASCII for a blank here: write a plain one"
        raise SqlError(f"syntax error: {reason}", min([*letters, *alone]))


def _texts(statement: Statement) -> tuple[str, ...]:
    """The texts that DuckDB is given of a statement."""
    if isinstance(statement, CreateView):
        return (statement.text, statement.query)
    return (statement.text,)


def place(script: str, offset: int) -> str:
    """The line and the column of an offset, to stand behind a message."""
    line = script.count("\n", 0, offset) + 1
    column = offset - (script.rfind("\n", 0, offset) + 1) + 1
    return f" (line {line}, column {column})"

"""Calls of `watermark('table')`, spelled out as queries of the plain view that gives it.

Law: a table's watermark is the one row of `_ivm."watermark <table>"`, whose name is found whatever
the case of its letters. A column that is such a call alone has that for its name, as with others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ivm.sql.statements.text.spelling import Edit, Spelling
from ivm.sql.statements.text.tokens import NESTING, Token, is_string
from ivm.sql.statements.text.tokens import kept_tokens as tokens_of
from ivm.storage.identifiers import fold, quote, split_name

WATERMARKS = "_ivm.watermarks"
"""The canonical name of the table that has them all."""
PREFIX = "watermark "
"""Begins the names of the plain views that give a watermark each."""
_BEGINS = frozenset(["SELECT", "DISTINCT", "ALL", ","])
_ENDS = frozenset([",", ")", ";", "FROM", "WHERE", "LIMIT", "UNION", "INTERSECT", "EXCEPT"])
_LISTS = frozenset(["SELECT", "FROM", "WHERE", "BY", "HAVING", "QUALIFY", "SET", "USING", "ON"])
_CALL = re.compile(r"\bwatermark\s*(?:\(|/\*|--)", re.IGNORECASE)


def relation_of(path: Sequence[str]) -> str:
    """The SQL name of the plain view that gives the watermark of a table.

    Args:
        path: of the table in its database; the schema main may be left out.
    """
    parts = path[1:] if len(path) > 1 and path[0].lower() == "main" else path
    plain = [quote(part) if set(part) & {".", '"'} else part for part in parts]
    return f"_ivm.{quote(PREFIX + '.'.join(plain))}"


def watermarked(path: Sequence[str]) -> tuple[str, ...] | None:
    """The path of the table whose watermark a relation gives; None for other relations."""
    if len(path) < 2 or fold(path[-2]) != "_ivm" or not fold(path[-1]).startswith(PREFIX):
        return None
    return split_name(path[-1][len(PREFIX) :])


def may_call_watermark(script: str) -> bool:
    """Returns whether a script may call the function."""
    return _CALL.search(script) is not None


def with_watermarks(spelling: Spelling) -> Spelling:
    """The spelling of a script with the calls spelled out."""
    script = spelling.text
    found = tokens_of(script)
    called = [i for i, token in enumerate(found) if token.word == "WATERMARK"]
    edits = [_edit(script, found, i) for i in called]
    kept = [edit for edit in edits if edit is not None]
    return Spelling(script, kept, spelling) if kept else spelling


def _edit(script: str, found: Sequence[Token], at: int) -> Edit | None:
    """What stands in the place of a call; None if none begins here."""
    words = [token.word for token in found[at + 1 : at + 4]]
    if len(words) < 3 or words[0] != "(" or words[2] != ")" or not is_string(found[at + 2]):
        return None
    if (at and found[at - 1].word == ".") or found[at + 2].text[0] != "'":
        return None
    path = split_name(found[at + 2].text[1:-1].replace("''", "'"))
    start, end = found[at].start, found[at + 3].end
    name = f" AS {quote(script[start:end])}" if _is_unnamed(found, at) else ""
    return Edit(start, end, f"(SELECT watermark FROM {relation_of(path)}){name}")


def _is_unnamed(found: Sequence[Token], at: int) -> bool:
    """Returns whether a call of four tokens is all of a column, without a name, of a SELECT."""
    behind = found[at + 4].word if at + 4 < len(found) else ";"
    if behind not in _ENDS or found[at - 1].word not in _BEGINS:
        return False
    depth = 0
    for token in reversed(found[:at]):
        depth -= NESTING.get(token.word, 0)
        if depth < 0 or (depth == 0 and token.word in _LISTS):
            return token.word == "SELECT"
    return False

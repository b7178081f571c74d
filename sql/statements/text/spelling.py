"""A script respelled so that names stand in double quotes, and its places in what the user wrote.

Law: DuckDB makes of the respelled script what it makes of the user's. So whoever looks at a
statement's text knows one kind of quoted names, and a name that is written as a string is one, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from ivm.sql.statements.text.blanks import plain_blanks
from ivm.sql.statements.text.tokens import StringForNameError, kept_tokens, unquoted
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import BLANKS_BEYOND_ASCII, quote
from ivm.storage.scratch import Scratch

_QUOTES = ('"', "`")
_GLUED = re.compile(r"[0-9]e(?![-+0-9a-z_])", re.IGNORECASE)
"""The name `e` behind a number, which at the end of a text is an exponent without digits."""
_WORD = re.compile(r'\w+|"[^"]+"')
_scratch = Scratch.of()


class Edit(NamedTuple):
    """What stands in the place of a part of a script."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Spelling:
    """A script and what is spelled differently in it.

    Attributes:
        script: the user's, with plain blanks; or the text of another spelling of it.
        edits: in the order of their places.
        of: the other spelling.
    """

    script: str
    edits: Sequence[Edit] = ()
    of: Spelling | None = None

    @property
    def text(self) -> str:
        """The respelled script."""
        parts, at = list[str](), 0
        for edit in self.edits:
            parts += [self.script[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.script[at:]])

    @property
    def original(self) -> str:
        """The user's script, with plain blanks."""
        return self.script if self.of is None else self.of.original

    def written(self, offset: int) -> int:
        """The offset in the user's script of one in the respelled script."""
        here = self._before_edits(offset)
        return here if self.of is None else self.of.written(here)

    def _before_edits(self, offset: int) -> int:
        """The offset in `script` of one in `text`."""
        shift = 0  # of what stands behind the edits so far
        for start, end, text in self.edits:
            if offset < start + shift:
                break
            if offset < start + shift + len(text):
                return self._within(start, end, text[offset - start - shift :])
            shift += len(text) - (end - start)
        return offset - shift

    def _within(self, start: int, end: int, behind: str) -> int:
        """A place in what an edit replaces: that of the word which stands there, or its begin."""
        word = _WORD.match(behind)
        again = re.compile(rf"(?<!\w){re.escape(word[0])}(?!\w)") if word else None
        found = again.search(self.script, start, end) if again else None
        return found.start() if found else start

    def naming(self, found: StringForNameError) -> Spelling:
        """The spelling with the name that a string is.

        Raises:
            SqlError: it is no name to DuckDB, or to us.
        """
        token, written = found.token, self.written(found.token.start)
        if found.qualified:
            raise SqlError(f"{found}: write it in double quotes", written)
        try:
            name = string_value(token.text)
        except duckdb.Error:
            raise SqlError(str(found), written) from None
        start = self._before_edits(found.token.start)
        edit = _edit(self.script, start, start + len(token.text), name)
        return Spelling(self.script, sorted([*self.edits, edit]), self.of)


def may_be_spelled(script: str) -> bool:
    """Returns whether a script may have another spelling, or blanks that are not plain."""
    return not script.isascii() or "`" in script or _GLUED.search(script) is not None


def spelled(script: str) -> Spelling:
    """The spelling of a script: names in backticks stand in double quotes."""
    plain = plain_blanks(script if script.isascii() else script.rstrip(BLANKS_BEYOND_ASCII))
    edits = list[Edit]()
    for token in kept_tokens(plain) if may_be_spelled(plain) else ():
        if token.text[0] == "`" == token.text[-1] and len(token.text) > 1:
            edits.append(_edit(plain, token.start, token.end, unquoted(token)))
        elif token.word == "E" and plain[token.start - 1 : token.start].isdecimal():
            edits.append(Edit(token.start, token.end, f" {token.text}"))
    return Spelling(plain, edits)


def _edit(script: str, start: int, end: int, name: str) -> Edit:
    """The edit that writes a name, apart from a quoted name beside it."""
    before = " " if script[start - 1 : start] in _QUOTES else ""
    behind = " " if script[end : end + 1] == '"' else ""
    return Edit(start, end, f"{before}{quote(name)}{behind}")


def string_value(string: str) -> str:
    """What DuckDB reads in a string in any of its quotes.

    Raises:
        duckdb.Error: it is none to DuckDB.
    """
    with _scratch.borrow() as connection:
        names = connection.execute(f"SELECT 1 AS {string}").description
    return str(names[0][0])

"""Cuts a script into SQL statements and dot commands, and finds whether one is still open.

Law: a semicolon ends a statement unless it stands in a string, a quoted name, a dollar-quoted text
or a comment (comments nest), as in DuckDB; a line that begins with a dot where a statement could
begin is a command. Regular expressions do the search, so megabytes are cut in a moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ivm.storage.identifiers import WORD_CHARACTER as _LETTER

_OPENING = re.compile(
    rf"--|/\*|(?<!{_LETTER})[eE]'|['\"`;]|(?<!\$)(?<!{_LETTER})\$(?:(?!\d){_LETTER}+)?\$"
)
_CLOSING = {
    "--": re.compile(r"[\r\n]"),
    "'": re.compile(r"'"),
    '"': re.compile(r'"'),
    "`": re.compile("`"),
    "e'": re.compile(r"(?:[^'\\]|\\.|'')*+'", re.DOTALL),
}
_COMMENT_SIGN = re.compile(r"/\*|\*/")
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True)
class ScriptPart:
    """One statement or command of a script.

    Attributes:
        text: as written, without the semicolon and the blanks and comments around it.
        offset: characters before it in the script.
        closed: it has its semicolon (a command is always closed).
    """

    text: str
    offset: int
    closed: bool

    @property
    def is_command(self) -> bool:
        return self.text.startswith(".")


def parts(script: str) -> Iterator[ScriptPart]:
    """Yields the statements and commands of a script, in order, without empty statements."""
    offset = 0
    while (start := _skip_blanks(script, offset)) < len(script):
        cut = _command if _is_command(script, start) else _statement
        part, offset = cut(script, start)
        if part.text:
            yield part


def complete(text: str) -> bool:
    """Returns whether all of `text` can be run: no statement lacks its semicolon."""
    return all(part.closed for part in parts(text))


def open_sign(text: str) -> str | None:
    """Returns the sign ("--", "/*", "'", …) of the comment, string or name open at the end."""
    offset = 0
    while opening := _OPENING.search(text, offset):
        end = _end(text, opening)
        if end is None:
            return opening.group().lower()
        offset = end
    return None


def _end(text: str, opening: re.Match[str]) -> int | None:
    """Returns the end of the string, name or comment that opens here, None if it is open."""
    sign = opening.group().lower()
    if sign == ";":
        return opening.end()
    if sign == "/*":
        return _end_of_comment(text, opening.end())
    pattern = _CLOSING.get(sign) or re.compile(re.escape(opening.group()))
    closing = pattern.search(text, opening.end())
    return None if closing is None else closing.end()


def _end_of_comment(text: str, offset: int) -> int | None:
    depth = 1
    while sign := _COMMENT_SIGN.search(text, offset):
        depth += 1 if sign.group() == "/*" else -1
        offset = sign.end()
        if depth == 0:
            return offset
    return None


def _skip_blanks(script: str, offset: int) -> int:
    while True:
        blank = _BLANK.match(script, offset)
        assert blank is not None
        opening = _OPENING.match(script, blank.end())
        if opening is None or opening.group() not in ("--", "/*"):
            return blank.end()
        end = _end(script, opening)
        if end is None:  # an open /* is left for the database to refuse
            return len(script) if opening.group() == "--" else opening.start()
        offset = end


def _is_command(script: str, start: int) -> bool:
    line = script.rfind("\n", 0, start) + 1
    return script[start] == "." and not script[line:start].strip()


def _command(script: str, start: int) -> tuple[ScriptPart, int]:
    end = script.find("\n", start)
    end = len(script) if end < 0 else end
    return ScriptPart(script[start:end].rstrip(), start, True), end


def _statement(script: str, start: int) -> tuple[ScriptPart, int]:
    offset = start
    while opening := _OPENING.search(script, offset):
        if opening.group() == ";":
            return ScriptPart(script[start : opening.start()].rstrip(), start, True), opening.end()
        end = _end(script, opening)
        if end is None:
            break
        offset = end
    return ScriptPart(script[start:].rstrip(), start, False), len(script)

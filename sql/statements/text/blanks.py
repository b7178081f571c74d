"""Blanks beyond ASCII as DuckDB's parser reads them.

Law: the parser is given a text in which each such blank is a plain one, but for those in what it
takes for a text, a quoted name or a comment. It looks for these more simply than it lexes: it knows
no backticks, no `/* */` and no E'' there, and does not look at the last two bytes. A blank that it
leaves in a word is a letter to it.
"""

from __future__ import annotations

import re

from ivm.storage.errors import SqlError
from ivm.storage.identifiers import BLANKS_BEYOND_ASCII

_BLANK = re.compile(f"[{BLANKS_BEYOND_ASCII}]")
_SIGN = re.compile(
    rb"(?P<blank>\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe2\x81[\x9f\xa0]|\xe3\x80\x80|\xef\xbb\xbf)"
    rb"|['\"]|--|\$(?=[$A-Za-z_\x80-\xff])"
)
_BEHIND = {
    b"'": re.compile(rb"(?:[^']|'')*+'"),
    b'"': re.compile(rb'(?:[^"]|"")*+"'),
    b"--": re.compile(rb"[^\r\n]*"),
}
_TAG = re.compile(rb"[A-Za-z0-9_\x80-\xff]*")
_UNREAD = 2  # bytes at the end


def plain_blanks(script: str) -> str:
    """The script as the parser gets it: with as many characters, and plain blanks for others.

    Raises:
        SqlError: it holds a character that UTF-8 cannot encode.
    """
    if script.isascii() or _BLANK.search(script) is None:
        return script
    data = encoded(script)
    pieces, at, done, end = list[bytes](), 0, 0, len(data) - _UNREAD
    while (sign := _SIGN.search(data, at)) is not None and sign.start() < end:
        if sign["blank"]:
            pieces += [data[done : sign.start()], b" "]
            at = done = sign.end()
        elif sign[0] == b"$":
            at = _behind_dollar(data, sign.end(), end)
        else:
            behind = _BEHIND[sign[0]].match(data, sign.end())
            at = len(data) if behind is None else behind.end()
    return b"".join([*pieces, data[done:]]).decode()


def _behind_dollar(data: bytes, at: int, end: int) -> int:
    """Where the search goes on behind a `$` that may begin a dollar-quoted text."""
    tag = _TAG.match(data, at)
    assert tag is not None
    opened = tag.end()
    if opened >= end:
        return len(data)
    if data[opened : opened + 1] != b"$":
        return opened
    closing = data.find(b"$" + tag[0] + b"$", opened)
    return len(data) if not 0 <= closing < end else closing + len(tag[0]) + 1


def encoded(script: str) -> bytes:
    """The script in UTF-8.

    Raises:
        SqlError: it holds a character that UTF-8 cannot encode.
    """
    try:
        return script.encode()
    except UnicodeEncodeError as error:
        raise SqlError(
            f"character {error.start + 1} is no text: write the statement in UTF-8", error.start
        ) from error

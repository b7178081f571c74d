"""Names as DuckDB reads, compares and writes them.

Law: names are equal if they differ only in the case of A to Z ("Ä" and "ä" are two names). A
relation's canonical name is its path in the database, schema main left out, its parts joined by
dots; a part with a dot or a quote in it is quoted, so that two relations never share a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Schemas, then a name."""

BLANKS_BEYOND_ASCII = "\u00a0\u202f\u205f\u2060\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200C))
)
WORD_CHARACTER = rf"[^\t-\r -/:-@\[-^`{{-~{BLANKS_BEYOND_ASCII}]"
"""A pattern of the characters of words: of those beyond ASCII all but the blanks, also signs and
marks, which are no letters to Python, and of control characters all but blanks. A `$` may stand in
a name, too, and beside it as a quote."""

_NAME = re.compile(rf'"((?:[^"]|"")+)"|({WORD_CHARACTER}+)')
WORD = re.compile(f"{WORD_CHARACTER}+")
_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def fold(name: str) -> str:
    """The form of a name that DuckDB compares."""
    return name.lower() if name.isascii() else name.translate(_SMALL)


def words_in(text: str) -> set[str]:
    """All words of a text, folded, within strings, comments and quoted names, too.

    A text spells a name, quoted or not, only if it has all words of the name.
    """
    return set(WORD.findall(fold(text)))


def is_text(text: str) -> bool:
    """Returns whether DuckDB accepts the string: half of a surrogate pair is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def canonical_name(path: Sequence[str]) -> str:
    """The name of the relation at a path of schemas and a name."""
    shown = path[1:] if len(path) == 2 and path[0] == "main" else path
    return ".".join([quote(part) if "." in part or '"' in part else part for part in shown])


def path_of(name: str) -> Path:
    """The schemas and the name behind a canonical name."""
    parts = split_name(name)
    return ("main", *parts) if len(parts) == 1 else parts


def split_name(text: str) -> tuple[str, ...]:
    """The parts between the dots of a written name; dots and doubled quotes may stand in quotes."""
    if '"' not in text and "." not in text:
        return (text,)
    parts, part, quoted = [], "", False
    for i, character in enumerate(text):
        if character == '"':
            quoted = not quoted
            part += '"' if quoted and text[i - 1 : i] == '"' else ""
        elif character == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += character
    return (*parts, part)


def written_name(text: str) -> str | None:
    """The name, folded, that SQL writes so, quoted or not; None if the text is an expression."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    return fold(found[2] or found[1].replace('""', '"'))


def quote(name: str) -> str:
    """Quotes `name` as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Writes `text` as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"

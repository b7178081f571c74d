"""COPY over the connection as it is written: what is copied, which way, and the options.

Law: every word of the statement is understood, or it is refused: an option that is passed over
would load or give other rows than those that were asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ivm.storage.errors import SqlError, UnsupportedError

_TEXT = r"E?'(?:[^']|'')*+'"
_NAMES = r'(?:"(?:[^"]|"")*+"|[^()"])'
_COPY = re.compile(
    rf"COPY\s+(?P<relation>\(.*\)|{_NAMES}+?(?:\s*\({_NAMES}*\))?)\s*"
    r"\b(?:(?P<comes>FROM\s+STDIN)|TO\s+STDOUT)\b\s*(?:WITH\b\s*)?(?P<options>.*)",
    re.IGNORECASE | re.DOTALL,
)
_GAP = re.compile(r"\s{200}")  # nobody writes it, and it would be tried from each of its blanks
_OPTION = re.compile(
    rf"\s*(?P<name>\w+)(?:\s+(?P<value>{_TEXT}|\((?P<names>{_NAMES}*)\)|\*|[\w.-]+))?\s*(?:,|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_OLD_OPTION = re.compile(
    r"\s*(?:(?P<flag>BINARY|CSV|HEADER|FREEZE)|(?P<name>DELIMITERS?|NULL|QUOTE|ESCAPE|ENCODING)\b"
    rf"\s*(?:AS\b\s*)?(?P<value>{_TEXT}))\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CopyRows:
    """COPY table [(columns)] FROM STDIN, or COPY table or (query) TO STDOUT.

    Attributes:
        comes: rows come from the client.
        relation: the table and columns, or the query in parentheses, as written.
        options: names in upper case, and values.
    """

    text: str
    offset: int
    comes: bool
    relation: str
    options: tuple[tuple[str, str], ...]


def copy_rows(text: str, offset: int) -> CopyRows | None:
    """What a COPY asks for; None if it is not one over the connection.

    Raises:
        SqlError: its options make no sense.
        UnsupportedError: it has a condition.
    """
    found = _COPY.fullmatch(text) if _is_query(text) or not _GAP.search(text) else None
    if found is None:
        return None
    options = found["options"].strip()
    return CopyRows(
        text,
        offset,
        comes=found["comes"] is not None,
        relation=found["relation"].strip(),
        options=tuple(_listed(options) if options.startswith("(") else _old(options)),
    )


def _is_query(text: str) -> bool:
    return text[4:5] == "(" or text[4:].lstrip()[:1] == "("


def _listed(text: str) -> Iterator[tuple[str, str]]:
    """Options in parentheses, and nothing behind them."""
    if not text.endswith(")"):
        raise _unknown(text[text.rindex(")") + 1 :] if ")" in text else text)
    inner, at = text[1:-1], 0
    while at < len(inner):
        found = _OPTION.match(inner, at)
        if found is None:
            raise _unknown(inner[at:])
        value = found["names"] if found["names"] is not None else found["value"]
        yield found["name"].upper(), "true" if value is None else unquoted_value(value)
        at = found.end()


def _old(text: str) -> Iterator[tuple[str, str]]:
    """Options as PostgreSQL had them before 9.0."""
    at = 0
    while at < len(text):
        found = _OLD_OPTION.match(text, at)
        if found is None:
            raise _unknown(text[at:])
        flag = (found["flag"] or "").upper()
        if flag in ("CSV", "BINARY"):
            yield "FORMAT", flag.lower()
        elif flag:
            yield flag, "true"
        else:
            yield found["name"].upper().rstrip("S"), unquoted_value(found["value"])
        at = found.end()


def _unknown(rest: str) -> Exception:
    rest = rest.strip()
    if rest.upper().startswith("WHERE"):
        return UnsupportedError(
            "COPY has no WHERE here: copy into a table of its own, and INSERT what you want of it"
        )
    return SqlError(f'syntax error at or near "{rest[:40]}": this is no option of COPY')


def unquoted_value(text: str) -> str:
    """A value as written after SET or in an option, without its quotes."""
    text = text.strip()
    if text[:1] in "Ee" and text[1:2] == "'":
        inner = text[2:-1].replace("''", "'")
        return inner.replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\")
    if text[:1] in ("'", '"') and text[-1:] == text[:1]:
        return text[1:-1].replace("''", "'")
    return text

"""Rows as the suites write them: words parted by blanks (or bars), numbers at nine digits.

Law: two lines are the same if their words are, numbers compared as numbers; a line that PostgreSQL
writes of a row has the same words as the line made here of an equal row.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

Words = tuple[str, ...]


def written(row: Sequence[Any]) -> Words:
    """The words of a row."""
    return words(" ".join("(empty)" if v == "" else cell(v) for v in row))


def words(line: str) -> Words:
    """The words of a written line, numbers in one form."""
    return tuple(number(w) for w in line.split())


def same_rows(found: Iterable[Words], wanted: Iterable[Words]) -> bool:
    """Whether the lines are the same, whatever their order."""
    return sorted(found) == sorted(wanted)


def cell(value: Any) -> str:
    """A value as PostgreSQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, dict):
        return f"({','.join(_inner(v) for v in value.values())})"
    if isinstance(value, list):
        return "{" + ",".join(_quoted(cell(v), ",{} ") for v in value) + "}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, datetime.timedelta):
        return str(datetime.datetime.min + value).split()[1]
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def _inner(value: Any) -> str:
    return "" if value is None else _quoted(cell(value), ",() ")


def _quoted(text: str, special: str) -> str:
    return json.dumps(text) if not text or any(c in special for c in text) else text


def number(word: str) -> str:
    """A number in one form, another word as it is."""
    if ":" in word and "." in word:
        return word.rstrip("0")
    try:
        value = float(word)
    except ValueError:
        return word
    return f"{value:.9g}" if value else "0"

"""Reads options in parentheses: `name = value, …`, each at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ivm.sql.statements.text.tokens import Reader, unquoted


def options(reader: Reader, readers: Mapping[str, Callable[[Reader], Any]]) -> dict[str, Any]:
    """Reads options behind `(`; the reader is behind `)` then.

    Args:
        reader: at the first name.
        readers: what reads the values, by the names in upper case.

    Raises:
        SqlError: another name, or one twice.
    """
    found: dict[str, Any] = {}
    while True:
        name = reader.peek()
        if name not in readers or name in found:
            raise reader.error(f"expected one of {', '.join(readers).lower()}, each once")
        reader.at += 1
        reader.expect("=")
        found[name] = readers[name](reader)
        if not reader.accept(","):
            break
    reader.expect(")")
    return found


def column_name(reader: Reader) -> str:
    """A column's name, which may be quoted as a text too."""
    if not reader.done and reader.tokens[reader.at].text[:1] == "'":
        reader.at += 1
        return reader.tokens[reader.at - 1].text[1:-1].replace("''", "'")
    reader.identifier()
    return unquoted(reader.tokens[reader.at - 1])

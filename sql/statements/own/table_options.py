"""Reads options in parentheses: `name = value, …`, each at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ivm.sql.statements.text.tokens import Reader


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

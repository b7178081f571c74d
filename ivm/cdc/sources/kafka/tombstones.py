"""Tombstones: messages without a value, which delete the row of their key.

Law: the line made of a tombstone deletes the row with the message's key, or says that the key is
missing; it never means another row.
"""

from __future__ import annotations

import json
from typing import Any

from ivm.cdc.formats.plain import DELETED


def deletion(key: bytes, column: str | None) -> bytes:
    """The line of format `json upserts` that deletes the row of a key.

    Args:
        key: of the message: a JSON object of the row's key, with its schema or without; or the
            value of its only column, as JSON or as a text.
        column: the name of that column, if it is known.
    """
    return json.dumps({**_row(key, column), DELETED: "true"}, ensure_ascii=False).encode()


def _row(key: bytes, column: str | None) -> dict[str, Any]:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return {}
    try:
        found = json.loads(text, parse_float=str, parse_constant=str)  # all digits stay
    except (ValueError, RecursionError):
        found = None
    is_other = isinstance(found, int) and json.dumps(found) != text  # such as -0
    if found is None or is_other:  # null is no key
        found = text
    if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
        found = found["payload"]
    if isinstance(found, dict):
        return found
    return {} if column is None else {column: found}

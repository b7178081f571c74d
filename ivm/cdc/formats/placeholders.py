"""Debezium's placeholder of a value that has not changed and was not sent, in all its forms.

Law: a value that is the placeholder is the stored one; one that has it as a part is refused; no
form of it is stored. The forms are those that the type upstream and the handling of binary values
make of the text: itself, base64, hex, a UUID, the number of each byte, and lists and a map of them.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence

from ivm.storage.identifiers import literal
from ivm.storage.values.types import ColumnType

_TEXT = "__debezium_unavailable_value"
_BYTES = _TEXT.encode()
_BASE64 = base64.b64encode(_BYTES).decode()
_HEX = _BYTES.hex()
_UUID = str(uuid.UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3))
_NUMBERS = ",".join(map(str, _BYTES))
_FORMS = (_TEXT, _BASE64, _BASE64.rstrip("="), _HEX, _HEX.upper(), _UUID)
_MAP = f'{{"{_TEXT}":"{_TEXT}"}}'


def may_have_one(types: Sequence[ColumnType]) -> str:
    """SQL of whether a line may have a placeholder; it is cheap, and true for a few other lines.

    Args:
        types: of the columns.
    """
    looks = [f"system.main.contains(text, {literal(_TEXT)})"]
    free = any(_takes_any_text(type) for type in types)
    if free:
        looks += [f"system.main.contains(text, {literal(f)})" for f in (_BASE64[:-2], _HEX)]
    if free or any("UUID" in type.sql for type in types):
        looks.append(f"system.main.contains(text, {literal(_UUID)})")
    if any(type.base == "LIST" or type.is_string or _is_nested(type) for type in types):
        looks.append(f"system.main.regexp_matches(text, '\\[\\s*{_BYTES[0]}(\\.0)?\\s*,')")
    return f"({' OR '.join(looks)})"


def is_one(raw: str) -> str:
    """SQL of whether a JSON value is the placeholder.

    Args:
        raw: SQL of its text without blanks; NULL for no value.
    """
    string = f"system.main.json_extract_string({raw}, '$')"
    text = f"CASE system.main.left({raw}, 1) WHEN '\"' THEN {string} ELSE {raw} END"
    bare = f"system.main.trim({text}, '[]\"')"
    # Not IN, for which DuckDB builds a hash table at each execution: it takes longer than the rest.
    forms = " ".join([f"WHEN {literal(form)} THEN TRUE" for form in (*_FORMS, _MAP)])
    numbers = f"coalesce({_numbers(bare)} = {literal(_NUMBERS)}, FALSE)"
    return f"CASE {bare} {forms} ELSE {numbers} END"


def has_one(raw: str) -> str:
    """SQL of whether a part of a JSON value is the placeholder; arguments as for `is_one`."""
    looks = [f"system.main.contains({raw}, {literal(json)})" for json in map(_quoted, _FORMS)]
    looks.append(f"system.main.contains({_numbers(raw)}, {literal(f'[{_NUMBERS}]')})")
    is_nested = f"system.main.left({raw}, 1) IN ('[', '{{')"
    return f"coalesce({is_nested} AND ({' OR '.join(looks)}), FALSE)"


def _numbers(text: str) -> str:
    return f"system.main.replace({text}, '.0', '')"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _takes_any_text(type: ColumnType) -> bool:
    return type.is_string or "BLOB" in type.sql or "VARCHAR" in type.sql or _is_nested(type)


def _is_nested(type: ColumnType) -> bool:
    return type.base in ("STRUCT", "MAP", "UNION", "VARIANT") or "JSON" in type.sql

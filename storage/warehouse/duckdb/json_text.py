"""JSON as DuckDB writes it, made such JSON as everybody reads.

Law: `to_json` and its like write a DECIMAL(p, p) of many digits as its text, `.5`, and a nested NaN
or infinity bare. These get a zero and quotes, digit by digit as they stand; strings stay as they
are. It is done with the text of the whole value, since a text read as JSON again would keep of each
number what a DOUBLE holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECES = r'"(?:[^"\\]|\\.)*"|[^"]+'  # a string, or what stands between strings
_POINT, _BARE = r"(^|[\[,:])(-?)\.", r"(^|[\[,:])(-?(?:NaN|Infinity))"
_DIFFERS = re.compile(r"FLOAT|DOUBLE|DECIMAL\((\d+), ?\1\)")


def json_text(json: str, types: Iterable[str]) -> str:
    """SQL of a value's JSON text.

    Args:
        json: SQL of the text as DuckDB writes it.
        types: of the values that are in it, in DuckDB's SQL.
    """
    return mended(json) if any(_DIFFERS.search(type) for type in types) else json


def mended(json: str) -> str:
    """The same for values of any types."""
    pieces = f"system.main.regexp_extract_all({json}, '{_PIECES}')"
    pointed = rf"system.main.regexp_replace(piece, '{_POINT}', '\1\20.', 'g')"
    made = rf"""system.main.regexp_replace({pointed}, '{_BARE}', '\1"\2"', 'g')"""
    piece = f"""CASE WHEN system.main.starts_with(piece, '"') THEN piece ELSE {made} END"""
    pieces = f"system.main.list_transform({pieces}, lambda piece: {piece})"
    needed = f"system.main.regexp_matches({json}, '{_POINT}|{_BARE}')"
    return f"CASE WHEN {needed} THEN system.main.array_to_string({pieces}, '') ELSE {json} END"

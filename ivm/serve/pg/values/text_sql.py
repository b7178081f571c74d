"""DuckDB's values as PostgreSQL writes them as text, and back, said in DuckDB's SQL.

They are DuckDB's own texts but for booleans, infinities, bytes, months, years before our era,
decimals without a digit before the point, arrays, and what travels as json.

Law: `value_sql` of a value's `text_sql` is the value, or an error.
"""

from __future__ import annotations

import re

from ivm.serve.pg.values.types import element_of, is_json
from ivm.storage.warehouse.duckdb.json_text import json_text

_QUOTED = ("VARCHAR", "ENUM(", "JSON", "BLOB", "TIMESTAMP", "INTERVAL", "DATE", "TIME")
_QUOTES = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_NOT_IN_JSON = re.compile(rf"{_QUOTES}|\b(BLOB|BIT|BIGNUM)(?=[,)\[]|\Z)")
_WHOLE_MINUTES = "TIMESTAMPTZ '1973-01-01'"  # later all zones are so far from Greenwich


def text_sql(type: str, value: str) -> str:
    """An expression for a value's text; NULL for NULL.

    Args:
        type: the value's, of DuckDB.
        value: an expression.
    """
    element = element_of(type)
    if element is not None:
        return _array(element, value)
    if is_json(type):
        return json_text(f"CAST(to_json({value}) AS VARCHAR)", [type])
    text = f"CAST({value} AS VARCHAR)"
    if type == "BOOLEAN":
        return f"CASE WHEN {value} THEN 't' WHEN NOT {value} THEN 'f' END"
    if type in ("DOUBLE", "FLOAT"):
        return (
            f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) THEN "
            f"CASE WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END ELSE {text} END"
        )
    if type.startswith("DECIMAL("):
        return f"regexp_replace({text}, '^(-?)\\.', '\\10.')"
    if type == "BLOB":
        return f"'\\x' || lower(hex({value}))"
    if type == "INTERVAL":
        return f"replace({text}, 'month', 'mon')"
    if type.endswith("WITH TIME ZONE") and type.startswith("TIMESTAMP"):
        text = _to_the_second(value, text)
    if type.startswith(("DATE", "TIMESTAMP")):
        told = f"regexp_replace({text}, ' \\(BC\\)(.*)', '\\1 BC')"
        return f"CASE WHEN contains({text}, '(') THEN {told} ELSE {text} END"
    return text


def value_sql(type: str, text: str) -> str:
    """An expression for the value of a text, which may be DuckDB's own, too; NULL for NULL.

    Args:
        type: the value's, of DuckDB.
        text: an expression; lists are lists of texts already.
    """
    element = element_of(type)
    if element is not None:
        item = value_sql(element, "e")
        items = text if item == "e" else f"list_transform({text}, lambda e: {item})"
        return f"CAST({items} AS {type})"
    if is_json(type):
        read = _NOT_IN_JSON.sub(lambda found: "VARCHAR" if found[1] else found[0], type)
        json = f"CAST(CAST({text} AS JSON) AS {read})"
        return json if read == type else f"CAST({json} AS {type})"
    if type.startswith(("DATE", "TIMESTAMP")):
        told = f"regexp_replace({text}, '^(\\S+)(.*) BC$', '\\1 (BC)\\2')"
        return f"CAST(CASE WHEN ends_with({text}, ' BC') THEN {told} ELSE {text} END AS {type})"
    return text


def _to_the_second(value: str, text: str) -> str:
    """The text of a moment with the seconds of its zone, which some releases leave out."""
    away = f"abs(date_part('timezone', {value}))"
    minutes = f"CASE WHEN {away} // 60 % 60 = 0 THEN ':00' ELSE '' END"  # left out, too
    return (
        f"CASE WHEN {value} < {_WHOLE_MINUTES} AND {away} % 60 > 0 "
        f"AND NOT regexp_matches({text}, '[+-]\\d+:\\d+:\\d+') "
        f"THEN {text} || {minutes} || printf(':%02d', {away} % 60) ELSE {text} END"
    )


def _array(element: str, value: str) -> str:
    text = text_sql(element, "e")
    if element.startswith(_QUOTED):
        text = f"""'"' || replace(replace({text}, '\\', '\\\\'), '"', '\\"') || '"'"""
    items = f"list_transform({value}, lambda e: CASE WHEN e IS NULL THEN 'NULL' ELSE {text} END)"
    return f"CASE WHEN {value} IS NOT NULL THEN '{{' || array_to_string({items}, ',') || '}}' END"

"""DuckDB's values as PostgreSQL writes them as text, said in DuckDB's SQL.

They are DuckDB's own texts but for booleans, infinities, bytes, months, years before our era,
arrays, and what travels as json.
"""

from __future__ import annotations

from ivm.serve.pg.types import element_of, is_json

_QUOTED = ("VARCHAR", "ENUM(", "JSON", "BLOB", "TIMESTAMP", "INTERVAL", "DATE", "TIME")


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
        return f"CAST(to_json({value}) AS VARCHAR)"
    text = f"CAST({value} AS VARCHAR)"
    if type == "BOOLEAN":
        return f"CASE WHEN {value} THEN 't' WHEN NOT {value} THEN 'f' END"
    if type in ("DOUBLE", "FLOAT"):
        return (
            f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) THEN "
            f"CASE WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END ELSE {text} END"
        )
    if type == "BLOB":
        return f"'\\x' || lower(hex({value}))"
    if type == "INTERVAL":
        return f"replace({text}, 'month', 'mon')"
    if type.startswith(("DATE", "TIMESTAMP")):
        return f"replace({text}, ' (BC)', ' BC')"
    return text


def _array(element: str, value: str) -> str:
    text = text_sql(element, "e")
    if element.startswith(_QUOTED):
        text = f"""'"' || replace(replace({text}, '\\', '\\\\'), '"', '\\"') || '"'"""
    items = f"list_transform({value}, lambda e: CASE WHEN e IS NULL THEN 'NULL' ELSE {text} END)"
    return f"CASE WHEN {value} IS NOT NULL THEN '{{' || array_to_string({items}, ',') || '}}' END"

"""Canonical forms of DuckDB's syntax trees.

Law: trees with equal canonical forms have one meaning in DuckDB, in different spellings: synonyms,
explicit defaults, the three ways to write an INTERVAL. Trees of one release are compared: others
have further entries, and group arrows otherwise.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from ivm.sql.plan.built_in import FACTS
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import rows

_IGNORED = ("query_location", "query_location_length", "syntax_type", "is_operator")
_NEGATED = {
    "OPERATOR_IS_NULL": "OPERATOR_IS_NOT_NULL",
    "COMPARE_NOT_DISTINCT_FROM": "COMPARE_DISTINCT_FROM",
}
_UNITS = {"dayofweek": "dow", "dayofyear": "doy"}
_INTERVAL = re.compile(r"\s*(-?\d+)\s+([a-z]+?)s?\s*")


def canonical(node: Any, names: dict[str, str]) -> Any:
    """Returns the canonical form of DuckDB's syntax tree of a query.

    Args:
        node: the tree, or a part of it.
        names: the chief names of functions and types (see `synonyms`).
    """
    if isinstance(node, list):
        return [canonical(part, names) for part in node]
    if not isinstance(node, dict):
        return node
    plain = {k: canonical(v, names) for k, v in node.items() if k not in _IGNORED}
    if plain.get("is_legacy_function_call") is False:
        del plain["is_legacy_function_call"]
    found = _canonical_node(plain, node, names)
    if found is not plain and "class" in node and "alias" in found:
        found["alias"] = node["alias"]  # a part of an expression may stand for it
    return found


def _canonical_node(plain: dict[str, Any], node: dict[str, Any], names: dict[str, str]) -> Any:
    """The canonical form of a node.

    Args:
        plain: the node, with the canonical forms of its parts.
        node: itself.
        names: as above.
    """
    if "function_name" in plain:
        return _canonical_call(plain, names)
    if "type_name" in plain:
        return _canonical_type(plain, names)
    if plain.get("type") == "ARRAY_CONSTRUCTOR":
        return _list_of(plain)
    if plain.get("class") == "LAMBDA" and _groups_arrows_from_the_right():
        return _canonical_arrow(plain, node["expr"])
    if plain.get("alias") == "_values" and "column_name_alias" in plain:
        return _bare_values(plain)
    if plain.get("type") == "OPERATOR_CAST":
        return _canonical_cast(plain)
    if "null_order" in plain:
        return _canonical_order(plain)
    if plain.get("type") == "OPERATOR_NOT":
        return _canonical_not(plain)
    if plain.get("class") == "CONSTANT" and "literal" in plain:
        plain["literal"]["text"] = _canonical_literal(plain["literal"])
    return plain


def _canonical_type(type: dict[str, Any], names: dict[str, str]) -> Any:
    """DECIMAL is DECIMAL(18, 3), DECIMAL(n) is DECIMAL(n, 0); a VARCHAR's length has no effect."""
    name = fold(type["type_name"])
    type["type_name"] = name = names.get(f"type {name}", name)
    del type["qualified_name"]
    if name == "varchar":
        type["children"] = [c for c in type.get("children", []) if c.get("class") != "CONSTANT"]
    elif name == "decimal" and not type.get("children"):
        type["children"] = [_integer("18"), _integer("3")]
    elif name == "decimal" and len(type["children"]) == 1:
        type["children"].append(_integer("0"))
    return type


def _list_of(constructor: dict[str, Any]) -> Any:
    """ARRAY[a, b] is [a, b]."""
    arguments = [{"name": "", "expression": part} for part in constructor["children"]]
    return {
        "class": "FUNCTION", "type": "FUNCTION", "alias": constructor["alias"],
        "function_name": "list_value", "schema": "", "filter": None,
        "order_bys": {"type": "ORDER_MODIFIER", "orders": []}, "distinct": False,
        "export_state": False, "catalog": "", "arguments": arguments,
    }  # fmt: skip


@functools.cache
def _groups_arrows_from_the_right() -> bool:
    """Returns whether the DuckDB at hand does; 2.0.1 is the first that does not."""
    with FACTS.borrow() as facts:
        ((text,),) = rows(facts, "SELECT json_serialize_sql($1)", ["SELECT j -> 'a' ->> 'b'"])
    (item,) = json.loads(text)["statements"][0]["node"]["select_list"]
    return bool(item["class"] == "LAMBDA")


def _canonical_arrow(arrow: dict[str, Any], written: dict[str, Any]) -> Any:
    """j -> 'a' ->> 'b' is (j -> 'a') ->> 'b', though DuckDB's parser groups it from the right.

    Args:
        written: the arrow's right operand before it was made canonical.
    """
    operand = arrow["expr"]
    if written.get("function_name") != "->>" or not written["is_operator"]:
        return arrow
    first, *others = operand["arguments"]
    left = {**arrow, "expr": first["expression"], "alias": ""}
    left = _canonical_arrow(left, written["arguments"][0]["expression"])
    arguments = [{**first, "expression": left}, *others]
    return {**operand, "arguments": arguments, "alias": arrow["alias"]}


def _bare_values(item: dict[str, Any]) -> Any:
    """Undoes sqlglot's spelling of WITH t AS (VALUES …), a SELECT from a derived table."""
    query = item.get("subquery", {}).get("node", {})
    source = query.get("from_table") or {}
    plain = item.get("type") == "SUBQUERY" and not item["column_name_alias"]
    if not plain or source.get("type") != "EXPRESSION_LIST" or query["modifiers"]:
        return item
    stars = [part for part in query["select_list"] if part["class"] == "STAR"]
    only = len(query["select_list"]) == len(stars) == 1 and query["where_clause"] is None
    return source if only else item


def _integer(text: str) -> dict[str, Any]:
    literal = {"kind": "INTEGER", "text": text}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": literal}


def _canonical_order(key: dict[str, Any]) -> Any:
    """ASC NULLS LAST is the default; `bind` refuses to read orders under other settings."""
    defaults = {"NULLS LAST": "ORDER_DEFAULT", "ASCENDING": "ORDER_DEFAULT"}
    nulls, direction = key["null_order"], key["type"]
    plain = {"null_order": defaults.get(nulls, nulls), "type": defaults.get(direction, direction)}
    return {**key, **plain}


def _canonical_not(negation: dict[str, Any]) -> Any:
    """NOT x IS NULL and x IS NOT NULL are one; so are NOT x IS TRUE and x IS NOT TRUE."""
    (inner,) = negation["children"]
    negated = _NEGATED.get(inner.get("type"))
    return negation if negated is None else {**inner, "type": negated}


def _canonical_call(call: dict[str, Any], names: dict[str, str]) -> Any:
    name = fold(call["function_name"])
    while name in names:
        name = names[name]
    call["function_name"] = name
    call.pop("qualified_name", None)
    arguments = call.get("arguments", [])
    if name == "+" and len(arguments) == 1:  # sqlglot drops a unary plus
        return arguments[0]["expression"]
    if name in ("bool_and", "bool_or") and len(arguments) == 1:  # sqlglot adds a cast
        arguments[0]["expression"] = _uncast(arguments[0]["expression"], "boolean")
    if name == "string_agg" and len(arguments) == 2:
        _drop_comma(arguments)
    if name.startswith("quantile") and len(arguments) == 2:
        _within_group(call)
    if name.startswith("date") and arguments:
        _lower_unit(arguments[0]["expression"])
    if name.startswith("to_") and len(arguments) == 1:
        return _canonical_interval(call, name[3:].rstrip("s"))
    return call


def _uncast(node: Any, type_name: str) -> Any:
    if node.get("class") == "CAST" and node["type_expr"].get("type_name") == type_name:
        return node["child"]
    return node


def _within_group(call: dict[str, Any]) -> None:
    """Undoes sqlglot's spelling of WITHIN GROUP (ORDER BY x), quantile(x, 0.5 ORDER BY x)."""
    orders = call.get("order_bys", {}).get("orders", [])
    value = call["arguments"][0]["expression"]
    if len(orders) == 1 and orders[0]["expression"] == value:
        del call["arguments"][0]


def _drop_comma(arguments: list[Any]) -> None:
    """string_agg(x) and string_agg(x, ',') are one."""
    literal = arguments[1]["expression"].get("literal", {})
    if literal.get("kind") == "STRING" and literal.get("text") == ",":
        del arguments[1]


def _lower_unit(node: Any) -> None:
    """date_trunc('MONTH', …) and date_trunc('month', …) are one; so are dow and dayofweek."""
    if node.get("class") == "CONSTANT" and isinstance(node["literal"].get("text"), str):
        unit = node["literal"]["text"].lower()
        node["literal"]["text"] = _UNITS.get(unit, unit)


def _canonical_interval(call: dict[str, Any], unit: str) -> Any:
    """INTERVAL 3 DAY, INTERVAL '3' DAY and INTERVAL '3 days' are one."""
    value = call["arguments"][0]["expression"]
    # The parser makes to_days(CAST(trunc(CAST(3 AS DOUBLE)) AS INTEGER)) of INTERVAL 3 DAY.
    while value.get("class") == "CAST" or value.get("function_name") == "trunc":
        value = value["child"] if "child" in value else value["arguments"][0]["expression"]
    text = str(value.get("literal", {}).get("text"))
    return {"interval": text, "unit": unit} if text.lstrip("-").isdigit() else call


def _canonical_cast(cast: dict[str, Any]) -> Any:
    text = cast["child"].get("literal", {}).get("text") if cast["child"] else None
    if cast["type_expr"].get("type_name") == "interval" and text is not None:
        parts = _INTERVAL.fullmatch(text.lower())
        if parts:
            return {"interval": parts[1], "unit": parts[2]}
    return cast


def _canonical_literal(constant: dict[str, Any]) -> Any:
    text = constant.get("text")
    if constant.get("kind") == "STRING" or not isinstance(text, str):
        return text
    return text.replace("_", "").lower()

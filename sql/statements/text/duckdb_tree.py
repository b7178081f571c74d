"""DuckDB's own syntax tree and bound plan of a query, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ivm.storage.deep_stack import deeply
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.duckdb.duck import Cursor, rows


def syntax_tree(query: str, cursor: Cursor) -> dict[str, Any] | None:
    """The syntax tree of a SELECT; None if DuckDB cannot serialize it."""
    tree, error = read_or_error(query, cursor)
    return None if error else tree


def read_or_error(query: str, cursor: Cursor) -> tuple[dict[str, Any], str]:
    """The syntax tree of a SELECT, and DuckDB's error if it cannot serialize it ("" if it can)."""
    text = _last.get(query)  # a query is read several times in a row
    if text is None:
        text = _serialized(f"system.main.json_serialize_sql({literal(query)})", cursor)
        _last.clear()
        _last[query] = text
    tree = _parsed(text)
    return tree, tree["error_message"] if tree["error"] else ""


def bound_plan(query: str, cursor: Cursor) -> Any:
    """DuckDB's plan before optimization, with the type of every expression."""
    call = f"system.main.json_serialize_plan({literal(query)}, optimize := false)"
    return _parsed(_serialized(call, cursor))


_last: dict[str, str] = {}
"""The query that was read last, and its serialized tree; no setting or name changes that."""


def _serialized(call: str, cursor: Cursor) -> str:
    return str(rows(cursor, f"SELECT {call}")[0][0])


def _parsed(text: str) -> Any:
    return deeply(lambda: json.loads(text))


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All nodes of a tree, parents before their children."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(reversed(node.values()))
        elif isinstance(node, list):
            waiting.extend(reversed(node))

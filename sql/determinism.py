"""What may not stand in a view because its value depends on more than the tables.

Law: a view is a function of its base tables. A VOLATILE function, one that reads the clock or the
session, a sample: each is refused, also inside plain views and macros, with its place in the query
and a way out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ivm.storage.duck import Cursor, literal, rows
from ivm.storage.errors import UnsupportedError

_CLOCK = frozenset(
    [
        "now", "today", "current_date", "current_time", "current_timestamp", "current_localtime",
        "current_localtimestamp", "localtime", "localtimestamp", "get_current_timestamp",
        "get_current_time", "transaction_timestamp", "ago", "pg_conf_load_time",
        "pg_postmaster_start_time",
    ]
)  # fmt: skip
# Written without parentheses they are column references to DuckDB's parser.
_CLOCK_WORDS = frozenset(
    ["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"]
)
_HARMLESS = frozenset(["error", "assert_true"])


def check_deterministic(query: str, cursor: Cursor) -> None:
    """Refuse a query whose answer depends on more than its tables.

    Args:
        query: one SELECT that DuckDB accepts.
        cursor: sees the same views and macros.

    Raises:
        UnsupportedError: names the construct, why, where, and the way out.
    """
    tree = _parsed(query, cursor)
    if tree is None:
        return
    checker = _Checker(cursor)
    checker.check(tree, None, ())


def _unstable(cursor: Cursor) -> frozenset[str]:
    """What may differ from call to call, the user's own Python functions included."""
    found = rows(
        cursor,
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions()"
        " WHERE internal AND stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY')",
    )
    return frozenset(name for (name,) in found) - _HARMLESS


class _Checker:
    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._unstable = _unstable(cursor)
        self._views = dict(
            rows(cursor, "SELECT lower(view_name), sql FROM duckdb_views() WHERE NOT internal")
        )
        macros = rows(
            cursor,
            "SELECT lower(function_name), macro_definition FROM duckdb_functions()"
            " WHERE macro_definition IS NOT NULL AND NOT internal",
        )
        self._macros = dict(macros)

    def check(self, tree: Any, place: int | None, through: tuple[str, ...]) -> None:
        for node in _nodes(tree):
            at = _place(node) if place is None else place
            if node.get("sample"):
                raise _refusal("a sample", "its rows are chosen by chance", at, through, _FIXED)
            name = _called(node)
            if name is not None:
                self._check_call(name, at, through)
            table = node.get("table_name")
            if node.get("type") == "BASE_TABLE" and table:
                self._enter(str(table).lower(), self._views, at, through)

    def _check_call(self, name: str, place: int | None, through: tuple[str, ...]) -> None:
        if name in _CLOCK:
            raise _refusal(
                f"{name}()", "its value changes with time, not with the tables", place, through,
                "Temporal filters come later; until then compare with a column, or keep the time "
                "in a one-row table that you update",
            )  # fmt: skip
        if name in self._unstable:
            raise _refusal(
                f"{name}()", "its value changes from call to call", place, through, _FIXED
            )
        self._enter(name, self._macros, place, through)

    def _enter(
        self, name: str, known: dict[str, str], place: int | None, through: tuple[str, ...]
    ) -> None:
        """Look into a view or macro the query uses (once on each way)."""
        if name not in known or name in through:
            return
        tree = _parsed(_body(known[name]), self._cursor)
        if tree is not None:
            self.check(tree, -1 if place is None else place, (*through, name))


_FIXED = "Compute the value once when the row is written and store it in a column"


def _refusal(
    what: str, why: str, place: int | None, through: tuple[str, ...], way_out: str
) -> UnsupportedError:
    known = place is not None and place >= 0
    where = f" at character {place + 1}" if known and place is not None else ""
    inside = f" (through {' → '.join(through)})" if through else ""
    message = f"{what}{where}{inside} cannot stand in a materialized view: {why}. {way_out}."
    return UnsupportedError(message, place if known else None)


def _parsed(sql: str, cursor: Cursor) -> Any:
    """DuckDB's syntax tree; None for what it cannot serialize."""
    tree = json.loads(rows(cursor, f"SELECT json_serialize_sql({literal(sql)})")[0][0])
    return None if tree.get("error") else tree


def _body(definition: str) -> str:
    """The query in a view's or the expression in a macro's definition."""
    head, found, body = definition.partition(" AS ")
    if head.lstrip().upper().startswith("CREATE") and found:
        return body.rstrip().rstrip(";")
    if head.lstrip().upper().startswith(("SELECT", "WITH", "FROM", "VALUES")):
        return definition
    return f"SELECT {definition}"


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _called(node: dict[str, Any]) -> str | None:
    if "function_name" in node:
        return str(node["function_name"]).lower()
    names = node.get("column_names")
    if isinstance(names, list) and len(names) == 1 and str(names[0]).lower() in _CLOCK_WORDS:
        return str(names[0]).lower()
    return None


def _place(node: dict[str, Any]) -> int | None:
    place = node.get("query_location")
    return place if isinstance(place, int) and place < 2**62 else None

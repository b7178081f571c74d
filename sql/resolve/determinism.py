"""Refuses constructs in a view whose values depend on more than the tables.

Invariant: a view is a function of its base tables and of the clock (see `ivm.sql.resolve.clock`),
which is one of them. VOLATILE functions, those that read the session or are not known, and samples
are refused, also inside plain views and macros; the error has the offset in the query and a way
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import duckdb

from ivm.sql.parse.function_list import VISIBLE_DATABASES, FunctionList, list_functions
from ivm.sql.plan.known_functions import unknown_functions
from ivm.sql.resolve.clock import AGE, TELLERS, WORDS
from ivm.sql.resolve.plain_views import PlainViews
from ivm.sql.statements.text.duckdb_tree import read_or_error, syntax_tree
from ivm.sql.statements.text.stored_text import view_query
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_STARTS = frozenset(["pg_conf_load_time", "pg_postmaster_start_time"])
_SESSION = frozenset(
    [
        "getvariable", "current_setting", "current_schema", "current_schemas", "current_catalog",
        "current_database", "current_query", "current_query_id", "current_connection_id",
        "current_transaction_id", "txid_current", "in_search_path",
    ]
)  # fmt: skip
# Table functions whose rows depend on their arguments alone; the others read files or state.
_TABLE_FUNCTIONS = frozenset(
    ["unnest", "range", "generate_series", "repeat", "repeat_row", "json_each", "json_tree"]
)
_SYSTEM_SCHEMAS = ("information_schema", "pg_catalog")
_RELATIONS = f"""
SELECT view_name, schema_name, internal FROM system.main.duckdb_views()
WHERE schema_name <> 'information_schema' AND {VISIBLE_DATABASES}
UNION ALL SELECT table_name, schema_name, FALSE FROM system.main.duckdb_tables()
WHERE {VISIBLE_DATABASES}
"""
_ATTACHED = """
SELECT database_name FROM system.main.duckdb_databases()
WHERE NOT internal AND database_name <> system.main.current_database()
"""
_HARMLESS = frozenset(["error", "assert_true"])


class SeenNames:
    """The relations and databases that a cursor sees, listed once for any number of queries.

    Args:
        cursor: the cursor.

    Attributes:
        views: the statements of the plain views by folded name.
        known: the folded names of all relations.
        system: those by which a bare name means one of DuckDB's own views.
        other_databases: the folded names of attached databases.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.views = PlainViews(cursor).texts
        system, own, known = set[str](), set[str](), set[str]()
        for name, schema, internal in rows(cursor, _RELATIONS):
            known.add(fold(name))
            if internal or fold(schema) == "main":  # a bare name means no relation of other schemas
                (system if internal else own).add(fold(name))
        self.known, self.system = frozenset(known), frozenset(system - own)
        self.other_databases = frozenset([fold(name) for (name,) in rows(cursor, _ATTACHED)])


def check_deterministic(
    query: str,
    cursor: Cursor,
    functions: FunctionList | None = None,
    names: SeenNames | None = None,
) -> frozenset[str]:
    """Refuses a query whose answer depends on more than its tables and the time.

    Args:
        query: one SELECT that DuckDB accepts.
        cursor: sees the same views and macros.
        functions: the functions that the cursor sees, if they have been listed.
        names: what else it sees, if that has been listed.

    Returns:
        The functions that tell the time and may be called, also inside plain views and macros.

    Raises:
        UnsupportedError: names the construct, why, where, and the way out.
    """
    tree, error = read_or_error(query, cursor)
    if error:
        _refuse_open_pivot(error)
        return frozenset()
    known = list_functions(cursor) if functions is None else functions
    checker = _Checker(query, cursor, known, names or SeenNames(cursor))
    checker.check(tree, None, ())
    return frozenset(checker.time_functions)


_Path = tuple[str, ...]
"""The views and macros through which a construct was found, outermost first."""


class _Checker:
    def __init__(
        self, query: str, cursor: Cursor, functions: FunctionList, names: SeenNames
    ) -> None:
        self._bytes = None if query.isascii() else query.encode()
        self._cursor = cursor
        self._unstable = functions.unstable - _HARMLESS
        self._hiding = functions.hiding
        self.time_functions: set[str] = set()
        self._names = names
        self._macros: dict[str, list[str]] = {}
        for macro in functions.macros:
            hidden = macro.table or macro.name in functions.hiding
            if not (macro.internal and hidden):
                self._macros.setdefault(macro.name, []).append(macro.query)

    def check(
        self, tree: Any, offset: int | None, through: _Path, ctes: frozenset[str] = frozenset()
    ) -> None:
        """Refuses the constructs of a syntax tree.

        Args:
            offset: None in the query's own text; inside views and macros, where in the query they
                are used (-1: unknown).
            ctes: names of the common table expressions that the tree sees.
        """
        for node, hidden in _scoped(tree, ctes):
            at = self._offset(node) if offset is None else offset
            if node.get("sample"):
                raise _refusal("a sample", "its rows are chosen by chance", at, through, _FIXED)
            self._check_database(node, at, through)
            self._check_from(node, at, through)
            called = _called(node)
            if called is not None:
                self._check_call(called, node, at, through, hidden)
            if node.get("type") == "BASE_TABLE":
                name = fold(node["table_name"])
                if node["schema_name"] or name not in hidden:
                    self._check_relation(node, at, through)
                    queries = map(view_query, self._names.views.get(name, ()))
                    self._enter(name, queries, at, through, frozenset())

    def _offset(self, node: dict[str, Any]) -> int | None:
        """The offset of a node of the query's own text in characters; None if it is unknown."""
        found = node.get("query_location")
        if not isinstance(found, int) or found >= 2**62:  # 2**64 - 1: unknown
            return None
        return found if self._bytes is None else len(self._bytes[:found].decode(errors="ignore"))

    def _check_database(self, node: dict[str, Any], offset: int | None, through: _Path) -> None:
        """Refuses relations and macros of other databases."""
        parts = [node.get(f"{part}_name", node.get(part)) for part in ("catalog", "schema")]
        given = [str(part) for part in parts if part]
        if given and fold(given[0]) in self._names.other_databases:
            name = node.get("table_name", node.get("function_name"))
            raise _refusal(
                ".".join([*given, str(name)]), "it belongs to another database, and what changes "
                "there is not told here", offset, through, "Load the rows into a table, or create "
                "the macro here",
            )  # fmt: skip

    def _check_from(self, node: dict[str, Any], offset: int | None, through: _Path) -> None:
        """Refuses items of FROM whose rows do not depend on tables alone."""
        if node.get("ref_type") == "POSITIONAL":
            raise _refusal(
                "POSITIONAL JOIN", "the rows of a table have no order", offset, through,
                "Join on row_number() OVER (ORDER BY …) of both sides",
            )  # fmt: skip
        if node.get("type") == "SHOW_REF":
            raise _refusal(
                "DESCRIBE, SUMMARIZE or SHOW", "it tells of the database, not of its rows", offset,
                through, "Run it as a query when you need it, or select the aggregates it shows",
            )  # fmt: skip
        if node.get("type") == "TABLE_FUNCTION":
            name = fold(str(node["function"].get("function_name", "")))
            if name not in _TABLE_FUNCTIONS and name not in self._macros:
                raise _refusal(
                    f"{name}() in FROM", "no change of a table tells when its rows change", offset,
                    through, "Load its rows into a table, and select from that",
                )  # fmt: skip

    def _check_relation(self, node: dict[str, Any], offset: int | None, through: _Path) -> None:
        """Refuses files, and the system views and tables, which describe the database itself."""
        parts = [fold(node[f"{part}_name"]) for part in ("catalog", "schema", "table")]
        catalog, schema, name = parts
        if not schema and name not in self._names.known:  # a replacement scan
            kind = "a variable" if node["table_name"].isidentifier() else "a file or a variable"
            raise _refusal(
                repr(node["table_name"]), f"this database has no such table, and of {kind} no "
                "change of a table tells when its rows change", offset, through,
                "Create the table, or load the rows into one, and select from that",
            )  # fmt: skip
        named = schema in ("", "main") and name in self._names.system
        if named or schema in _SYSTEM_SCHEMAS or catalog == "system":
            raise _refusal(
                ".".join(filter(None, parts)), "it tells of the database, and no change of a table "
                "tells when its rows change", offset, through, "Run it as a query when you need it",
            )  # fmt: skip

    def _check_call(
        self,
        name: str,
        node: dict[str, Any],
        offset: int | None,
        through: _Path,
        hidden: frozenset[str],
    ) -> None:
        if self._tells_time(name, node, offset, through):
            return
        if name in _STARTS:
            raise _refusal(
                f"{name}()", "it tells when a server was started", offset, through,
                "Write the time itself",
            )  # fmt: skip
        if name in _SESSION:
            raise _refusal(
                f"{name}()", "its value comes from the session, not from the tables", offset,
                through, "Write the value itself, or keep it in a one-row table that you update",
            )  # fmt: skip
        if name == "index_key":
            raise _refusal(
                "index_key()", "it tells of an index, not of rows", offset, through,
                "Run it as a query when you need it",
            )  # fmt: skip
        if name == "bitstring_agg" and len(node.get("arguments", ())) == 1:
            raise _refusal(
                "bitstring_agg() without bounds", "where its bits stand depends on statistics, "
                "which DuckDB keeps of what the table has ever held", offset, through,
                "Write the bounds: bitstring_agg(x, least, greatest)",
            )  # fmt: skip
        own = name in self._hiding and not node.get("schema")  # a macro, which is entered
        if name in self._unstable and not own:
            raise _refusal(f"{name}()", _why_unstable(name), offset, through, _FIXED)
        self._enter(name, self._macros.get(name, ()), offset, through, hidden)

    def _tells_time(
        self, name: str, node: dict[str, Any], offset: int | None, through: _Path
    ) -> bool:
        """Notes a call that tells the time.

        Raises:
            UnsupportedError: it names the function's schema; then it cannot be answered with
                another time, as VERIFY does.
        """
        aged = name == AGE and len(node.get("arguments", ())) == 1
        if name in self._hiding or not (name in TELLERS or aged):
            return False
        if node.get("schema"):
            raise _refusal(
                f"{node['schema']}.{name}()", "a view reads the time of its last tick under the "
                "function's bare name", offset, through, f"Write {name}() without the schema",
            )  # fmt: skip
        self.time_functions.add(name)
        return True

    def _enter(
        self,
        name: str,
        queries: Iterable[str],
        offset: int | None,
        through: _Path,
        ctes: frozenset[str],
    ) -> None:
        """Checks the definitions of a view or macro, unless it is among those it was found by."""
        for definition in () if name in through else queries:
            tree = syntax_tree(definition, self._cursor)
            if tree is not None:
                self.check(tree, -1 if offset is None else offset, (*through, name), ctes)


_FIXED = "Compute the value once when the row is written and store it in a column"


def _why_unstable(name: str) -> str:
    if name in unknown_functions():
        return (
            f"DuckDB {duckdb.__version__} has it, and this version of ivmdb does not know whether "
            "it has one value for the same arguments"
        )
    return "its value changes from call to call"


def _refusal(
    what: str, why: str, offset: int | None, through: _Path, way_out: str
) -> UnsupportedError:
    inside = f" (through {' → '.join(through)})" if through else ""
    message = f"{what}{inside} cannot stand in a materialized view: {why}. {way_out}."
    return UnsupportedError(message, offset if offset is not None and offset >= 0 else None)


def _refuse_open_pivot(error: str) -> None:
    """Refuses a PIVOT without an IN list: DuckDB makes several statements of it, and serializes
    none."""
    if "Only SELECT" in error:
        raise UnsupportedError(
            "PIVOT without an IN list cannot stand in a materialized view: its columns depend "
            "on the data. List the values: PIVOT … ON column IN ('a', 'b') USING …."
        )


def _scoped(tree: Any, ctes: frozenset[str]) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """All nodes, each with the names of the common table expressions that it sees."""
    waiting: list[tuple[Any, frozenset[str]]] = [(tree, ctes)]
    while waiting:
        node, hidden = waiting.pop()
        if isinstance(node, list):
            waiting.extend((part, hidden) for part in reversed(node))
        if not isinstance(node, dict):
            continue
        below = []
        for entry in (node.get("cte_map") or {}).get("map", ()):
            below.append((entry["value"], hidden))
            hidden |= {fold(entry["key"])}
        for key, part in node.items():
            again = key == "right" and node.get("type") == "RECURSIVE_CTE_NODE"
            if key != "cte_map":
                below.append((part, hidden | {fold(node["cte_name"])} if again else hidden))
        waiting.extend(reversed(below))
        yield node, hidden


def _called(node: dict[str, Any]) -> str | None:
    if "function_name" in node:
        return fold(str(node["function_name"]))
    names = node.get("column_names")
    return WORDS.get(fold(str(names[0]))) if isinstance(names, list) and len(names) == 1 else None

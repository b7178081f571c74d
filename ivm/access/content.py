"""What a query names and calls, by DuckDB's own syntax tree: an allow-list for roles but admins.

Law: a name must be of a CTE in scope or a relation of the database, a function on the list of
`functions`, and a macro or a plain view is what its text says. A name without a schema in a view's
text, and in the macros that it calls, means a relation of the view's schema or, if it has none, of
main, as DuckDB has it. So a file, a setting or another database cannot be reached, whatever the
spelling. What the tree has that is not known here is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ivm.access.functions import allowed
from ivm.access.roles import Grant
from ivm.catalog.names import NOTHING, NameRules
from ivm.sql.parse.function_list import Macro, list_functions
from ivm.sql.statements.own.watermark_calls import watermarked
from ivm.sql.statements.text.duckdb_tree import read_or_error
from ivm.sql.statements.text.stored_text import bare_lambdas, view_query
from ivm.storage.errors import AccessError, SqlError
from ivm.storage.identifiers import canonical_name, fold, split_name
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.history import paths
from ivm.storage.warehouse.tables.table_info import read_schemas

_READING = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
_CHANGING = frozenset(("INSERT_QUERY_NODE", "UPDATE_QUERY_NODE", "DELETE_QUERY_NODE"))
_SOURCES = frozenset(
    ("BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT")
)
_SHOWN = frozenset(('"tables"', '"databases"', '"schemas"', "__show_tables_expanded"))
_OF_SEQUENCES = frozenset(("nextval", "currval"))
_DEPTH = 32  # macros and views within each other
_VIEWS = """
SELECT view_name, database_name, schema_name, sql FROM system.main.duckdb_views()
WHERE database_name IN (system.main.current_database(), 'temp', 'system')
"""
_TABLES = """
SELECT schema_oid, table_name FROM system.main.duckdb_tables()
WHERE database_name = $1 AND NOT temporary
"""
_FUNCTIONS = """
SELECT DISTINCT function_name FROM system.main.duckdb_functions()
WHERE function_type NOT IN ('macro', 'table_macro')
"""
_DATABASES = "SELECT database_name FROM system.main.duckdb_databases()"
_MAIN = "main"
_ADMIN = "this is for admins"


class _View(NamedTuple):
    path: tuple[str, str]  # of the database and the innermost schema
    query: str

    def is_in(self, within: tuple[str, ...]) -> bool:
        """Returns whether what stands before a name may mean where the view is."""
        database, schema = self.path
        if not within:
            return schema == _MAIN or database == "system"
        return within in (self.path, (schema,), (database,) if schema == _MAIN else ())


class Definitions(NamedTuple):
    """The macros, plain views and relations of a database, DuckDB's own included.

    Attributes:
        names: resolves the names of tables and materialized views.
        elsewhere: the folded names of the other databases that are attached.
        views: the plain views by folded name.
        macros: by folded name.
        functions: folded names of all functions that are no macros.
        free: folded names of functions that every role may call besides those on the list.
    """

    names: NameRules
    elsewhere: frozenset[str]
    views: Mapping[str, Sequence[_View]]
    macros: Mapping[str, Sequence[Macro]]
    functions: frozenset[str]
    free: frozenset[str] = frozenset()


def definitions_of(cursor: Cursor) -> Definitions:
    """The definitions that a cursor sees, so none that another session has not committed."""
    databases = {fold(name) for (name,) in rows(cursor, _DATABASES)}
    [(own,)] = rows(cursor, "SELECT system.main.current_database()")
    views: dict[str, list[_View]] = {}
    for name, database, schema, sql in rows(cursor, _VIEWS):
        views.setdefault(fold(name), []).append(_View((fold(database), fold(schema)), sql))
    return Definitions(
        _names(cursor, own, databases),
        frozenset(databases - {fold(own), "system", "temp"}),
        views,
        macros_of(cursor),
        functions_of(cursor),
    )


def macros_of(cursor: Cursor) -> Mapping[str, Sequence[Macro]]:
    """The macros that a cursor sees, by folded name."""
    found: dict[str, list[Macro]] = {}
    for macro in list_functions(cursor).macros:
        found.setdefault(macro.name, []).append(macro)
    return found


def functions_of(cursor: Cursor) -> frozenset[str]:
    """The folded names of the functions of a cursor that are no macros."""
    return frozenset([fold(name) for (name,) in rows(cursor, _FUNCTIONS)])


def _names(cursor: Cursor, database: str, databases: Iterable[str]) -> NameRules:
    schemas = read_schemas(cursor, database)
    stored = [(*schemas[oid], name) for oid, name in rows(cursor, _TABLES, [database])]
    found = map(canonical_name, (*stored, *paths(cursor)))
    return NameRules(database, databases, schemas.values(), found)


class Content:
    """Looks through queries for one statement of a role.

    Args:
        cursor: of the database; not one that may hold a result.
        grant: the role.
        definitions: of the database.
        hidden: folded names of the session's temporary relations.
    """

    def __init__(
        self,
        cursor: Cursor,
        grant: Grant,
        definitions: Definitions,
        hidden: frozenset[str] = NOTHING,
    ) -> None:
        self._cursor = cursor
        self._grant = grant
        self._definitions = definitions
        self._hidden = hidden
        self._seen: set[tuple[str, str, tuple[str, str] | None]] = set()
        self._around: tuple[str, str] | None = None  # the schema of the view that is looked through

    def demand(self, query: str, *, changes: bool = False, depth: int = 0) -> None:
        """Refuses what the role may not name or call.

        Args:
            query: a SELECT, or a change inside of a CTE.
            changes: whether the first CTE may be a change.
            depth: of macros and views.

        Raises:
            AccessError: says what.
            SqlError: it calls a function that does not exist.
        """
        tree, error = read_or_error(query, self._cursor)
        if error or depth > _DEPTH:
            raise AccessError(
                f"the statement cannot be looked through ({error or 'too deep'}): {_ADMIN}"
            )
        for statement in tree["statements"]:
            self._walk(statement, frozenset(), changes, depth)

    def _walk(self, node: Any, ctes: frozenset[str], changes: bool, depth: int) -> None:
        """Looks through a node; `ctes` are the names of queries in scope."""
        waiting: list[tuple[Any, frozenset[str], bool]] = [(node, ctes, changes)]
        while waiting:
            node, ctes, changes = waiting.pop()
            if isinstance(node, list):
                waiting += [(each, ctes, changes) for each in node]
            elif isinstance(node, dict):
                waiting += self._node(node, ctes, changes, depth)

    def _node(
        self, node: dict[str, Any], ctes: frozenset[str], changes: bool, depth: int
    ) -> Iterator[tuple[Any, frozenset[str], bool]]:
        kind = node.get("type")
        if "class" in node:
            if "function_name" in node:
                self._call(node, depth, allowed().scalars)
        elif isinstance(kind, str):
            self._query_node(kind, changes)
            if kind in ("BASE_TABLE", "SHOW_REF"):
                self._relation(node, kind, ctes, depth)
            elif kind == "TABLE_FUNCTION":
                self._call(node["function"], depth, allowed().tables)
                node = {**node, "function": node["function"]["arguments"]}
            elif "query_location" in node and kind not in _SOURCES:
                raise AccessError(f"a source of rows of the kind {kind}: {_ADMIN}")
            if kind in _CHANGING:
                changes = False
        named = node.get("cte_map")
        if isinstance(named, dict):
            for entry in named["map"]:
                yield entry["value"], ctes, changes
                ctes |= {fold(entry["key"])}
            node = {name: part for name, part in node.items() if name != "cte_map"}
            changes = False
        if kind == "RECURSIVE_CTE_NODE":  # its name is itself in the step alone
            yield node["right"], ctes | {fold(node["cte_name"])}, changes
            node = {name: part for name, part in node.items() if name != "right"}
        yield from ((part, ctes, changes) for part in node.values())

    def _query_node(self, kind: str, changes: bool) -> None:
        if not kind.endswith("_NODE") or kind in _READING or (changes and kind in _CHANGING):
            return
        raise AccessError(f"a {kind.removesuffix('_NODE')} inside of a statement: {_ADMIN}")

    # -- names ----------------------------------------------------------------------------------

    def _relation(
        self, node: Mapping[str, Any], kind: str, ctes: frozenset[str], depth: int
    ) -> None:
        path = [str(part) for part in node["qualified_name"]["path"]]
        if kind == "SHOW_REF" and (node["query"] is not None or not path[-1]):
            return
        if kind == "SHOW_REF" and path[-1] in _SHOWN:
            return
        if len(path) == 1 and kind == "BASE_TABLE" and fold(path[0]) in ctes:
            return
        self.name(path, depth)

    def name(self, path: list[str], depth: int = 0) -> None:
        """Refuses a name that is no relation of the role's.

        Raises:
            AccessError: it is none.
        """
        around = self._around if len(path) == 1 else None
        if around is not None and self._is_known([*around, *path], depth):
            return
        if not self._is_known(path, depth):
            raise AccessError(
                f"{'.'.join(path)!r} is no table and no view of this database; files and other "
                "databases are for admins"
            )

    def relation(self, path: Sequence[str]) -> str | None:
        """The canonical name of the table or materialized view that a name means; None for none."""
        return self._definitions.names.resolve(path, self._hidden)

    def _is_known(self, path: list[str], depth: int) -> bool:
        """Returns whether a name is of a relation or a plain view.

        Raises:
            AccessError: it is, but not of one that the role may read.
        """
        found = self.relation(path)
        if found is not None:
            self._grant.demand_relation(found)
            return True
        marked = watermarked(path)
        if marked is not None:  # whoever reads a table may know how far it has come
            return self._is_known(list(marked), depth)
        within = tuple(map(fold, path[:-1]))
        named = self._definitions.views.get(fold(path[-1]), [])
        views = [view for view in named if view.is_in(within)]
        for view in views:
            self._inside("view", path[-1], view_query(view.query), depth, view.path)
        return bool(views)

    def _call(self, node: Mapping[str, Any], depth: int, listed: frozenset[str]) -> None:
        name = fold(str(node["function_name"]))
        within = {fold(str(node.get(part, ""))) for part in ("catalog", "schema")}
        if not within.isdisjoint(self._definitions.elsewhere):
            raise AccessError(f"the function {name}() of another database is for admins")
        macros = self._definitions.macros.get(name, [])
        known = name in listed or (self._grant.writes and name in allowed().writing)
        known = known or (name in self._definitions.free and "system" not in within)
        is_function = name in self._definitions.functions
        if not (known or is_function or macros):
            raise SqlError(f"the function {name}() does not exist")
        if not known and is_function:  # also where there is a macro, as it may mean both
            raise AccessError(f"the function {name}() is for admins")
        if name in _OF_SEQUENCES and self._grant.schema is not None:
            self._demand_sequence(_sequence(node))
        for macro in macros:
            self._inside("macro", name, bare_lambdas(macro.query), depth, self._around)

    def _demand_sequence(self, path: tuple[str, ...]) -> None:
        self._grant.demand_relation(canonical_name(path))
        if self._around is not None and len(path) == 1:  # or it is that of the view's schema
            self._grant.demand_relation(canonical_name((self._around[1], *path)))

    def _inside(
        self, kind: str, name: str, query: str, depth: int, around: tuple[str, str] | None
    ) -> None:
        """Looks through a view or a macro; names in it may mean those of the schema around it."""
        if (kind, query, around) in self._seen:
            return
        self._seen.add((kind, query, around))
        before, self._around = self._around, around
        try:
            self.demand(query, depth=depth + 1)
        except AccessError as error:
            raise AccessError(f"in the {kind} {name}: {error}") from error
        finally:
            self._around = before


def _sequence(call: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of the name of the sequence that a call names by a constant; else of none."""
    found = call["arguments"]
    text = (found[0]["expression"].get("literal") or {}).get("text") if found else None
    return split_name(text) if isinstance(text, str) else ("?",)

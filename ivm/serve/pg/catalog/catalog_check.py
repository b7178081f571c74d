"""The check of a query about the catalog, as the catalog's own DuckDB would run it.

Law: what every role may call in a query of tables it may call here, and besides it the functions of
`pg_catalog` that are macros of ours. A name is a relation of `pg_catalog` or `information_schema`,
or a CTE: the tables below them, files and other functions are named by nobody, whatever the role.
"""

from __future__ import annotations

import functools
import threading

import duckdb

from ivm.access.content import Content, Definitions, functions_of, macros_of
from ivm.access.roles import READ, Grant
from ivm.catalog.names import NameRules
from ivm.serve.pg.catalog.catalog_macros import MACRO_NAMES
from ivm.serve.pg.catalog.catalog_relations import INFORMATION, RELATION_NAMES
from ivm.sql.statements.text.cached_by_text import LONGEST
from ivm.storage.warehouse.duckdb.duck import Cursor

_SCHEMAS = (("pgc",), ("pgi",))
_NAMES = (*(f"pgc.{name}" for name in RELATION_NAMES), *(f"pgi.{n}" for n in INFORMATION))
_GRANT = Grant(READ)  # names and definitions are everybody's, see docs/http.md
_MOST = 4096  # answers that are kept


@functools.cache
def _definitions() -> Definitions:
    """What a query may name and call: DuckDB's own macros are looked through, ours are known."""
    with duckdb.connect() as empty:
        macros, functions = macros_of(empty), functions_of(empty)
    others = {name: found for name, found in macros.items() if name not in MACRO_NAMES}
    names = NameRules("memory", (), _SCHEMAS, _NAMES)
    return Definitions(names, frozenset(), {}, others, functions, MACRO_NAMES)


class CatalogCheck:
    """Looks through queries; any thread calls it."""

    def __init__(self) -> None:
        self._good: set[str] = set()
        self._lock = threading.Lock()

    def demand(self, sql: str, cursor: Cursor) -> None:
        """Refuses a query that names or calls what no role may.

        Args:
            sql: as DuckDB is to run it.
            cursor: reads its syntax.

        Raises:
            AccessError: says what.
            SqlError: it calls a function that does not exist.
        """
        if sql in self._good:
            return
        Content(cursor, _GRANT, _definitions()).demand(sql)
        with self._lock:
            if len(self._good) >= _MOST:
                self._good.clear()
            if len(sql) <= LONGEST:
                self._good.add(sql)

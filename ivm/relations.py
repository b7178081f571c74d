"""Which relations a statement reads, by its text.

Law: the answer may name too many, never too few: a query's relations are DuckDB's own answer; of
any other statement every word counts, and a word behind which other relations stand (a plain view,
a macro, dynamic SQL) means all of them.
"""

from __future__ import annotations

import re

import duckdb

from ivm.catalog import Catalog
from ivm.storage.duck import Cursor, rows
from ivm.storage.warehouse import Warehouse

_WORD = re.compile(r'"((?:[^"]|"")+)"|(\w+)')
_DYNAMIC = {"query", "query_table"}
_KEPT = 4096  # statements


class Relations:
    """Answers by text, kept until the catalog changes.

    Args:
        warehouse: its cursors are asked, never the session's: a statement that does not bind
            would abort the session's transaction.
        catalog: the relations there are.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._known: dict[str, frozenset[str]] = {}

    def forget(self) -> None:
        """The catalog has changed."""
        self._known.clear()

    def read_by(self, sql: str) -> frozenset[str]:
        """Canonical names of the tables and views that a statement reads."""
        known = self._known.get(sql)
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[sql] = self._find(sql)
        return known

    def _find(self, sql: str) -> frozenset[str]:
        cursor = self._warehouse.cursor()
        try:
            found = {name.rpartition(".")[2].strip('"') for name in cursor.get_table_names(sql)}
        except duckdb.Error:  # not a SELECT, or it does not bind: DuckDB says so when it runs
            found = _words(sql)
            if not found.isdisjoint(_indirect(cursor)):
                return frozenset(self._catalog.qualified)
        wanted = {name.lower() for name in found}
        names = (*self._catalog.tables, *self._catalog.views)
        return frozenset(n for n in names if n.rpartition(".")[2].lower() in wanted)


def _words(sql: str) -> set[str]:
    """Everything in a statement that could be the name of a relation, lower case."""
    return {(quoted or word).lower() for quoted, word in _WORD.findall(sql)}


def _indirect(cursor: Cursor) -> set[str]:
    """Names behind which other relations stand."""
    found = rows(
        cursor,
        "SELECT lower(view_name) FROM duckdb_views() WHERE NOT internal UNION ALL"
        " SELECT lower(function_name) FROM duckdb_functions()"
        " WHERE NOT internal AND function_type IN ('macro', 'table_macro')",
    )
    return {name for (name,) in found} | _DYNAMIC

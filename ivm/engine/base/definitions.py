"""A cache of facts about tables, views and macros, valid until the catalog changes.

Invariant: every entry was computed after the last `forget`, and a row reader is for the `TableInfo`
that is asked for. The cursors asked do not see an uncommitted change of the catalog: entries
computed during such a transaction are dropped at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ivm.catalog.catalog import Catalog
from ivm.catalog.relations_read import Relations
from ivm.ingest.evaluated_defaults import tells_time
from ivm.ingest.fast_path import FastPath
from ivm.ingest.fast_path_rules import fast_path_of, why_none
from ivm.ingest.rows import RowReader
from ivm.sql.parse.function_list import FunctionList, built_in_functions, list_functions
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo
from ivm.storage.warehouse.warehouse import Warehouse


class Definitions:
    """The cache of one database.

    Args:
        warehouse: gives the cursors that are asked.
        catalog: the tables.

    Attributes:
        relations: tells the relations that a statement reads, replaced whole.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._fast_paths: dict[str, FastPath | None] = {}
        self._functions = built_in_functions() if warehouse.file.is_new else None
        self._function_changes = 0
        self._tell: list[bool] = []  # whether a default tells the time, once it was asked for
        self._readers: dict[str, RowReader] = {}
        self._lock = threading.Lock()
        self.relations = Relations(warehouse, catalog, lambda: self.functions.every_macro)

    def fast_path(self, table: str) -> FastPath | None:
        """The fast path into a table, or None where changes must go through DuckDB."""
        known = self._fast_paths
        if table not in known:
            info, cursor = self._catalog.tables[table], self._warehouse.cursor()
            known[table] = fast_path_of(info, cursor, self.macros, self._catalog.tables)
        return known[table]

    def why_no_fast_path(self, table: str) -> str | None:
        """The reason why changes of a table must go through DuckDB; None if they need not."""
        return why_none(self._catalog.tables[table], self._warehouse.cursor(), self.macros)

    def fast_path_seen_by(self, cursor: Cursor, table: str) -> FastPath | None:
        """The same while the catalog changes, as the cursor of that transaction sees it."""
        tables = self._catalog.tables
        return fast_path_of(tables[table], cursor, list_functions(cursor).own, tables)

    def lacks_fast_path(self, table: str) -> bool:
        """Returns whether the table is known to have no fast path; needs no writer lock."""
        return self._fast_paths.get(table, table) is None

    @property
    def defaults_tell_time(self) -> bool:
        """Whether the default of some column may tell the time."""
        told = self._tell
        if not told:
            tables = self._catalog.tables.values()
            told.append(any(tells_time(info.defaults) for info in tables))
        return told[0]

    @property
    def macros(self) -> frozenset[str]:
        """The names of the user's functions and macros, in lower case."""
        return self.functions.own

    @property
    def functions(self) -> FunctionList:
        """The functions of the database; needs no writer lock."""
        known, changes = self._functions, self._function_changes
        if known is None:
            known = list_functions(self._warehouse.cursor())
            if changes == self._function_changes:  # else it may be of before
                self._functions = known
        return known

    def reader(self, info: TableInfo) -> RowReader:
        """The converter of rows for a table; needs no writer lock, so `info` may be outdated."""
        known = self._readers
        reader = known.get(info.name)
        if reader is None or reader.info is not info:
            reader = known[info.name] = RowReader(info)
        return reader

    def forget(self, *, functions: bool = True, registered: Iterable[str] = ()) -> None:
        """Drops all entries: the catalog has changed, or may have.

        Args:
            functions: the functions may have changed, too.
            registered: Python functions that have been registered.
        """
        # New ones: a look-up under way in another thread fills the old ones.
        self._fast_paths, self._tell, self._readers = {}, [], {}
        with self._lock:  # sessions attach databases and register functions beside each other
            self.relations = self.relations.renewed(registered)
            if functions:
                self._function_changes += 1
                self._functions = None

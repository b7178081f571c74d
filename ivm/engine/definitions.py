"""What has been found out of tables, views and macros, as long as the catalog is as it was.

Law: what is given was found after the last `forget`; a reader of rows, for the very table that is
asked for. Others do not see what a transaction has changed in the catalog before it commits: what
they find meanwhile must be forgotten at its end.
"""

from __future__ import annotations

from ivm.catalog.catalog import Catalog
from ivm.catalog.relations_read import Relations
from ivm.ingest.fast_path import FastPath
from ivm.ingest.fast_path_rules import fast_path_of
from ivm.ingest.rows import RowReader
from ivm.sql.parse.function_list import own_names
from ivm.storage.warehouse.table_info import TableInfo
from ivm.storage.warehouse.warehouse import Warehouse


class Definitions:
    """Those of one database.

    Args:
        warehouse: its cursors are asked.
        catalog: the tables.

    Attributes:
        relations: which of them a statement reads.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._fast_paths: dict[str, FastPath | None] = {}
        self._macros: frozenset[str] | None = None
        self._readers: dict[str, RowReader] = {}
        self.relations = Relations(warehouse, catalog)

    def fast_path(self, table: str) -> FastPath | None:
        """The fast path into a table, or None where changes must go through DuckDB."""
        if table not in self._fast_paths:
            info, cursor = self._catalog.tables[table], self._warehouse.cursor()
            self._fast_paths[table] = fast_path_of(info, cursor, self.macros)
        return self._fast_paths[table]

    def lacks_fast_path(self, table: str) -> bool:
        """Whether it is known, without the writer lock, that the table has no fast path."""
        return self._fast_paths.get(table, table) is None

    @property
    def macros(self) -> frozenset[str]:
        """The names of the user's functions and macros, in small letters."""
        if self._macros is None:
            self._macros = own_names(self._warehouse.cursor())
        return self._macros

    def reader(self, info: TableInfo) -> RowReader:
        """What takes rows of any kind for a table, as a session sees it without the writer lock."""
        reader = self._readers.get(info.name)
        if reader is None or reader.info is not info:
            reader = self._readers[info.name] = RowReader(info)
        return reader

    def forget(self) -> None:
        """The catalog has changed, or may have."""
        self._fast_paths.clear()
        self._macros = None
        self._readers.clear()
        self.relations.forget()

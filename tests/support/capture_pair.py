"""Two equal databases: one captures a change, the other runs it plainly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa

from ivm.capture.capture import Captured, capture
from ivm.sql.statements.parse import Dml, parse
from ivm.storage.identifiers import canonical_name
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.arrow_streams import copying
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run, table
from ivm.storage.warehouse.tables.table_info import TableInfo, read_tables

Rows = list[tuple[Any, ...]]


def connect() -> Cursor:
    connection = duckdb.connect(":memory:")
    run(connection, "SET arrow_lossless_conversion = true")
    return connection


class Twins:
    """Two equal databases: one captures a change, the other runs it plainly."""

    def __init__(self, *setup: str) -> None:
        self.ours, self.plain = connect(), connect()
        for sql in setup:
            run(self.ours, sql)
            run(self.plain, sql)
        self.tables = read_tables(self.ours, "memory")

    def run(self, sql: str, params: Any = None, *, same_rows: bool = True) -> Captured:
        """Capture a change and compare everything with the plain twin.

        Args:
            same_rows: the twin must end with the same rows (not where DuckDB leaves it open).
        """
        (statement,) = parse(sql)
        assert isinstance(statement, Dml), sql
        before = {name: self.read(info) for name, info in self.tables.items()}
        run(self.ours, "BEGIN")
        try:
            captured = capture(self.ours, statement, self.table(statement), params, self.tables)
        except duckdb.Error:
            run(self.ours, "ROLLBACK")
            raise
        self.check(before, captured, sql)
        assert not rows(self.ours, "SELECT * FROM duckdb_tables() WHERE temporary"), sql
        run(self.ours, "COMMIT")
        self.plain.execute(sql, params)
        described = self.plain.description or []
        with copying():
            shown = self.plain.to_arrow_table()
        if same_rows:
            self.check_shown(captured, shown, described)
            for info in self.tables.values():
                query = f"FROM {info.qualified}"
                assert text(rows(self.ours, query)) == text(rows(self.plain, query)), sql
        return captured

    def table(self, statement: Dml) -> TableInfo | None:
        if statement.table is None:
            return None
        path = statement.table if len(statement.table) > 1 else ("main", *statement.table)
        return self.tables.get(canonical_name(path))

    def read(self, info: TableInfo) -> ZSet:
        return from_arrow(table(self.ours, f"FROM {info.qualified}"), info.schema)

    def check(self, before: dict[str, ZSet], captured: Captured, sql: str) -> None:
        """before − removed + added = after, exactly."""
        for name, info in self.tables.items():
            removed, added = captured.changes.get(name, (None, None))
            parts = [before[name], self.read(info).negate()]
            parts += [] if removed is None else [removed.negate()]
            parts += [] if added is None else [added]
            types = [t for _, t in info.schema]
            assert not len(consolidate(add(parts), types)), (name, sql)
            assert all((p.weights > 0).all() for p in (removed, added) if p is not None)

    @staticmethod
    def check_shown(captured: Captured, shown: pa.Table, described: list[Any]) -> None:
        if captured.returned is None:
            assert captured.count == shown.column(0)[0].as_py()
            return
        assert captured.returned.column_names == [name for name, *_ in described]
        assert captured.types == tuple(str(type) for _, type, *_ in described)
        assert captured.returned.schema.types == shown.schema.types
        ours, theirs = [
            list(zip(*[column.to_pylist() for column in found.columns], strict=True))
            for found in (captured.returned, shown)
        ]
        assert text(ours) == text(theirs)


def text(found: Rows) -> Counter[str]:
    return Counter(repr(row) for row in found)


def amounts(captured: Captured, name: str = "t") -> tuple[int, int]:
    """How many rows were removed and added."""
    removed, added = captured.changes.get(name, (None, None))
    gone, come = (0 if z is None else int(z.weights.sum()) for z in (removed, added))
    return gone, come


KEYLESS = (
    "CREATE TABLE t (a INTEGER, b VARCHAR, d DOUBLE)",
    "INSERT INTO t VALUES (1, 'x', 0.0), (1, 'x', 0.0), (1, 'x', -0.0), (2, NULL, 'NaN'),"
    " (NULL, 'y', 1), (NULL, 'y', 1), (3, 'z', NULL)",
    "CREATE TABLE u (a INTEGER, v VARCHAR)",
    "INSERT INTO u VALUES (1, 'one'), (2, 'two'), (9, 'nine'), (NULL, 'none')",
)
KEYED = (
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, d DOUBLE UNIQUE)",
    "INSERT INTO t VALUES (1, 'x', 1), (2, NULL, 2), (3, 'z', NULL), (4, 'w', NULL)",
    "CREATE TABLE u (a INTEGER, v VARCHAR)",
    "INSERT INTO u VALUES (1, 'one'), (2, 'two'), (9, 'nine')",
)

"""One table as it was last committed, unaffected by later flushes.

Invariant: all rows read here are of one epoch, in which the snapshot was made. Two cursors hold it,
so that one can read the table in a thread while the other is asked for single rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np

from ivm.ingest.fetched_rows import fetched_rows
from ivm.storage.identifiers import quote
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.appender import python_rows
from ivm.storage.warehouse.duckdb.duck import Cursor, chunks, evaluate, rows
from ivm.storage.warehouse.tables.table_info import TableInfo

_ASKED = "_ivm_asked"
_ONE = np.ones(1, np.int64)


class Snapshot:
    """A table in DuckDB.

    Args:
        info: of the table.
        cursors: two, each in a transaction of its own that sees the table of that epoch.
    """

    def __init__(self, info: TableInfo, cursors: tuple[Cursor, Cursor]) -> None:
        self.info = info
        self._scanning, self._asking = cursors
        self._parsed: dict[str, duckdb.Statement] = {}

    def rows(self) -> int:
        """The count of rows."""
        found = rows(self._asking, f"SELECT system.main.count(*) FROM {self.info.qualified}")
        return int(found[0][0])

    def scan(self, columns: Sequence[int]) -> Iterator[ZSet]:
        """All rows, projected to some columns, in chunks."""
        chosen = self._schema(columns)
        return chunks(self._scanning, f"SELECT {_names(chosen)} FROM {self.info.qualified}", chosen)

    def find(self, columns: Sequence[int], by: Sequence[int], keys: Sequence[Column]) -> ZSet:
        """The rows with one of the given keys in the columns `by`, projected to some columns."""
        chosen, key = self._schema(columns), self._schema(by)
        if len(keys[0]) == 1:
            return self._find_one(chosen, key, keys)
        return self._find_all(chosen, key, keys)

    def _find_one(self, chosen: Schema, key: Schema, keys: Sequence[Column]) -> ZSet:
        """The rows with one key, which one statement with parameters finds in less time."""
        values = python_rows(ZSet(tuple(keys), _ONE), key)
        if values is None or any(column.valid is not None for column in keys):
            return self._find_all(chosen, key, keys)
        terms = [f"{quote(name)} = CAST(? AS {type.sql})" for name, type in key]
        sql = f"SELECT {_names(chosen)} FROM {self.info.qualified} WHERE {' AND '.join(terms)}"
        if sql not in self._parsed:
            (self._parsed[sql],) = self._asking.extract_statements(sql)
        found = self._asking.execute(self._parsed[sql], list(values[0])).fetchall()
        rows = fetched_rows(found, [type for _, type in chosen])
        return self._find_all(chosen, key, keys) if rows is None else rows

    def _find_all(self, chosen: Schema, key: Schema, keys: Sequence[Column]) -> ZSet:
        same = " AND ".join([f"t.{quote(n)} = {_ASKED}.{quote(n)}" for n, _ in key])
        source = f"{self.info.qualified} AS t SEMI JOIN {_ASKED} ON {same}"
        asked = {_ASKED: (ZSet(tuple(keys), np.ones(len(keys[0]), np.int64)), key)}
        return evaluate(self._asking, f"SELECT {_names(chosen)} FROM {source}", asked, chosen)

    def nth(self, column: int, most: int, number: int) -> int:
        """A bound before which about so many rows have a column's values, but `most` at most.

        Args:
            column: of dates or timestamps; values are given as days, or microseconds, since 1970.
            most: the greatest bound.
            number: how many rows.
        """
        name, value = quote(self.info.schema[column][0]), _value(self.info.schema[column][1], most)
        found = rows(
            self._asking,
            f"SELECT {_number(name, self.info.schema[column][1])} FROM {self.info.qualified}"
            f" WHERE {name} < {value} ORDER BY {name} LIMIT 1 OFFSET {number}",
        )
        return int(found[0][0]) + 1 if found and found[0][0] is not None else most

    def before(self, columns: Sequence[int], column: int, bound: int) -> Iterator[ZSet]:
        """The rows with a column's values before a bound, see `nth`, projected to some columns."""
        chosen = self._schema(columns)
        name, value = quote(self.info.schema[column][0]), _value(self.info.schema[column][1], bound)
        sql = f"SELECT {_names(chosen)} FROM {self.info.qualified} WHERE {name} < {value}"
        return chunks(self._scanning, sql, chosen)

    def _schema(self, columns: Sequence[int]) -> Schema:
        return tuple([self.info.schema[i] for i in columns])

    def release(self) -> None:
        """Closes the cursors, so that DuckDB may drop old versions of rows."""
        self._scanning.close()
        self._asking.close()


def _names(schema: Schema) -> str:
    return ", ".join([quote(name) for name, _ in schema])


def _value(type: ColumnType, number: int) -> str:
    """Writes a date or timestamp that is given in days or microseconds since 1970."""
    if type.sql == "DATE":
        return f"(DATE '1970-01-01' + CAST({number} AS INTEGER))"
    made = "make_timestamptz" if "ZONE" in type.sql else "make_timestamp"
    return f"system.main.{made}({number})"


def _number(name: str, type: ColumnType) -> str:
    """Writes the days or microseconds since 1970 of a column; NULL if it is not finite."""
    number = f"{name} - DATE '1970-01-01'" if type.sql == "DATE" else f"epoch_us({name})"
    number = number if type.sql == "DATE" else f"system.main.{number}"
    return f"CASE WHEN system.main.isfinite({name}) THEN {number} END"

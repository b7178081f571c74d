"""Net changes into DuckDB's tables: deletions by key or of exactly n of m identical rows, inserts.

Law: after `apply_change` the table holds its former rows less the deleted, plus the inserted ones,
as a multiset of exact representations; it never holds a key twice in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ivm.storage.column import FixedColumn
from ivm.storage.duck import Cursor, lent, quote, run
from ivm.storage.types import ColumnType, Schema, type_of
from ivm.storage.zset import ZSet


@dataclass(frozen=True)
class NetChange:
    """What a flush does to one relation: deletions first, then insertions.

    Attributes:
        delete: the rows to delete, only the columns at `delete_columns`; weights are positive
            counts. With `by_key` each deletes the row with that key, else exactly `weight` rows
            that are identical to it.
        delete_columns: positions in the relation's schema (all of them unless `by_key`).
        by_key: the deleted columns are a key of the relation.
        insert: full rows; weights are positive counts.
    """

    delete: ZSet
    delete_columns: tuple[int, ...]
    by_key: bool
    insert: ZSet

    def __len__(self) -> int:
        return len(self.delete) + len(self.insert)


_DELTA = "_ivm_delta"
_COUNT = "_ivm_count"
_COUNT_TYPE = type_of("BIGINT")


def apply_change(cursor: Cursor, table: str, schema: Schema, change: NetChange) -> None:
    """Apply a net change inside the cursor's transaction.

    Args:
        cursor: with a write transaction.
        table: quoted, qualified name.
        schema: of the table.
        change: rows of that schema.

    Raises:
        duckdb.Error: a constraint the caller should have enforced, or the disk.
    """
    if len(change.delete):
        columns = tuple([schema[i] for i in change.delete_columns])
        if change.by_key:
            _delete_keys(cursor, table, columns, change.delete)
        else:
            _delete_rows(cursor, table, columns, change.delete)
    if len(change.insert):
        insert_rows(cursor, table, schema, change.insert)


def insert_rows(cursor: Cursor, table: str, schema: Schema, rows: ZSet) -> None:
    """Insert each row as often as its (positive) weight says."""
    if not bool((rows.weights == 1).all()):
        rows = rows.take(np.repeat(np.arange(len(rows)), rows.weights))
    cursor.register(_DELTA, rows.to_arrow(schema))
    try:
        run(cursor, f"INSERT INTO {table} FROM {_DELTA}")
    finally:
        cursor.unregister(_DELTA)


def _delete_keys(cursor: Cursor, table: str, columns: Schema, keys: ZSet) -> None:
    same = " AND ".join(
        [f"t.{quote(name)} IS NOT DISTINCT FROM d.{quote(name)}" for name, _ in columns]
    )
    with lent(cursor, {_DELTA: (keys, columns)}):
        run(cursor, f"DELETE FROM {table} AS t USING {_DELTA} AS d WHERE {same}")


def _delete_rows(cursor: Cursor, table: str, columns: Schema, batch: ZSet) -> None:
    """Delete exactly `weight` of the rows identical to each one of the batch."""
    counted = ZSet((*batch.columns, FixedColumn(batch.weights)), batch.weights)
    schema = (*columns, (_COUNT, _COUNT_TYPE))
    same = " AND ".join([_identical(quote(name), type) for name, type in columns])
    with lent(cursor, {_DELTA: (counted, schema)}):
        run(
            cursor,
            f"""DELETE FROM {table} WHERE rowid IN (SELECT row_id FROM (
                SELECT t.rowid AS row_id, d.{_COUNT} AS wanted,
                       row_number() OVER (PARTITION BY d._ivm_id) AS number
                FROM {table} AS t
                JOIN (SELECT *, row_number() OVER () AS _ivm_id FROM {_DELTA}) AS d ON {same})
                WHERE number <= wanted)""",
        )


def _identical(column: str, type: ColumnType) -> str:
    """SQL that tells whether a table's and a delta's value have one exact representation."""
    same = f"t.{column} IS NOT DISTINCT FROM d.{column}"
    if type.is_float:
        return f"{same} AND signbit(t.{column}) IS NOT DISTINCT FROM signbit(d.{column})"
    if type.dtype is not None and type.sql != "INTERVAL":
        return same
    if type.sql in ("VARCHAR", "JSON", "BLOB", "BIT") or type.base == "ENUM":
        return same
    return f"{same} AND t.{column}::VARCHAR IS NOT DISTINCT FROM d.{column}::VARCHAR"

"""Joins of a table with row ids that were read from it before.

Contract: every row that still has one of the ids is found. DuckDB 2.0 passes the ids of an equality
join down to the scan as a filter, and where an open transaction has appended rows to the table and
deleted some of these, the scan then skips others, or reads beyond its buffers. It makes no such
filter of IS NOT DISTINCT FROM, which costs a scan of all row ids and is used for those tables only.
It is DuckDB's fault `row_ids_by_equality`.
"""

from __future__ import annotations

import functools

import duckdb

from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run


@functools.cache
def first_new_row_id() -> int:
    """Rows that a transaction appends get this row id and greater ones until it commits."""
    with duckdb.connect(":memory:") as probe:
        run(probe, "CREATE TABLE t (a INTEGER)")
        run(probe, "BEGIN")
        run(probe, "INSERT INTO t VALUES (1)")
        return int(rows(probe, "SELECT rowid FROM t")[0][0])


def last_row_id(cursor: Cursor, table: str) -> int:
    """A number that every row the transaction will append has a greater row id than."""
    first = first_new_row_id()
    own = f"SELECT system.main.max(rowid) FROM {table} WHERE rowid >= {first}"
    last = rows(cursor, own)[0][0]
    return first - 1 if last is None else int(last)


def same_row(cursor: Cursor, table: str) -> str:
    """The operator to compare row ids of a table with, in the cursor's transaction."""
    appended = f"SELECT 1 FROM {table} WHERE rowid >= {first_new_row_id()} LIMIT 1"
    return "IS NOT DISTINCT FROM" if rows(cursor, appended) else "="

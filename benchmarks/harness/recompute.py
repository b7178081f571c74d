"""A benchmark cell of the peer: plain DuckDB applies the changes and refreshes each view whole.

Its best foot forward: parameters for single rows, registered Arrow tables for many, one DuckDB
transaction for changes and refresh together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.harness import stream
from benchmarks.harness.cells import Cell, peak_bytes, timed
from benchmarks.harness.workload import VIEWS

KEY = "id"


def measure(cell: Cell, file: Path, transactions: Sequence[stream.Transaction]) -> dict[str, Any]:
    """Time each transaction until the refreshed views are committed."""
    with duckdb.connect(str(file)) as con:
        started = time.perf_counter()
        refresh(con, cell)
        created = time.perf_counter() - started
        for transaction in transactions[: cell.warmup]:
            commit(con, cell, transaction)
        numbers = timed(
            cell,
            transactions[cell.warmup :],
            lambda t: commit(con, cell, t),
            lambda: None,
        )
    return numbers | {"create_s": created, "hydrated_s": created, "peak_bytes": peak_bytes()}


def refresh(con: duckdb.DuckDBPyConnection, cell: Cell) -> None:
    """Make each view's table anew."""
    for name in cell.views:
        con.execute(f"CREATE OR REPLACE TABLE {name} AS {VIEWS[name]}").fetchall()


def commit(con: duckdb.DuckDBPyConnection, cell: Cell, transaction: stream.Transaction) -> None:
    """Changes and refresh as one DuckDB transaction, then the read if the cell reads."""
    con.execute("BEGIN").fetchall()
    for change in transaction:
        apply(con, change)
    refresh(con, cell)
    con.execute("COMMIT").fetchall()
    if cell.read:
        con.sql(f"SELECT * FROM {cell.views[0]}").to_arrow_table()


def apply(con: duckdb.DuckDBPyConnection, change: stream.Change) -> None:
    """One change as the statement a DuckDB user would write."""
    columns = change.rows.column_names
    if change.rows.num_rows == 1:
        values = [change.rows[name][0].as_py() for name in columns]
        con.execute(single(change, columns), dict(zip(columns, values, strict=True))).fetchall()
        return
    con.register("change", change.rows)
    con.execute(bulk(change, columns)).fetchall()
    con.unregister("change")


def single(change: stream.Change, columns: Sequence[str]) -> str:
    """The statement for one row, with named parameters."""
    if change.kind == "insert":
        values = ", ".join(f"${name}" for name in columns)
        return f"INSERT INTO {change.table} VALUES ({values})"
    if change.kind == "delete":
        return f"DELETE FROM {change.table} WHERE {KEY} = ${KEY}"
    sets = ", ".join(f"{name} = ${name}" for name in columns if name != KEY)
    return f"UPDATE {change.table} SET {sets} WHERE {KEY} = ${KEY}"


def bulk(change: stream.Change, columns: Sequence[str]) -> str:
    """The statement for many rows, which stand in the registered table `change`."""
    table = change.table
    if change.kind == "insert":
        return f"INSERT INTO {table} SELECT * FROM change"
    if change.kind == "delete":
        return f"DELETE FROM {table} USING change WHERE {table}.{KEY} = change.{KEY}"
    sets = ", ".join(f"{name} = change.{name}" for name in columns if name != KEY)
    return f"UPDATE {table} SET {sets} FROM change WHERE {table}.{KEY} = change.{KEY}"

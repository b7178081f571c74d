"""A benchmark cell of ivm: every transaction goes through the public calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ivm
from benchmarks.harness import stream
from benchmarks.harness.cells import Cell, peak_bytes, timed
from benchmarks.harness.workload import VIEWS


def measure(cell: Cell, file: Path, transactions: Sequence[stream.Transaction]) -> dict[str, Any]:
    """Create the views on a prepared file, run the stream, verify the views."""
    with ivm.connect(str(file), durability=cell.durability) as db:
        started = time.perf_counter()
        for name in cell.views:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        created = time.perf_counter()
        commit(db, transactions[0])  # hydrates what is left to hydrate
        hydrated = time.perf_counter()
        for transaction in transactions[1 : cell.warmup]:
            commit(db, transaction)
        flush(db, cell)
        numbers = timed(
            cell,
            transactions[cell.warmup :],
            lambda t: commit_and_read(db, cell, t),
            lambda: flush(db, cell),
        )
        numbers |= {"create_s": created - started, "hydrated_s": hydrated - started}
        numbers |= {"peak_bytes": peak_bytes()}
        for name in cell.views:
            verify(db, name)
    return numbers


def verify(db: ivm.Database, view: str) -> None:
    """A benchmark of wrong rows is worth nothing: end it."""
    ((name, rows, missing, extra, ok, *_),) = db.execute(
        f"VERIFY MATERIALIZED VIEW {view}"
    ).fetchall()
    if not ok:
        raise SystemExit(f"{name} is wrong: {missing} rows missing, {extra} too many, of {rows}")


def commit_and_read(db: ivm.Database, cell: Cell, transaction: stream.Transaction) -> None:
    """A commit, and where the cell says so a read of the first view to its last row."""
    commit(db, transaction)
    if cell.read:
        db.execute(f"SELECT * FROM {cell.views[0]}").arrow()


def commit(db: ivm.Database, transaction: stream.Transaction) -> None:
    """One transaction; several calls become one epoch."""
    if len(transaction) == 1:
        call(db, transaction[0])
        return
    with db.transaction():
        for change in transaction:
            call(db, change)


def call(db: ivm.Database, change: stream.Change) -> None:
    """One change through the method of its kind."""
    if change.kind == "insert":
        db.insert(change.table, change.rows)
    elif change.kind == "upsert":
        db.upsert(change.table, change.rows)
    else:
        db.delete(change.table, change.rows)


def flush(db: ivm.Database, cell: Cell) -> None:
    """Have the cell's tables and views in DuckDB: a read brings a relation up to date."""
    for name in ("orders", "customers", *cell.views):
        db.execute(f"SELECT count(*) FROM {name}").fetchall()

"""Random changes of rows with an id, which a view follows as DuckDB's answer does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import duckdb

import ivm
from tests.support.view_oracle import assert_same_rows

Change: TypeAlias = tuple[Any, ...]
"""The table, the id, and the further columns of a row that is written, or none of one deleted."""


def apply(db: Any, change: Change) -> None:
    """Writes a row in the place of one with its id, or deletes it."""
    table, *values = change
    if len(values) == 1:
        db.execute(f"DELETE FROM {table} WHERE id = ?", values)
    else:
        marks = ", ".join("?" * len(values))
        db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", values)


def assert_follows(
    tables: str,
    query: str,
    wanted: str,
    first: Sequence[Change],
    steps: Sequence[Sequence[Change]],
    demand: Callable[[ivm.Database], None],
) -> None:
    """A view over tables has the rows that DuckDB finds, after each step.

    Args:
        tables: that create them, in SQL.
        query: of the view.
        wanted: the query that tells the same to DuckDB.
        first: changes before the view is created.
        steps: changes of one transaction each.
        demand: looks at the database when the view is created.
    """
    with ivm.connect() as db, duckdb.connect() as twin:
        for side in (db, twin):
            side.execute(tables)
            for change in first:
                apply(side, change)
        db.execute(f"CREATE MATERIALIZED VIEW m AS {query}")
        demand(db)
        for step in steps:
            with db.transaction():
                for change in step:
                    apply(db, change)
            for change in step:
                apply(twin, change)
            rows = twin.execute(wanted).fetchall()
            assert_same_rows(db.execute("FROM m").fetchall(), rows, query)

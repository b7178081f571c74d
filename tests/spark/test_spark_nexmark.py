"""Nexmark from a lake: tables in Parquet files, all views filled by Spark, then kept right.

The oracle is plain DuckDB, which has loaded the same files, is told the same changes, and answers
the user's own text; rows are compared bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import ivm
from tests.corpus.nexmark import NEWCOMERS, QUERIES, SCHEMA, changes
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=2)

TABLES = SCHEMA.replace("TABLE bid (", "TABLE bid (id BIGINT PRIMARY KEY, ")
"""Bids have a key here: without one a table in files gives no rows back."""
VIEWS = {name: query.replace(", extra)", ", extra, id)") for name, query in QUERIES.items()}
"""The queries; the places of bids alike in all else follow their keys."""
BEFORE, MEANWHILE = 60, 70


def statements(seed: int) -> list[str]:
    """Changes, with keys for the bids."""
    values = "INSERT INTO bid VALUES"
    return [
        f"INSERT INTO bid SELECT {number * 100} + row_number() OVER (), * FROM "
        f"(VALUES {text.removeprefix(values)}) AS b"
        if text.startswith(values)
        else text
        for number, text in enumerate(changes(seed, 100))
    ]


def transactions(statements: list[str]) -> Iterator[list[str]]:
    """The statements in groups of three."""
    for start in range(0, len(statements), 3):
        yield statements[start : start + 3]


def write_lake(seed: int, lake: Path) -> duckdb.DuckDBPyConnection:
    """Writes the tables after the first changes, each as some files; gives the DuckDB."""
    twin = duckdb.connect()
    twin.execute(TABLES)
    twin.execute("INSERT INTO side SELECT i, 'v' || i FROM range(0, 10, 2) AS r(i)")
    for statement in [NEWCOMERS, *statements(seed)[:BEFORE]]:
        twin.execute(statement)
    for (table,) in twin.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        (lake / table).mkdir(parents=True)
        key = "key" if table == "side" else "id"
        for part in range(3):
            rows = f"SELECT * FROM {table} WHERE {key} % 3 = {part}"
            twin.execute(f"COPY ({rows}) TO '{lake}/{table}/{part}.parquet'")
    return twin


def in_both(db: ivm.Database, twin: duckdb.DuckDBPyConnection, changes: list[str]) -> None:
    """One transaction."""
    with db.transaction():
        for change in changes:
            db.execute(change)
    for change in ["BEGIN", *changes, "COMMIT"]:
        twin.execute(change)


def demand_right(db: ivm.Database, twin: duckdb.DuckDBPyConnection) -> None:
    """Tables and views have the bits of DuckDB's answers."""
    for name, query in {**VIEWS, **{t.name: f"FROM {t.name}" for t in db.tables()}}.items():
        found = Counter(map(repr, db.execute(f"FROM {name}").fetchall()))
        assert found == Counter(map(repr, twin.execute(query).fetchall())), name
        assert found, name


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_all_views_are_filled_from_files_and_follow(seed: int, tmp_path: Path) -> None:
    spark = session()  # or it is not run
    twin = write_lake(seed, tmp_path / "lake")
    rest = statements(seed)[BEFORE:]
    with ivm.connect(tmp_path / "nexmark.duckdb", spark=spark) as db:
        for create in filter(str.strip, TABLES.split(";")):
            table = create.split("(")[0].split()[-1]
            files = f"FROM PARQUET '{tmp_path}/lake/{table}/' WITH (stored = false)"
            db.execute(f"{create} {files}")
        copied = "SELECT count(*) FROM duckdb_tables() WHERE table_name IN ('bid', 'auction')"
        assert db.execute(copied).fetchall() == [(0,)]
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} WITH (backfill = 'spark') AS {query}")
        for change in transactions(rest[: MEANWHILE - BEFORE]):
            in_both(db, twin, change)
        for name in VIEWS:
            db.backfill(name)
        demand_right(db, twin)
        for change in transactions(rest[MEANWHILE - BEFORE : -6]):
            in_both(db, twin, change)
            demand_right(db, twin)
    with ivm.connect(tmp_path / "nexmark.duckdb") as db:
        demand_right(db, twin)
        for change in transactions(rest[-6:]):
            in_both(db, twin, change)
            demand_right(db, twin)
    twin.close()

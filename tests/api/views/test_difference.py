"""The difference of two queries: before + difference = after, exactly, for every type."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.engine.views.difference import difference
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import add, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows, run, table
from tests.support.type_values import NAMES, select_values


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        yield connection


def rows_of(name: str) -> str:
    """Values of a type; of a bare NULL's there are no others."""
    return select_values(name) if name in NAMES else "SELECT NULL AS v"


@pytest.mark.parametrize("name", ['"NULL"', *NAMES])
def test_before_and_difference_are_after(cursor: Cursor, name: str) -> None:
    run(cursor, f"CREATE OR REPLACE TABLE before AS {rows_of(name)}")
    run(cursor, "CREATE OR REPLACE TABLE after AS (FROM before OFFSET 1) UNION ALL FROM before")
    schema = describe(cursor, "FROM before")
    names = ("before", "after")
    old, new = (from_arrow(table(cursor, f"FROM {name}"), schema) for name in names)
    found = difference(cursor, "FROM before", "FROM after", schema)
    types = [type for _, type in schema]
    assert len(consolidate(add([old, found, new.negate()]), types)) == 0
    assert len(found) <= len(old)
    assert len(difference(cursor, "FROM before", "FROM before", schema)) == 0


def test_a_query_runs_once(cursor: Cursor) -> None:
    # A second run of a sum of DOUBLE may round otherwise: its rows then neither went nor came.
    run(cursor, "CREATE SEQUENCE numbers")
    schema = (("n", type_of("BIGINT")),)
    found = difference(cursor, "SELECT 1", "SELECT nextval('numbers')", schema)
    assert (len(found), rows(cursor, "SELECT currval('numbers')")) == (0, [(1,)])

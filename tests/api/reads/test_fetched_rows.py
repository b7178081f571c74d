"""Rows as DuckDB gives them to Python are the rows that it exports to Arrow, or none."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from ivm.ingest.fetched_rows import fetched_rows
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import from_arrow
from tests.api.reads.test_reads_from_state import LITERALS
from tests.tiers import examples

TOLD = ("BOOLEAN", "TINYINT", "UBIGINT", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR")


@pytest.mark.parametrize("sql", LITERALS)
def test_values_come_back_exactly(sql: str) -> None:
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        type = type_of(sql)

        @settings(max_examples=examples(15), deadline=None)
        @given(s.lists(s.sampled_from([*LITERALS[sql], "NULL"]), max_size=4))
        def same(values: list[str]) -> None:
            rows = ", ".join(f"(CAST({value} AS {sql}), 1)" for value in [*values, "NULL"])
            text = f"SELECT c::{sql} AS c FROM (VALUES {rows}) t(c, n) LIMIT {len(values)}"
            found = fetched_rows(cursor.execute(text).fetchall(), [type])
            if found is None:
                assert sql not in TOLD
                return
            wanted = from_arrow(cursor.sql(text).to_arrow_table(), (("c", type),))
            assert found.weights.tolist() == wanted.weights.tolist()
            pairs = zip(found.columns, wanted.columns, strict=True)
            for column, other in pairs:
                assert column.to_arrow(type).type == other.to_arrow(type).type
                assert str(column.to_arrow(type)) == str(other.to_arrow(type))

        same()


def test_infinite_moments_are_not_told_by_python() -> None:
    with duckdb.connect() as cursor:
        for sql in ("DATE", "TIMESTAMP"):
            for value in ("infinity", "-infinity", "10000-01-01", "0044-03-15 (BC)"):
                rows = cursor.execute(f"SELECT CAST('{value}' AS {sql})").fetchall()
                assert fetched_rows(rows, [type_of(sql)]) is None
            rows = cursor.execute(f"SELECT CAST('2024-02-29' AS {sql})").fetchall()
            assert fetched_rows(rows, [type_of(sql)]) is not None

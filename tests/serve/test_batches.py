"""Batches of a result: some thousand rows and megabytes, as DuckDB gives them or in memory."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import ivm
from ivm.serve.batches import Batches
from ivm.session.result import Result


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("rows", "size", "most"), [(50_000, 1, 20_000), (6_000, 10_000, 500), (3, 9_000_000, 1)]
)
def test_large_values_come_a_few_at_a_time(*, held: bool, rows: int, size: int, most: int) -> None:
    sql = f"SELECT i, repeat('x', {size}) AS x FROM range({rows}) t(i)"
    with ivm.connect() as database:
        if held:
            relation = duckdb.sql(sql)
            assert relation is not None
            result = Result.of_table(relation.to_arrow_table(), ["BIGINT", "VARCHAR"])
        else:
            result = database.execute(sql)
        batches, found = Batches(result), []
        while (batch := batches.next()) is not None:
            assert isinstance(batch, pa.Table)
            assert 0 < len(batch) <= most
            found += batch.column(0).to_pylist()
        assert found == list(range(rows))

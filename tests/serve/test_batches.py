"""Batches of a result: some thousand rows and megabytes, as DuckDB gives them or in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pytest

import ivm
from ivm.serve.batches import Batches
from ivm.serve.settings import ServerSettings
from ivm.session.results.result import Result
from tests.serve.in_process import listening


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


def test_a_value_that_arrow_does_not_carry_is_refused(tmp_path: Path) -> None:
    settings = ServerSettings(pg="127.0.0.1:0", trust="loopback")
    with (
        ivm.connect() as database,
        listening(database, tmp_path, settings) as server,
        psycopg.connect(server.dsn(), autocommit=True) as client,
    ):
        asked = "SELECT i * INTERVAL '1 hour' AS a, 1 AS a FROM range(%s, %s) t(i)"
        assert client.execute(asked, [5, 6]).fetchall() == [(timedelta(hours=5), 1)]
        with pytest.raises(psycopg.Error, match="may have up to 2562046 hours"):
            client.execute(asked, [3_000_000, 3_000_001]).fetchall()
        found = client.execute(asked, [1, 3])
        assert [column.name for column in found.description or []] == ["a", "a"]

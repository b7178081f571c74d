"""Parquet files: row by row, once they are complete."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from ivm.cdc.sources.source import SourceError
from tests.cdc.following import Following

ROWS = "SELECT i AS id, i * 1.5 AS price, 'n' || i AS name FROM range(25) t(i)"


def write(path: Path, query: str) -> None:
    duckdb.connect().execute(f"COPY ({query}) TO '{path}' (ROW_GROUP_SIZE 7, FORMAT parquet)")


def ids(payloads: list[str | None]) -> list[int]:
    return [int(json.loads(str(payload))["id"]) for payload in payloads]


@pytest.mark.full
@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_rows_come_once_whatever_the_limits(tmp_path: Path, limit: int) -> None:
    write(tmp_path / "a.parquet", ROWS)
    with Following(tmp_path / "*.parquet", format="parquet appends") as following:
        while following.batch(limit) is not None:
            following.restart()
    assert [row for _, row, _ in following.events] == [*range(1, 26)]
    assert ids([payload for _, _, payload in following.events]) == [*range(25)]
    assert following.events[1][2] == '{"id": "1", "price": "1.5", "name": "n1"}'


def test_the_lag_is_estimated(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS)
    with Following(tmp_path / "*.parquet", format="parquet appends") as following:
        following.batch(5)
        assert following.reader is not None
        assert following.reader.lag() == 20


def test_a_file_is_read_when_it_is_complete(tmp_path: Path) -> None:
    write(tmp_path / "source", ROWS)
    data = (tmp_path / "source").read_bytes()
    with Following(tmp_path / "*.parquet", format="parquet appends") as following:
        for size in (0, 3, 4, 100, len(data) - 1):
            (tmp_path / "a.parquet").write_bytes(data[:size])
            assert following.read() == []
        with (tmp_path / "a.parquet").open("ab") as file:
            file.write(data[-1:])
        assert len(following.read()) == 25
        write(tmp_path / "b.parquet", "SELECT 7 AS id, 'other columns' AS x")
        write(tmp_path / "c.parquet", ROWS)
        assert ids(following.read()) == [7, *range(25)]


def test_a_file_that_is_replaced_is_another(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS)
    with Following(tmp_path / "*.parquet", format="parquet appends") as following:
        following.read()
        write(tmp_path / "a.parquet", "SELECT 100 + i AS id FROM range(3) t(i)")
        assert ids(following.read()) == [100, 101, 102]


def test_what_is_no_parquet_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("id\n1\n")
    with (
        Following(tmp_path / "*.parquet", format="parquet") as following,
        pytest.raises(SourceError, match=r"a\.parquet', after row 0: it is no Parquet file"),
    ):
        following.read()

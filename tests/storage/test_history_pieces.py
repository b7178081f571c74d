"""The pieces of a history: together the rows of its files, each once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pytest

from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import describe
from ivm.storage.warehouse.tables import history_pieces
from ivm.storage.warehouse.tables.history import History
from ivm.storage.warehouse.tables.history_reader import find, readers_of

ROWS = "SELECT range + {from} AS id, 'it''s ' || range % 7 AS text FROM range({count})"


def history_at(
    cursor: duckdb.DuckDBPyConnection, place: Path, format: str, **options: str
) -> History:
    found = find(cursor, format, str(place), options)
    columns = (("id", type_of("BIGINT")), ("text", type_of("VARCHAR")))
    readers, files = readers_of(cursor, format, found, options, columns)
    given = tuple(options.items())
    return History(1, ("main", "t"), format, str(place), given, readers, files, 0)


def write(place: Path, format: str, counts: list[int]) -> None:
    place.mkdir()
    tail = ", ROW_GROUP_SIZE 2048" if format == "parquet" else ""
    for i, count in enumerate(counts):
        rows = ROWS.replace("{from}", str(1_000_000 * i)).replace("{count}", str(count))
        duckdb.sql(f"COPY ({rows}) TO '{place}/it is {i}.{format}' (FORMAT {format}{tail})")


@pytest.mark.full
@pytest.mark.parametrize(
    ("format", "options"),
    [("parquet", {}), ("csv", {}), ("json", {}), ("parquet", {"union_by_name": "true"})],
    ids=["parquet", "csv", "json", "by name"],
)
def test_pieces_are_the_rows_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, options: dict[str, str]
) -> None:
    monkeypatch.setattr(history_pieces, "PIECE_BYTES", 20_000)
    write(tmp_path / "lake", format, [10, 30_000, 1, 20, 9000])
    with duckdb.connect() as cursor:
        history = history_at(cursor, tmp_path / "lake", format, **options)
        found = history_pieces.pieces(cursor, history)
        assert found is not None
        assert len(found) > 2
        read = Counter(r for piece in found for r in cursor.sql(f"FROM {piece}").fetchall())
        whole = cursor.sql(f"FROM {history.source}")
        assert read == Counter(whole.fetchall())
        assert len(read) == 39_031
        assert [name for name, _ in describe(cursor, f"FROM {found[-1]}")] == ["id", "text"]


def test_a_later_file_is_read_in_the_types_of_the_first(tmp_path: Path) -> None:
    """As by the call that reads all: a piece alone would find other types, and other values."""
    (tmp_path / "lake").mkdir()
    duckdb.sql(f"COPY (SELECT 1 AS id, 7 AS text) TO '{tmp_path}/lake/1.parquet'")
    duckdb.sql(f"COPY (SELECT 2 AS id, '08' AS text) TO '{tmp_path}/lake/2.parquet'")
    with duckdb.connect() as cursor:
        history = history_at(cursor, tmp_path / "lake", "parquet")
        second = history_pieces._reading(history, history.files[1:])
        assert cursor.sql(f"FROM {second}").fetchall() == [(2, 8)]


def test_pieces_of_a_lake_have_the_values_of_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of a part of a file, and of files of several partitions."""
    monkeypatch.setattr(history_pieces, "PIECE_BYTES", 60_000)
    ids = range(60_000)
    parts = [("a'b" if i % 100 else None) if i < 50_000 else f"p{i % 3}" for i in ids]
    rows = pa.table({"id": ids, "text": parts})
    groups = deltalake.WriterProperties(max_row_group_size=4096)
    deltalake.write_deltalake(
        tmp_path / "lake", rows, partition_by=["text"], writer_properties=groups
    )
    with duckdb.connect() as cursor:
        history = history_at(cursor, tmp_path / "lake", "delta")
        assert len(history.readers) == 5
        found = history_pieces.pieces(cursor, history)
        assert found is not None
        assert any("file_row_number" in piece for piece in found)
        assert any(piece.count("read_parquet") > 1 for piece in found)
        read = Counter(
            row for piece in found for row in cursor.sql(f"SELECT id, text FROM {piece}").fetchall()
        )
        assert read == Counter(zip(ids, parts, strict=True))


@pytest.mark.parametrize("name", ["FileName", "file_row_number"])
def test_columns_with_the_names_that_tell_pieces_apart(tmp_path: Path, name: str) -> None:
    (tmp_path / "lake").mkdir()
    duckdb.sql(f"COPY (SELECT 1 AS id, 'x' AS {name}) TO '{tmp_path}/lake/1.parquet'")
    with duckdb.connect() as cursor:
        history = history_at(cursor, tmp_path / "lake", "parquet")
        assert history_pieces.pieces(cursor, history) is None

"""Tables whose history is a table of Delta Lake, written by the library that reads its metadata."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
from ivm.errors import IvmError, SqlError, UnavailableError, UnsupportedError
from tests.support.view_oracle import assert_same_rows

IN_FILES = "WITH (stored = false)"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        yield opened


def written(place: Path, table: pa.Table, partition_by: list[str] | None = None) -> None:
    deltalake.write_deltalake(place, table, partition_by=partition_by, mode="append")


@pytest.mark.full
def test_tables_that_the_library_writes(db: ivm.Database, tmp_path: Path) -> None:
    place = tmp_path / "lake it's"
    special = ["a b", "it's", "x/y=%41", None, "ü*?[1]", "#+&;"]
    rows = pa.table({"id": list(range(6)), "p": special})
    for _ in range(2):
        written(place, rows, ["p"])
    deltalake.DeltaTable(place).delete("id = 2")
    name = str(place).replace("'", "''")
    db.execute(f"CREATE TABLE t FROM DELTA '{name}' {IN_FILES}")
    wanted = [(i, p) for i, p in enumerate(special) if i != 2] * 2
    assert_same_rows(db.execute("SELECT id, p FROM t").fetchall(), wanted, "t")
    (made,) = [table.in_files for table in db.tables()]
    written(place, rows, ["p"])
    db.execute(f"EXPORT DATABASE '{tmp_path}/out'")
    with ivm.connect(tmp_path / "y.duckdb") as other:
        other.execute(f"IMPORT DATABASE '{tmp_path}/out'")
        assert len(other.execute("FROM t").fetchall()) == 10
        assert [table.in_files for table in other.tables()] == [made]
        other.execute(str(made).replace('TABLE "t"', "TABLE again"))
        assert len(other.execute("FROM again").fetchall()) == 10
    db.execute(f"ALTER TABLE t SET HISTORY '{name}' AT EPOCH {db.epoch} WITH (check = false)")
    assert len(db.execute("FROM t").fetchall()) == 16


@pytest.mark.full
def test_mistakes(db: ivm.Database, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    written(place, pa.table({"id": [1, 2]}))
    for options, error, why in (
        ("version = 9", UnavailableError, "version 9"),
        ("version = 'x'", SqlError, "version is a number"),
        ("hive_partitioning = true", SqlError, "take the option version"),
    ):
        with pytest.raises(error, match=why):
            db.execute(f"CREATE TABLE t FROM DELTA '{place}' WITH (stored = false, {options})")
    with pytest.raises(UnavailableError, match="no Delta table"):
        db.execute(f"CREATE TABLE t FROM DELTA '{tmp_path}' {IN_FILES}")
    with pytest.raises(SqlError, match="no column 'nothing'"):
        db.execute(f"CREATE TABLE t (nothing INT) FROM DELTA '{place}' {IN_FILES}")
    log = place / "_delta_log" / "00000000000000000000.json"
    asked = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["newFeature"],
             "writerFeatures": ["newFeature"]}  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    changed = [{"protocol": asked} if "protocol" in line else line for line in lines]
    log.write_text("\n".join(map(json.dumps, changed)))
    with pytest.raises(IvmError, match="newFeature"):
        db.execute(f"CREATE TABLE t FROM DELTA '{place}' {IN_FILES}")
    assert not db.tables()


def test_a_file_that_is_not_what_the_log_says(db: ivm.Database, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    written(place, pa.table({"id": [1, 2]}))
    (file,) = place.glob("*.parquet")
    duckdb.sql(f"COPY (SELECT 1::BIGINT AS id) TO '{file}'")
    with pytest.raises(UnavailableError, match="has not the size"):
        db.execute(f"CREATE TABLE t FROM DELTA '{place}' {IN_FILES}")
    file.unlink()
    with pytest.raises(UnavailableError, match="cannot be read"):
        db.execute(f"CREATE TABLE t FROM DELTA '{place}' {IN_FILES}")


@pytest.mark.full
def test_many_partitions_are_pruned(db: ivm.Database, tmp_path: Path) -> None:
    place = tmp_path / "lake"
    written(place, pa.table({"id": list(range(400)), "p": [i % 130 for i in range(400)]}), ["p"])
    db.execute(f"CREATE TABLE t FROM DELTA '{place}' {IN_FILES}")
    assert db.execute("SELECT count(*), sum(p), sum(id) FROM t").fetchall() == [
        (400, sum(i % 130 for i in range(400)), sum(range(400)))
    ]
    plan = str(db.execute("EXPLAIN SELECT sum(id) FROM t WHERE p = 7").fetchall())
    assert plan.count("PARQUET") == 1


def test_without_the_library_the_command_is_named(
    db: ivm.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(UnavailableError, match=r"pip install 'ivmdb\[delta\]'"):
        db.execute(f"CREATE TABLE t FROM DELTA '{tmp_path}' {IN_FILES}")


@pytest.mark.full
def test_a_place_as_an_address(db: ivm.Database, tmp_path: Path) -> None:
    written(tmp_path / "a lake", pa.table({"id": [1], "p": ["x y"]}), ["p"])
    db.execute(f"CREATE TABLE t FROM DELTA 'file://{tmp_path}/a lake/' {IN_FILES}")
    assert db.execute("FROM t").fetchall() == [(1, "x y")]


@pytest.mark.full
@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("org.apache.spark.version", "2.4.8", True),
        ("org.apache.spark.legacyDateTime", "", True),
        ("org.apache.spark.legacyINT96", "", True),
        ("org.apache.spark.version", "3.5.2", False),
    ],
)
def test_dates_of_an_older_calendar(
    db: ivm.Database, tmp_path: Path, key: str, value: str, refused: bool
) -> None:
    rows = pa.table({"id": [1], "d": [datetime.date(2026, 1, 1)]})
    place = tmp_path / "lake"
    place.mkdir()
    pq.write_table(rows.replace_schema_metadata({key: value}), place / "1.parquet")
    deltalake.convert_to_deltalake(place)
    made = f"FROM DELTA '{place}' {IN_FILES}"
    if refused:
        with pytest.raises(UnsupportedError, match="Julian"):
            db.execute(f"CREATE TABLE t {made}")
        db.execute(f"CREATE TABLE t (id BIGINT) {made}")
    else:
        db.execute(f"CREATE TABLE t {made}")
    assert db.execute("SELECT id FROM t").fetchall() == [(1,)]

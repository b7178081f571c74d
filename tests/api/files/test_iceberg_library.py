"""Tables whose history is a table of Iceberg, written by the library that reads its metadata."""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import ivm
from ivm.errors import SqlError, UnavailableError, UnsupportedError
from tests.support.view_oracle import assert_same_rows

IN_FILES = "WITH (stored = false)"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        yield opened


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    places = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    made = SqlCatalog("c", **places)
    made.create_namespace("db")
    yield made
    made.close()


@pytest.mark.full
def test_a_metadata_file_names_the_table(
    db: ivm.Database, catalog: SqlCatalog, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 2, 3], "p": ["a b", "it's", None]})
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows)
    first = table.metadata_location
    pinned = table.current_snapshot()
    assert pinned is not None
    table.append(rows)
    with pytest.raises(UnavailableError, match="name its newest file"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{tmp_path}/lake/db/t' {IN_FILES}")
    path = first.removeprefix("file://")
    db.execute(f"CREATE TABLE t FROM ICEBERG '{path}' {IN_FILES}")
    assert db.execute("FROM t ORDER BY id").fetchall() == [(1, "a b"), (2, "it's"), (3, None)]
    (made,) = [listed.in_files for listed in db.tables()]
    assert f"snapshot = {pinned.snapshot_id}" in str(made)
    newest = f"ALTER TABLE t SET HISTORY '{table.metadata_location}' AT EPOCH {db.epoch}"
    db.execute(f"{newest} WITH (check = false)")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(6,)]
    db.execute(f"{newest} WITH (check = false, snapshot = {pinned.snapshot_id})")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_mistakes(db: ivm.Database, catalog: SqlCatalog, tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    table = catalog.create_table("db.t", rows.schema)
    with pytest.raises(UnavailableError, match="no snapshot"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{table.metadata_location}' {IN_FILES}")
    table.append(rows)
    place = table.metadata_location
    for options, error, why in (
        ("snapshot = 9", UnavailableError, "no snapshot 9"),
        ("snapshot = 'x'", SqlError, "snapshot is a number"),
        ("version = 1", SqlError, "take the option snapshot"),
    ):
        with pytest.raises(error, match=why):
            db.execute(f"CREATE TABLE t FROM ICEBERG '{place}' WITH (stored = false, {options})")
    with pytest.raises(UnavailableError, match="no Iceberg table"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{tmp_path}/none.metadata.json' {IN_FILES}")
    assert not db.tables()


@pytest.mark.full
def test_a_default_for_older_files(db: ivm.Database, catalog: SqlCatalog) -> None:
    rows = pa.table({"id": [1, 2]})
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows)
    metadata = Path(table.metadata_location.removeprefix("file://"))
    text = metadata.read_text()
    old = '{"id":1,"name":"id","type":"long","required":false}'
    assert old in text
    added = '{"id":2,"name":"d","type":"int","required":false,"initial-default":5}'
    metadata.write_text(text.replace(old, f"{old},{added}"))
    with pytest.raises(UnsupportedError, match="files without it are to have 5"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{metadata}' {IN_FILES}")
    db.execute(f"CREATE TABLE t (id BIGINT) FROM ICEBERG '{metadata}' {IN_FILES}")
    assert db.execute("FROM t ORDER BY id").fetchall() == [(1,), (2,)]


def test_each_type_is_what_the_library_reads(db: ivm.Database, catalog: SqlCatalog) -> None:
    ids = uuid.UUID(int=7), uuid.UUID(int=2**127)
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "t": pa.array([datetime.time(1, 2, 3, 4), None], pa.time64("us")),
            "u": pa.array([i.bytes for i in ids], pa.binary(16)).cast(pa.uuid()),
            "f": pa.array([b"abc", None], pa.binary(3)),
            "z": pa.array([1767225600123456, None], pa.timestamp("us", "UTC")),
            "n n": pa.array([1767225600123456, None], pa.timestamp("us")),
            "d": pa.array([decimal.Decimal("-1.50"), None], pa.decimal128(38, 2)),
            "l": pa.array([[{"a": 1, "b": ["x"]}], None]),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows)
    db.execute(f"CREATE TABLE t FROM ICEBERG '{table.metadata_location}' {IN_FILES}")
    with duckdb.connect() as cursor:
        wanted = cursor.from_arrow(table.scan().to_arrow()).select("* REPLACE (u::UUID AS u)")
        db.execute("SET TimeZone = 'UTC'")
        cursor.execute("SET TimeZone = 'UTC'")
        assert_same_rows(db.execute("FROM t").fetchall(), wanted.fetchall(), "t")


def test_without_the_library_the_command_is_named(
    db: ivm.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    with pytest.raises(UnavailableError, match=r"pip install 'ivmdb\[iceberg\]'"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{tmp_path}' {IN_FILES}")

"""Rows of CSV and Parquet in tables: casts, values that were not sent, dead letters and RETRY."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import ivm

TYPES = f"""
SELECT 1::TINYINT AS a, 2::UBIGINT AS b, 3.25::DECIMAL(9, 2) AS c, 1e-7::DOUBLE AS d, true AS e,
    'é"x' AS f, DATE '2024-02-29' AS g, TIME '12:34:56.789' AS h,
    TIMESTAMP '2024-02-29 12:34:56.789' AS i, TIMESTAMPTZ '2024-02-29 12:34:56+02' AS j,
    TIMESTAMP_NS '2024-02-29 12:34:56.123456789' AS k,
    'f487e2cd-2536-4805-8554-34b65e7abfdb'::UUID AS l, [1, NULL, 3] AS m,
    {{'x': 1, 'y': ['z']}} AS n, MAP {{'k': 2}} AS o, 'ab'::BLOB AS p,
    12345678901234567890123456789::DECIMAL(38, 0) AS q, '{{"j": 1}}'::JSON AS r
UNION ALL SELECT {", ".join(["NULL"] * 18)}
"""


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        yield opened


def follow(db: ivm.Database, path: Path, format: str) -> None:
    """Applies all that a file has to table t."""
    db.create_source("s", ivm.sources.Files(path=str(path), format=format), into="t")
    db.start_sources()
    wait(db)


def wait(db: ivm.Database) -> None:
    """Waits until everything is applied."""
    end = time.monotonic() + 60
    while not db.sources()[0].caught_up:
        assert time.monotonic() < end, db.sources()
        time.sleep(0.01)


def letters(db: ivm.Database) -> list[tuple[object, ...]]:
    return db.execute(
        "SELECT position, reason, payload FROM _ivm.dead_letters ORDER BY 1"
    ).fetchall()


def file_of(query: str, folder: Path, format: str) -> Path:
    """A file of a query's rows, which plain DuckDB writes."""
    path = folder / f"t.{format}"
    with duckdb.connect() as plain:
        plain.execute(f"COPY ({query}) TO '{path}' (FORMAT {format})")
    return path


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_values_of_every_type_are_those_that_duckdb_reads(
    db: ivm.Database, tmp_path: Path, format: str
) -> None:
    path = file_of(TYPES, tmp_path, format)
    db.execute(f"CREATE TABLE t AS {TYPES} LIMIT 0")
    db.execute(f"CREATE TABLE wanted AS {TYPES}")
    follow(db, path, f"{format} appends")
    assert letters(db) == []
    assert db.execute("FROM t EXCEPT ALL FROM wanted").fetchall() == []
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_value_that_we_cannot_hold_is_refused_alone(
    db: ivm.Database, tmp_path: Path, format: str
) -> None:
    texts = "SELECT unnest(['1 day', '3000000 hours', '2562046 hours']) AS x"
    path = file_of(texts, tmp_path, format)
    db.execute("CREATE TABLE t (x INTERVAL)")
    follow(db, path, f"{format} appends")
    assert len(db.execute("FROM t").fetchall()) == 2
    ((position, reason, _),) = letters(db)
    assert position == 2
    assert "an INTERVAL may have up to 2562046 hours" in str(reason)


@pytest.mark.full
def test_changes_without_all_columns(db: ivm.Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    db.execute('CREATE TABLE t (id INTEGER PRIMARY KEY, "Odd ""name" VARCHAR, n INTEGER)')
    path.write_text('OP,ID,"odd ""NAME",more\ni,1,a,x\ni,2,b,x\ni,3,c,x\n')
    follow(db, path, "csv")
    (tmp_path / "u.csv").write_text("op,id,n\nupdate,1,5\nDELETE,2,\nupsert,4,6\n")
    db.execute("DROP SOURCE s")
    follow(db, tmp_path / "u.csv", "csv")
    assert letters(db) == []
    assert db.execute("FROM t ORDER BY id").fetchall() == [
        (1, "a", 5),
        (3, "c", None),
        (4, None, 6),
    ]


def test_letters_are_retried_as_the_rows_that_they_were(db: ivm.Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n TINYINT, b BLOB, l INTEGER[])")
    db.execute("INSERT INTO t VALUES (2, 7, 'kept', [7])")
    path.write_text('op,id,n,b,l\ni,1,1000,\\xAA,"[1, 2]"\ni,3,x,,\nz,4,1,,\nd,,,,\ni,5\n')
    follow(db, path, "csv")
    (tmp_path / "u.csv").write_text("op,id,n\nu,2,2000\n")
    db.create_source("u", ivm.sources.Files(path=str(tmp_path / "u.csv"), format="csv"), into="t")
    while not db.execute("FROM _ivm.dead_letters WHERE source = 'u'").fetchall():
        time.sleep(0.01)
    assert db.stop_sources()
    assert [reason for _, reason, _ in letters(db)] == [
        "n is no TINYINT: 1000",
        "n is no TINYINT: 2000",
        "n is no TINYINT: x",
        "its operation (op) is unknown or missing",
        "the key of the deleted row is missing",
        "it has 2 values for 5 columns",
    ]
    db.execute("ALTER TABLE t ALTER n TYPE INTEGER")
    for name, count in (("s", 1), ("u", 1)):
        assert db.execute(f"RETRY DEAD LETTERS FOR {name}").rowcount == count
    assert db.execute("FROM t ORDER BY id").fetchall() == [
        (1, 1000, b"\xaa", [1, 2]),
        (2, 2000, b"kept", [7]),
    ]
    assert [position for position, _, _ in letters(db)] == [2, 3, 4, 5]


@pytest.mark.full
def test_letters_of_parquet_are_retried_with_their_values(db: ivm.Database, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with duckdb.connect() as plain:
        plain.execute(f"COPY (SELECT 1000 AS z, * FROM ({TYPES}) LIMIT 1) TO '{path}'")
    db.execute(f"CREATE TABLE t AS SELECT 1::TINYINT AS z, * FROM ({TYPES}) LIMIT 0")
    follow(db, path, "parquet appends")
    assert [reason for _, reason, _ in letters(db)] == ["z is no TINYINT: 1000"]
    assert db.stop_sources()
    db.execute("ALTER TABLE t ALTER z TYPE INTEGER")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 1
    db.execute(f"CREATE TABLE wanted AS SELECT 1000::INTEGER AS z, * FROM ({TYPES}) LIMIT 1")
    assert db.execute("FROM t EXCEPT ALL FROM wanted").fetchall() == []


@pytest.mark.full
def test_a_table_without_a_key(db: ivm.Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    db.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
    path.write_text("op,a,b\ni,1,x\ni,1,x\ni,2,\nd,1,x\nd,2,\nd,,\nu,1,y\n")
    follow(db, path, "csv")
    assert db.execute("FROM t").fetchall() == [(1, "x")]
    assert [(position, reason) for position, reason, _ in letters(db)] == [
        (6, "the row before is missing, and the table has no key"),
        (7, "the row before is missing, and the table has no key"),
    ]

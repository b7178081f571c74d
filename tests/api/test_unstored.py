"""Tables that are not stored: how they are made, what is refused, what becomes of their files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import ConstraintError, IvmError, SqlError, UnavailableError, UnsupportedError
from tests.support.view_oracle import Row, assert_same_rows

KEYED = "(id INTEGER PRIMARY KEY, name VARCHAR, x DOUBLE)"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    for i in range(3):
        rows = "SELECT range::INT AS id, 'n' || range % 3 AS name, range / 2 AS x"
        duckdb.sql(f"COPY ({rows} FROM range({i}00, {i}50)) TO '{folder}/{i}.parquet'")
    return folder


@pytest.fixture
def db(tmp_path: Path) -> ivm.Database:
    return ivm.connect(tmp_path / "x.duckdb")


def answer(sql: str) -> list[Row]:
    return duckdb.execute(sql).fetchall()


def verified(db: ivm.Database) -> bool:
    return all(row[4] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


def test_nothing_is_copied_and_other_programs_read_it(
    db: ivm.Database, lake: Path, tmp_path: Path
) -> None:
    db.execute(f"CREATE TABLE T {KEYED} FROM PARQUET '{lake}' WITH (stored = false)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    db.execute("DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (1000, 'n0', 1)")
    wanted = db.execute("FROM t").fetchall()
    assert len(wanted) == 150
    db.close()
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as other:
        assert_same_rows(other.execute("FROM T").fetchall(), wanted, "T")
        assert other.execute("SELECT count(*) FROM _ivm.history_1_added").fetchall() == [(1,)]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_other_formats(db: ivm.Database, tmp_path: Path, format: str) -> None:
    rows = "SELECT range AS id, 'it''s; ' || range AS name, DATE '2026-01-01' + range::INT AS day"
    options = "FORMAT csv, DELIMITER ';', HEADER" if format == "csv" else "FORMAT json"
    for i in (0, 1):
        file = tmp_path / f"{i}.{format}"
        duckdb.sql(f"COPY ({rows} FROM range({i}0, {i}5)) TO '{file}' ({options})")
    columns = "(id BIGINT PRIMARY KEY, name VARCHAR, day DATE)"
    db.execute(
        f"CREATE TABLE t {columns} FROM {format} '{tmp_path}/*.{format}' WITH (stored = false)"
    )
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT day, max(name) AS m FROM t GROUP BY day")
    db.execute("UPDATE t SET name = 'z' WHERE id IN (1, 12)")
    wanted = answer(f"{rows} FROM (FROM range(5) UNION ALL FROM range(10, 15)) r(range)")
    changed = [(i, "z" if i in (1, 12) else name, day) for i, name, day in wanted]
    assert_same_rows(db.execute("FROM t").fetchall(), changed, "t")
    assert verified(db)


def test_folders_of_partitions(db: ivm.Database, tmp_path: Path) -> None:
    rows = "SELECT range AS id, range % 3 AS part FROM range(30)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/lake' (FORMAT parquet, PARTITION_BY part)")
    (tmp_path / "lake" / "_hidden").mkdir()
    (tmp_path / "lake" / "_hidden" / "x.parquet").write_bytes(b"no Parquet")
    db.execute(f"CREATE TABLE t FROM PARQUET '{tmp_path}/lake/' WITH (stored = false)")
    assert_same_rows(db.execute("SELECT id, part FROM t").fetchall(), answer(rows), "t")


def test_a_table_without_a_key_takes_rows(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t FROM PARQUET '{lake}' WITH (stored = false)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    db.execute("INSERT INTO t VALUES (1, 'n1', 0), (1, 'n1', 0)")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(152,)]
    with pytest.raises(UnsupportedError, match="PRIMARY KEY"):
        db.execute("DELETE FROM t WHERE name = 'n1'")
    with pytest.raises(UnsupportedError, match="PRIMARY KEY"):
        db.execute("UPDATE t SET x = 0")
    with pytest.raises(IvmError, match="PRIMARY KEY"):
        db.delete("t", [{"id": 1, "name": "n1", "x": 0}])
    with pytest.raises(IvmError, match="PRIMARY KEY"):
        db.apply("t", {"id": [1], "name": ["n1"], "x": [0.0]}, [-1])
    assert verified(db)


def test_change_streams_follow_into_them(db: ivm.Database, lake: Path) -> None:
    files = f"FROM PARQUET '{lake}' WITH (stored = false)"
    db.execute(f"CREATE TABLE t {KEYED} {files}; CREATE TABLE log {files}")
    for table in ("t", "log"):
        query = f"SELECT name, count(*) AS n, sum(x) AS s FROM {table} GROUP BY name"
        db.execute(f"CREATE MATERIALIZED VIEW of_{table} AS {query}")
    made = {"op": "c", "after": {"id": 500, "name": "n1", "x": 2.0}}
    changed = {"op": "u", "before": {"id": 2}, "after": {"id": 2, "name": "n0", "x": 9.0}}
    gone = {"op": "d", "before": {"id": 101}}
    assert db.ingest("t", [made, changed, gone], position=1).applied == 3
    found = db.execute("SELECT id, x FROM t WHERE id IN (2, 101, 500) ORDER BY id").fetchall()
    assert found == [(2, 9.0), (500, 2.0)]
    assert db.ingest("log", [made, made], position=1).applied == 2
    whole = {"op": "d", "before": {"id": 500, "name": "n1", "x": 2.0}}
    with pytest.raises(IvmError, match="PRIMARY KEY"):
        db.ingest("log", [whole], position=2)
    assert db.execute("SELECT count(*) FROM log").fetchall() == [(152,)]
    db.apply("log", {"id": [1], "name": ["n1"], "x": [0.0]}, [2])
    assert verified(db)


def test_what_the_log_alone_has_comes_back(db: ivm.Database, lake: Path, tmp_path: Path) -> None:
    files = f"FROM PARQUET '{lake}' WITH (stored = false)"
    db.execute(f"CREATE TABLE t {KEYED} {files}; CREATE TABLE log {files}")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT t.name, count(*) AS n FROM t, log GROUP BY 1")
    db.flush()
    db.upsert("t", {"id": [1, 700], "name": ["z", "z"], "x": [1.0, 1.0]})
    db.insert("log", {"id": [1], "name": ["z"], "x": [1.0]})
    db.delete("t", {"id": [2]})
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("x.duckdb", "x.duckdb.wal", "x.duckdb.ivm"):
        found = tmp_path / name
        if found.is_dir():
            shutil.copytree(found, copy / name)
        elif found.exists():
            shutil.copy(found, copy / name)
    wanted = db.execute("FROM t").fetchall()
    with ivm.connect(copy / "x.duckdb") as again:
        assert_same_rows(again.execute("FROM t").fetchall(), wanted, "t")
        assert again.execute("SELECT count(*) FROM log").fetchall() == [(151,)]
        assert verified(again)


def test_other_files_take_over_exactly_what_they_have(
    db: ivm.Database, lake: Path, tmp_path: Path
) -> None:
    db.execute(f"CREATE TABLE t FROM PARQUET '{lake}' WITH (stored = false)")
    for i in range(4):  # several epochs, flushed together
        db.execute(f"INSERT INTO t VALUES ({i}, 'same', 0)")
        if i == 1:
            epoch = db.epoch
    new = tmp_path / "new.parquet"
    rows = f"FROM '{lake}/*.parquet' UNION ALL SELECT range::INT, 'same', 0 FROM range(2)"
    duckdb.sql(f"COPY ({rows}) TO '{new}'")
    with pytest.raises(ConstraintError, match="other rows than now"):
        db.execute(f"ALTER TABLE t SET HISTORY '{new}' AT EPOCH {epoch - 1}")
    with pytest.raises(SqlError, match="is not between"):
        db.execute(f"ALTER TABLE t SET HISTORY '{new}' AT {db.epoch + 1}")
    db.execute(f"ALTER TABLE t SET HISTORY '{new}' AT EPOCH {epoch}")
    assert db.execute("SELECT count(*) FROM _ivm.history_1_added").fetchall() == [(2,)]
    assert db.execute("SELECT count(*) FROM t WHERE name = 'same'").fetchall() == [(4,)]


def test_files_that_break_a_constraint(db: ivm.Database, lake: Path, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS id, NULL AS name, -1.0 AS x) TO '{lake}/3.parquet'")
    made = f"FROM PARQUET '{lake}' WITH (stored = false"
    with pytest.raises(ConstraintError, match="PRIMARY KEY"):
        db.execute(f"CREATE TABLE t {KEYED} {made})")
    with pytest.raises(ConstraintError, match="NOT NULL name"):
        db.execute(f"CREATE TABLE t (name VARCHAR NOT NULL) {made})")
    with pytest.raises(ConstraintError, match="CHECK"):
        db.execute(f"CREATE TABLE t (x DOUBLE CHECK (x >= 0)) {made})")
    assert db.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
    db.execute(f"CREATE TABLE t (x DOUBLE CHECK (x >= 0)) {made}, check = false)")
    with pytest.raises(ConstraintError, match="CHECK"):
        db.execute("INSERT INTO t VALUES (-1)")


def test_files_that_change_stop_what_would_read_them(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t {KEYED} FROM PARQUET '{lake}' WITH (stored = false)")
    duckdb.sql(f"COPY (SELECT 7 AS id, 'n' AS name, 1.0 AS x) TO '{lake}/9.parquet'")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    before = db.execute("FROM v").fetchall()
    file = lake / "1.parquet"
    os.utime(file, (1, 1))
    with pytest.raises(UnavailableError, match=r"1\.parquet is not what it was"):
        db.execute("INSERT INTO t VALUES (9999, 'n', 1)")
    with pytest.raises(UnavailableError, match="SET HISTORY"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT DISTINCT name FROM t")
    assert_same_rows(db.execute("FROM v").fetchall(), before, "v")
    (lake / "9.parquet").unlink()
    db.execute(f"ALTER TABLE t SET HISTORY '{lake}' AT EPOCH {db.epoch}")
    db.execute("INSERT INTO t VALUES (9999, 'n', 1)")
    assert verified(db)


def test_what_cannot_be_done_says_so(db: ivm.Database, lake: Path) -> None:
    made = f"FROM PARQUET '{lake}' WITH (stored = false)"
    for columns, why in [
        ("(id INT UNIQUE)", "UNIQUE"),
        ("(id INT, y INT GENERATED ALWAYS AS (id + 1))", "y"),
        ("(id INT DEFAULT (random() * 10))", "default"),
        ("(nothing INT)", "no column 'nothing'"),
    ]:
        with pytest.raises(IvmError, match=why):
            db.execute(f"CREATE TABLE t {columns} {made}")
    with pytest.raises(SqlError, match="PARQUET, CSV, JSON"):
        db.execute(f"CREATE TABLE t FROM ORC '{lake}'")
    with pytest.raises(UnavailableError, match="no file"):
        db.execute(f"CREATE TABLE t FROM PARQUET '{lake}/none/' WITH (stored = false)")
    db.execute(f"CREATE SCHEMA s; CREATE TABLE s.t {KEYED} {made}")
    for sql in (
        "ALTER TABLE s.t ADD COLUMN y INT",
        "ALTER TABLE s.t RENAME TO u",
        "ALTER VIEW s.t RENAME TO u",
        "DROP VIEW s.t",
        "CREATE OR REPLACE VIEW s.t AS SELECT 1",
        "CREATE OR REPLACE TABLE s.t (a INT)",
        "DROP SCHEMA s CASCADE",
        "MERGE INTO s.t USING (SELECT 1 AS i) ON id = i WHEN MATCHED THEN DELETE",
        "INSERT INTO s.t VALUES (1, 'a', 2) ON CONFLICT (id) DO UPDATE SET x = 3",
    ):
        with pytest.raises(UnsupportedError):
            db.execute(sql)
    db.execute(f"CREATE TABLE IF NOT EXISTS S.T {made}")
    with pytest.raises(SqlError, match="exists"):
        db.execute(f"CREATE TABLE s.t {made}")


def test_a_dropped_table_leaves_nothing(db: ivm.Database, lake: Path) -> None:
    made = f"{KEYED} FROM PARQUET '{lake}' WITH (stored = false)"
    db.execute(f"CREATE TABLE t {made}")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT DISTINCT name FROM t")
    with pytest.raises(UnsupportedError, match="v"):
        db.execute("DROP TABLE t")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(150,)]
    db.execute("DROP TABLE IF EXISTS t CASCADE")
    assert not db.tables()
    assert not db.views()
    left = "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'history%'"
    assert db.execute(left).fetchall() == []
    db.execute(f"BEGIN; CREATE TABLE t {made}; INSERT INTO t VALUES (-1, 'a', 1); ROLLBACK")
    assert not db.tables()
    db.execute(f"BEGIN; CREATE TABLE t {made}; DELETE FROM t WHERE id < 10; COMMIT")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(140,)]


def test_loaded_tables_are_tables(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t {KEYED} FROM PARQUET '{lake}'")
    db.execute("ALTER TABLE t ADD COLUMN y INT")
    assert db.execute("SELECT count(*), count(y) FROM t").fetchall() == [(150, 0)]

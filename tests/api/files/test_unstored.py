"""Tables that are not stored: how they are made, what is refused, what becomes of their files."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
from ivm.errors import (
    ConstraintError,
    EvaluationError,
    IvmError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)
from ivm.shell.created import statements
from ivm.shell.listing import relations
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


def left_in(place: Path) -> str:
    """The end of a CREATE TABLE that leaves its rows in files."""
    return f"FROM PARQUET '{place}' WITH (stored = false)"


def answer(sql: str) -> list[Row]:
    return duckdb.execute(sql).fetchall()


def verified(db: ivm.Database) -> bool:
    return all(row[4] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


@pytest.mark.full
def test_nothing_is_copied_and_other_programs_read_it(
    db: ivm.Database, lake: Path, tmp_path: Path
) -> None:
    db.execute(f"CREATE TABLE T {KEYED} {left_in(lake)}")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    db.execute("DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (1000, 'n0', 1)")
    wanted = db.execute("FROM t").fetchall()
    assert len(wanted) == 150
    db.close()
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as other:
        assert_same_rows(other.execute("FROM T").fetchall(), wanted, "T")
        assert other.execute("SELECT count(*) FROM _ivm.history_1_added").fetchall() == [(1,)]


@pytest.mark.full
def test_updates_that_change_nothing_keep_the_rows(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t {KEYED} {left_in(lake)}")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    wanted = db.execute("FROM t ORDER BY id").fetchall()
    for sql in (
        "UPDATE t SET x = x WHERE id = 1",
        "UPDATE t SET name = name WHERE id IN (2, 3)",
        "UPDATE t SET x = x FROM (SELECT 4 AS k) q WHERE id = k",
        "UPDATE t SET x = 7 WHERE id = 5",
    ):
        db.execute(sql)
    db.flush()
    wanted[5] = (5, "n2", 7.0)
    assert db.execute("SELECT *, FROM t ORDER BY id").fetchall() == wanted
    assert verified(db)


@pytest.mark.full
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


@pytest.mark.full
def test_folders_of_partitions(db: ivm.Database, tmp_path: Path) -> None:
    rows = "SELECT range AS id, range % 3 AS part FROM range(30)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/lake' (FORMAT parquet, PARTITION_BY part)")
    (tmp_path / "lake" / "_hidden").mkdir()
    (tmp_path / "lake" / "_hidden" / "x.parquet").write_bytes(b"no Parquet")
    db.execute(f"CREATE TABLE t FROM PARQUET '{tmp_path}/lake/' WITH (stored = false)")
    assert_same_rows(db.execute("SELECT id, part FROM t").fetchall(), answer(rows), "t")


@pytest.mark.full
def test_a_table_without_a_key_takes_rows(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t {left_in(lake)}")
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


@pytest.mark.full
def test_change_streams_follow_into_them(db: ivm.Database, lake: Path) -> None:
    files = left_in(lake)
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


@pytest.mark.full
def test_what_the_log_alone_has_comes_back(db: ivm.Database, lake: Path, tmp_path: Path) -> None:
    files = left_in(lake)
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


@pytest.mark.full
def test_other_files_take_over_exactly_what_they_have(
    db: ivm.Database, lake: Path, tmp_path: Path
) -> None:
    db.execute(f"CREATE TABLE t {left_in(lake)}")
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


@pytest.mark.full
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


@pytest.mark.full
def test_files_that_change_stop_what_would_read_them(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t {KEYED} {left_in(lake)}")
    duckdb.sql(f"COPY (SELECT 7 AS id, 'n' AS name, 1.0 AS x) TO '{lake}/9.parquet'")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    db.execute("CREATE TABLE u (a INT); CREATE MATERIALIZED VIEW of_u AS SELECT sum(a) AS s FROM u")
    before = db.execute("FROM v").fetchall()
    db.close()
    db = ivm.connect(db.path)  # no view has state
    file = lake / "1.parquet"
    os.utime(file, (1, 1))
    with pytest.raises(IvmError, match=r"1\.parquet is not what it was"):
        db.execute("INSERT INTO t VALUES (9999, 'n', 1)")
    db.execute("INSERT INTO u VALUES (1); DROP VIEW IF EXISTS none; CREATE TABLE later (a INT)")
    db.execute("CREATE MATERIALIZED VIEW beside AS SELECT sum(a) AS s FROM later")
    db.execute("INSERT INTO later VALUES (1); REFRESH MATERIALIZED VIEW beside")
    assert db.execute("SELECT u.s, b.s FROM of_u AS u, beside AS b").fetchall() == [(1, 1)]
    with pytest.raises(UnavailableError, match="SET HISTORY"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT DISTINCT name FROM t")
    assert_same_rows(db.execute("FROM v").fetchall(), before, "v")
    (lake / "9.parquet").unlink()
    db.execute(f"ALTER TABLE t SET HISTORY '{lake}' AT EPOCH {db.epoch}")
    db.execute("INSERT INTO t VALUES (9999, 'n', 1)")
    assert verified(db)


@pytest.mark.full
def test_files_mean_the_same_in_every_session(db: ivm.Database, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT TIMESTAMPTZ '2026-01-01 00:00Z' AS t) TO '{tmp_path}/t.parquet'")
    (tmp_path / "t.csv").write_text('t;s\n2026-01-01 00:00:00;6" nails\n2026-01-02 00:00:00;b\n')
    db.execute("SET TimeZone = 'America/New_York'")
    parquet = f"FROM PARQUET '{tmp_path}/t.parquet' WITH (stored = false)"
    csv = f"FROM CSV '{tmp_path}/t.csv' WITH (stored = false)"
    for columns, files in (("(t TIMESTAMP)", parquet), ("(t VARCHAR)", parquet),
                           ("(t TIMESTAMPTZ)", csv)):  # fmt: skip
        with pytest.raises(UnsupportedError, match="time zones"):
            db.execute(f"CREATE TABLE x {columns} {files}")
    db.execute(f"CREATE TABLE x (t TIMESTAMPTZ) {parquet}; CREATE TABLE y {csv}")
    assert db.execute("SELECT epoch(t) FROM x").fetchall() == [(1767225600.0,)]
    assert db.execute("SELECT min(s) FROM y").fetchall() == [('6" nails',)]
    db.execute("RESET TimeZone; CREATE MATERIALIZED VIEW v AS SELECT max(t) AS m FROM x")
    db.execute("INSERT INTO x VALUES ('2027-01-01 00:00Z')")  # the pinned times are the same
    assert verified(db)


def test_filters_find_nan_in_files_whose_statistics_leave_it_out(
    db: ivm.Database, tmp_path: Path
) -> None:
    file = tmp_path / "nan.parquet"
    pq.write_table(pa.table({"id": [1, 2], "x": [1.0, math.nan]}), file)
    deltalake.write_deltalake(tmp_path / "lake", pq.read_table(file))
    for place in (f"PARQUET '{file}'", f"DELTA '{tmp_path}/lake'"):
        db.execute(f"CREATE OR REPLACE TABLE wanted AS FROM '{file}'")
        db.execute(f"DROP TABLE IF EXISTS t; CREATE TABLE t FROM {place} WITH (stored = false)")
        for where in ("x > 100", "x = 'nan'", "isnan(x)", "x <= 1"):
            asked = [f"SELECT id FROM {table} WHERE {where}" for table in ("t", "wanted")]
            assert db.execute(asked[0]).fetchall() == db.execute(asked[1]).fetchall(), where
        assert db.execute("SELECT id FROM t WHERE x > 100").fetchall() == [(2,)]


def test_a_name_that_is_a_pattern_is_refused(db: ivm.Database, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS a) TO '{tmp_path}/x[1].parquet'")
    with pytest.raises(UnsupportedError, match="rename it"):
        db.execute(f"CREATE TABLE t FROM PARQUET '{tmp_path}/' WITH (stored = false)")


def test_a_table_of_another_schema_is_called_by_its_name(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE SCHEMA s; CREATE TABLE s.t {KEYED} {left_in(lake)}")
    for sql, count in (
        ("INSERT INTO s.t SELECT 2000, 'a', 1 RETURNING t.id", 1),
        ("INSERT OR REPLACE INTO s.t (id, name) SELECT 2000, 'b' RETURNING name", 1),
        ("UPDATE s.t SET x = t.x + abs(-1) WHERE t.id < 5 RETURNING t.x", 5),
        ("UPDATE s.t SET x = 0 WHERE s.t.id < 5 RETURNING *", 5),
        ("DELETE FROM s.t USING (SELECT 2 AS i) u WHERE t.id = u.i RETURNING t.*", 1),
        ("DELETE FROM S.T WHERE s.t.id = 3 RETURNING id", 1),
    ):
        assert len(db.execute(sql).fetchall()) == count, sql
    assert db.execute("TRUNCATE s.t").rowcount == 149
    assert db.execute("SELECT count(*) FROM s.t").fetchall() == [(0,)]


def test_exported_and_imported(db: ivm.Database, lake: Path, tmp_path: Path) -> None:
    files = left_in(lake)
    db.execute(f"CREATE SCHEMA s; CREATE TABLE s.t {KEYED} {files}; CREATE TABLE log {files}")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT s.t.name, count(*) AS n FROM s.t, log GROUP BY 1"
    )
    db.execute("DELETE FROM s.t WHERE id < 9; INSERT INTO log VALUES (1, 'new', 1)")
    db.execute("UPDATE s.t SET name = 'z' WHERE id = 20")
    wanted = [db.execute(f"FROM {name}").fetchall() for name in ("s.t", "log", "v")]
    db.execute(f"EXPORT DATABASE '{tmp_path}/out'")
    with ivm.connect(tmp_path / "y.duckdb") as other:
        other.execute(f"IMPORT DATABASE '{tmp_path}/out'")
        for name, rows in zip(("s.t", "log", "v"), wanted, strict=True):
            assert_same_rows(other.execute(f"FROM {name}").fetchall(), rows, name)
        other.execute("DELETE FROM s.t WHERE id = 20; INSERT INTO log VALUES (2, 'new', 1)")
        assert verified(other)
        with pytest.raises(ConstraintError, match="other rows"):  # it is not in these files
            other.execute(f"ALTER TABLE log SET HISTORY '{lake}' AT EPOCH {other.epoch}")
        with pytest.raises(IvmError):
            other.execute(f"IMPORT DATABASE '{tmp_path}/out'")
        assert verified(other)


def test_the_listing_says_how_a_table_was_made(
    db: ivm.Database, lake: Path, tmp_path: Path
) -> None:
    columns = "(id INTEGER PRIMARY KEY, name VARCHAR DEFAULT 'x' NOT NULL, x DOUBLE CHECK (x >= 0))"
    db.execute(f"CREATE TABLE t {columns} {left_in(lake)}")
    (made,) = [table.in_files for table in db.tables()]
    assert made is not None
    db.execute("CREATE TABLE stored (a INT)")
    with ivm.connect(tmp_path / "y.duckdb") as other:
        other.execute(made)
        other.execute("INSERT INTO t (id, x) VALUES (2000, 1)")
        assert other.execute("SELECT name FROM t WHERE id = 2000").fetchall() == [("x",)]
        with pytest.raises(ConstraintError):
            other.execute("INSERT INTO t (id, x) VALUES (2001, -1)")
        assert other.tables()[0].in_files == made
    listed = {relation.name: relation.kind for relation in relations(db)}
    assert listed == {"stored": "table", "t": "table in files"}
    assert made in list(statements(db))


def test_the_columns_of_files_are_listed(db: ivm.Database, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,a\n")
    with pytest.raises(SqlError, match="no column 'id': theirs are column0, column1"):
        db.execute(
            f"CREATE TABLE t (id INTEGER, s VARCHAR) FROM CSV '{tmp_path}/t.csv' "
            "WITH (header = false, stored = false)"
        )


def test_statements_that_duckdb_would_refuse(db: ivm.Database, lake: Path) -> None:
    files = left_in(lake)
    db.execute(f"CREATE TABLE t {KEYED} {files}; CREATE TABLE log {files}")
    for sql in (
        "INSERT OR REPLACE INTO log VALUES (1, 'a', 1)",
        "INSERT INTO log VALUES (1, 'a', 1) ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT (name) DO NOTHING",
        "INSERT OR IGNORE INTO t (id, nothing) SELECT 1, 2",
        "UPDATE t SET x = row_number() OVER ()",
        "UPDATE t SET x = unnest([1, 2]) FROM log",
        "DELETE FROM t WHERE nothing = 1",
        "UPDATE t SET nothing = 1",
    ):
        with pytest.raises(SqlError) as refused:
            db.execute(sql)
        assert "ivm" not in str(refused.value), sql
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(150,)]


def test_a_database_opens_without_the_files(db: ivm.Database, lake: Path, tmp_path: Path) -> None:
    files = left_in(lake)
    db.execute(f"CREATE TABLE t {KEYED} {files}; CREATE TABLE u (a INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS s FROM u")
    db.execute("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (-1, 'new', 0)")
    wanted, rows = db.execute("FROM v").fetchall(), db.execute("FROM t").fetchall()
    db.close()
    away = lake.rename(tmp_path / "away")
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        assert_same_rows(opened.execute("FROM v").fetchall(), wanted, "v")
        for sql in (
            "FROM t",
            "SELECT count(*) FROM t",
            "DELETE FROM t WHERE id = 2",
            "INSERT INTO t VALUES (3000, 'a', 1)",
            "VERIFY MATERIALIZED VIEW v",
        ):
            with pytest.raises(IvmError, match=r"files of table|is gone"):
                opened.execute(sql).fetchall()
        assert [view.name for view in opened.views()] == ["v", "w"]
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as other:
        assert_same_rows(other.execute("FROM v").fetchall(), wanted, "v")
    away.rename(lake)
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        assert_same_rows(opened.execute("FROM t").fetchall(), rows, "t")
        opened.execute("DELETE FROM t WHERE id = 2; INSERT INTO u VALUES (1)")
        assert verified(opened)
    lake.rename(tmp_path / "moved")
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        with pytest.raises(IvmError, match="check = false"):
            opened.execute(f"ALTER TABLE t SET HISTORY '{tmp_path}/moved' AT EPOCH 0")
        moved = f"SET HISTORY '{tmp_path}/moved' AT EPOCH 0 WITH (check = false)"
        opened.execute(f"ALTER TABLE t {moved}")
        opened.execute("DELETE FROM t WHERE id = 3; INSERT INTO u VALUES (1)")
        assert verified(opened)


@pytest.mark.full(smoke=1)
@pytest.mark.parametrize("what", ["away", "other"])
def test_a_crash_and_then_files_that_are_not_there(what: str, lake: Path, tmp_path: Path) -> None:
    files = left_in(lake)
    made = f"CREATE TABLE t {KEYED} {files}; CREATE TABLE log {files}; CREATE TABLE u (a INT);"
    views = "CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name;"
    views += "CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM log;"
    script = f"""
import ivm, os
db = ivm.connect({str(tmp_path / "x.duckdb")!r})
db.execute({made + views!r})
db.flush()
db.delete("t", {{"id": [5]}})
db.execute("INSERT INTO t VALUES (-1, 'a', 0); INSERT INTO u VALUES (1)")
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    if what == "away":
        lake.rename(tmp_path / "away")
    else:
        os.utime(lake / "0.parquet", (1, 1))
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        assert opened.execute("SELECT n FROM w").fetchall() == [(150,)]
        assert opened.execute("SELECT * FROM u").fetchall() == [(1,)]
        with pytest.raises(EvaluationError, match="may lack what was committed"):
            opened.execute("FROM v")
        if what == "away":
            (tmp_path / "away").rename(lake)
        else:
            opened.execute(f"ALTER TABLE t SET HISTORY '{lake}' AT EPOCH 0")
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        opened.execute("REFRESH MATERIALIZED VIEW v")
        assert opened.execute("SELECT sum(n) FROM v").fetchall() == [(150,)]
        assert verified(opened)


def test_what_cannot_be_done_says_so(db: ivm.Database, lake: Path) -> None:
    made = left_in(lake)
    for columns, why in [
        ("(id INT UNIQUE)", "UNIQUE"),
        ("(id INT, y INT GENERATED ALWAYS AS (id + 1))", "y"),
        ("(id INT DEFAULT (random() * 10))", "default"),
        ("(nothing INT)", "no column 'nothing'"),
        ("(id INT, _IVM_epoch INT)", "choose another"),
    ]:
        with pytest.raises(IvmError, match=why):
            db.execute(f"CREATE TABLE t {columns} {made}")
    with pytest.raises(SqlError, match="PARQUET files cannot be read"):
        db.execute(f"CREATE TABLE t FROM PARQUET '{lake}' WITH (stored = false, hive = true)")
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
        "INSERT INTO s.t SELECT 1, 'a', 2 ON CONFLICT (id) DO UPDATE SET x = 3",
    ):
        with pytest.raises(UnsupportedError):
            db.execute(sql)
    db.execute(f"CREATE TABLE IF NOT EXISTS S.T {made}")
    with pytest.raises(SqlError, match="exists"):
        db.execute(f"CREATE TABLE s.t {made}")


@pytest.mark.full
def test_conflicts_of_values_are_found_by_the_key(db: ivm.Database, lake: Path) -> None:
    db.execute(f"CREATE TABLE t {KEYED} {left_in(lake)}")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT name, sum(x) AS x FROM t GROUP BY name")
    put = "INSERT INTO t VALUES (1, 'a', 2), (777, 'b', 3) ON CONFLICT (id) DO UPDATE SET x = 3"
    found = db.execute(f"{put} RETURNING *").fetchall()
    assert sorted(db.execute("FROM t WHERE id IN (1, 777)").fetchall()) == sorted(found)
    assert found[1] == (777, "b", 3)
    assert verified(db)


def test_a_dropped_table_leaves_nothing(db: ivm.Database, lake: Path) -> None:
    made = f"{KEYED} {left_in(lake)}"
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

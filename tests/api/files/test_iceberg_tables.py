"""Tables whose history is a table of Iceberg: the rows are those that Spark reads there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm.errors import ConstraintError, UnavailableError, UnsupportedError
from ivm.storage.warehouse.tables import history_pieces
from tests.support.lake_spark import LakeSpark, as_rows, lake_spark, said
from tests.support.spark import session

pytestmark = pytest.mark.full

IN_FILES = "WITH (stored = false)"


@pytest.fixture
def spark() -> LakeSpark:
    return lake_spark()


@pytest.fixture
def name() -> str:
    """The name of a new table."""
    return f"t{uuid.uuid4().hex}"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        yield opened


def place(spark: LakeSpark, name: str) -> Path:
    return spark.folder / "ice" / "db" / name


def snapshots(spark: LakeSpark, name: str) -> list[int]:
    found = spark.rows(f"SELECT snapshot_id FROM ice.db.{name}.snapshots ORDER BY committed_at")
    ids: list[int] = found["snapshot_id"].to_pylist()
    return ids


def demand_equal(
    db: ivm.Database, spark: LakeSpark, name: str, snapshot: int | None = None
) -> None:
    """A new table and a loaded one have exactly the rows and columns that Spark reads."""
    chosen = "" if snapshot is None else f"snapshot = {snapshot}"
    at = "" if snapshot is None else f" VERSION AS OF {snapshot}"
    wanted = spark.rows(f"SELECT * FROM ice.db.{name}{at}")
    options = ", ".join(["stored = false", *([chosen] if chosen else [])])
    loaded, where = f"WITH ({chosen})" if chosen else "", place(spark, name)
    db.execute(f"""
        SET TimeZone = 'UTC';
        DROP TABLE IF EXISTS seen CASCADE; DROP TABLE IF EXISTS loaded CASCADE;
        CREATE TABLE seen FROM ICEBERG '{where}' WITH ({options});
        CREATE TABLE loaded FROM ICEBERG '{where}' {loaded}
    """)
    assert [name for name, *_ in db.execute("DESCRIBE seen").fetchall()] == wanted.column_names
    for table in ("seen", "loaded"):
        assert said(db.execute(f"FROM {table}").fetchall()) == said(as_rows(wanted))


def test_each_snapshot_is_what_spark_reads(db: ivm.Database, spark: LakeSpark, name: str) -> None:
    t = f"ice.db.{name}"
    spark.run(
        f"CREATE TABLE {t} (id INT, nm STRING, p STRING, gone INT, moment TIMESTAMP) USING iceberg "
        "PARTITIONED BY (p)",
        f"""INSERT INTO {t} SELECT CAST(id AS INT), concat('n', id % 3),
        CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN 'a b/c=%25é' ELSE 'it''s + #1' END, 7,
        timestamp'2026-01-01 12:00:00Z' FROM range(40)""",
        f"UPDATE {t} SET nm = 'changed' WHERE id IN (3, 4)",
        f"ALTER TABLE {t} RENAME COLUMN nm TO name",
        f"ALTER TABLE {t} DROP COLUMN gone",
        f"ALTER TABLE {t} ADD COLUMN gone STRING",
        f"ALTER TABLE {t} ADD COLUMN nm INT",
        f"ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        f"INSERT INTO {t} VALUES (10000000000, 'new', 'q', NULL, 'back', 3)",
        f"ALTER TABLE {t} REPLACE PARTITION FIELD p WITH bucket(3, id)",
        f"INSERT INTO {t} VALUES (50, 'new', 'q', NULL, 'back', 3)",
        f"DELETE FROM {t} WHERE id = 5",
        f"CALL ice.system.rewrite_data_files(table => 'db.{name}')",
        f"ALTER TABLE {t} ADD COLUMN last DATE",  # in no snapshot yet
    )
    for snapshot in snapshots(spark, name)[:-1]:
        demand_equal(db, spark, name, snapshot)
    demand_equal(db, spark, name)
    counted = "SELECT count(*) FROM seen WHERE id > 3000000000"
    assert db.execute(counted).fetchall() == [(1,)]


def test_a_pinned_snapshot_under_views(
    db: ivm.Database, spark: LakeSpark, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_pieces, "PIECE_BYTES", 3000)
    t, where = f"ice.db.{name}", place(spark, name)
    spark.run(
        f"CREATE TABLE {t} (id BIGINT, p STRING, x INT) USING iceberg PARTITIONED BY (p)",
        f"INSERT INTO {t} SELECT id, concat('p', id % 3), CAST(id % 7 AS INT) FROM range(5000)",
        f"ALTER TABLE {t} RENAME COLUMN x TO y",
    )
    db.execute(f"""
        CREATE TABLE t (id BIGINT PRIMARY KEY, p VARCHAR, y INTEGER)
        FROM ICEBERG '{where}' {IN_FILES};
        DELETE FROM t WHERE id < 10; UPDATE t SET p = 'p9' WHERE id = 20;
    """)
    query = "SELECT p, count(*) AS n, sum(y) AS s FROM t GROUP BY p"
    db.execute(f"CREATE MATERIALIZED VIEW by_duckdb AS {query}")
    db.execute(f"CREATE MATERIALIZED VIEW by_spark WITH (backfill = 'spark') AS {query}")
    spark.run(f"DELETE FROM {t} WHERE id < 10")
    db.backfill("by_spark", spark=session())
    epoch = db.epoch
    db.execute("INSERT INTO t VALUES (9000, 'p0', 1)")
    wanted = db.execute("FROM by_duckdb ORDER BY ALL").fetchall()
    assert db.execute("FROM by_spark ORDER BY ALL").fetchall() == wanted
    moved = f"ALTER TABLE t SET HISTORY '{where}' AT EPOCH {epoch}"
    with pytest.raises(ConstraintError, match="other rows than now"):
        db.execute(moved)
    spark.run(f"UPDATE {t} SET p = 'p9' WHERE id = 20")
    before = db.execute("FROM t ORDER BY id").fetchall()
    db.execute(moved)
    (listed,) = [table.in_files for table in db.tables()]
    assert f"snapshot = {snapshots(spark, name)[-1]}" in str(listed)
    spark.run(
        f"CALL ice.system.rewrite_data_files(table => 'db.{name}', "
        "options => map('rewrite-all', 'true'))",
        "CALL ice.system.expire_snapshots(table => "
        f"'db.{name}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)",
    )
    with pytest.raises(UnavailableError, match="is gone"):
        db.execute("FROM t").fetchall()
    db.execute(f"ALTER TABLE t SET HISTORY '{where}' AT EPOCH {epoch} WITH (check = false)")
    db.close()
    with ivm.connect(db.path) as again:
        assert again.execute("FROM t ORDER BY id").fetchall() == before
        again.execute("DELETE FROM t WHERE id = 21")
        assert all(row[4] for row in again.execute("VERIFY MATERIALIZED VIEWS").fetchall())


def test_types(db: ivm.Database, spark: LakeSpark, name: str) -> None:
    t = f"ice.db.{name}"
    spark.run(
        f"""CREATE TABLE {t} (id BIGINT, b BOOLEAN, f FLOAT, d DOUBLE, x DECIMAL(30, 5), bi BINARY,
        day DATE, n TIMESTAMP_NTZ, z TIMESTAMP, l ARRAY<STRUCT<x: INT, y: STRING>>,
        m MAP<STRING, STRUCT<a: INT>>) USING iceberg""",
        f"""INSERT INTO {t} VALUES (1, true, 1.5, double('NaN'), 1.00001, X'00FF',
        date'0001-01-01', timestamp_ntz'2026-01-01 10:00:00.123456', timestamp'0001-01-01 00:00:00',
        array(named_struct('x', 1, 'y', 'z')), map('k', named_struct('a', 1))),
        (2, NULL, NULL, -0.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    )
    demand_equal(db, spark, name)
    spark.run(f"ALTER TABLE {t} RENAME COLUMN l.element.y TO w")
    with pytest.raises(UnsupportedError, match="'l' as"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{place(spark, name)}' {IN_FILES}")


def test_a_nested_field_that_has_only_the_name_of_another(
    db: ivm.Database, spark: LakeSpark, name: str
) -> None:
    t = f"ice.db.{name}"
    spark.run(
        f"CREATE TABLE {t} (id BIGINT, s STRUCT<a: INT, b: INT>) USING iceberg",
        f"INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', 2))",
        f"ALTER TABLE {t} DROP COLUMN s.b",
        f"ALTER TABLE {t} ADD COLUMN s.b INT",
    )
    where = place(spark, name)
    with pytest.raises(UnsupportedError, match=r"'s' as .*rewrite_data_files"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{where}' {IN_FILES}")
    db.execute(f"CREATE TABLE t (id BIGINT) FROM ICEBERG '{where}' {IN_FILES}")
    assert db.execute("FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_beside_the_files(
    db: ivm.Database, spark: LakeSpark, name: str, version: int
) -> None:
    t, where = f"ice.db.{name}", place(spark, name)
    spark.run(
        f"CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = "
        f"'{version}', 'write.delete.mode' = 'merge-on-read')",
        f"INSERT INTO {t} SELECT id FROM range(100)",
        f"DELETE FROM {t} WHERE id = 3",
    )
    with pytest.raises(UnsupportedError, match="delete-file-threshold"):
        db.execute(f"CREATE TABLE t FROM ICEBERG '{where}' {IN_FILES}")
    demand_equal(db, spark, name, snapshots(spark, name)[0])
    spark.run(
        f"CALL ice.system.rewrite_data_files(table => 'db.{name}', "
        "options => map('delete-file-threshold', '1'))"
    )
    demand_equal(db, spark, name)


def test_files_of_others(db: ivm.Database, spark: LakeSpark, name: str) -> None:
    spark.run(
        f"CREATE TABLE {name} (id BIGINT, p INT) USING parquet PARTITIONED BY (p) "
        f"LOCATION '{spark.folder}/{name}'",
        f"INSERT INTO {name} VALUES (1, 2)",
        f"CREATE TABLE ice.db.{name} (id BIGINT, p INT) USING iceberg PARTITIONED BY (p)",
        f"CALL ice.system.add_files(table => 'db.{name}', "
        f"source_table => '`parquet`.`{spark.folder}/{name}`')",
        f"CREATE TABLE ice.db.orc{name} (id BIGINT) USING iceberg "
        "TBLPROPERTIES ('write.format.default' = 'orc')",
        f"INSERT INTO ice.db.orc{name} VALUES (1)",
    )
    for table, why in ((name, "without a field id"), (f"orc{name}", "none of Parquet")):
        with pytest.raises(UnsupportedError, match=why):
            db.execute(f"CREATE TABLE t FROM ICEBERG '{place(spark, table)}' {IN_FILES}")

"""Tables whose history is a table of Delta Lake: the rows are those that Spark reads there."""

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
def place(spark: LakeSpark) -> Path:
    """Where a new table may be written."""
    return spark.folder / uuid.uuid4().hex


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        yield opened


def demand_equal(
    db: ivm.Database, spark: LakeSpark, place: Path, version: int | None = None
) -> None:
    """A new table and a loaded one have exactly the rows and columns that Spark reads."""
    chosen = "" if version is None else f"version = {version}"
    at = "" if version is None else f" VERSION AS OF {version}"
    wanted = spark.rows(f"SELECT * FROM delta.`{place}`{at}")
    options = ", ".join(["stored = false", *([chosen] if chosen else [])])
    loaded = f"WITH ({chosen})" if chosen else ""
    db.execute(f"""
        SET TimeZone = 'UTC';
        DROP TABLE IF EXISTS seen CASCADE; DROP TABLE IF EXISTS loaded CASCADE;
        CREATE TABLE seen FROM DELTA '{place}' WITH ({options});
        CREATE TABLE loaded FROM DELTA '{place}' {loaded}
    """)
    assert [name for name, *_ in db.execute("DESCRIBE seen").fetchall()] == wanted.column_names
    for table in ("seen", "loaded"):
        assert said(db.execute(f"FROM {table}").fetchall()) == said(as_rows(wanted))


def test_each_version_is_what_spark_reads(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    t = f"delta.`{place}`"
    spark.run(
        f"CREATE TABLE {t} (id BIGINT, name STRING, at TIMESTAMP, p STRING) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.checkpointInterval' = '3')",
        f"""INSERT INTO {t} SELECT id, concat('n', id % 3), timestamp'2026-01-01 12:00:00Z',
        CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN 'a b/c=%25é' WHEN 2 THEN '' ELSE 'it''s + #1' END
        FROM range(40)""",
        f"UPDATE {t} SET name = 'changed' WHERE id IN (3, 4)",
        f"DELETE FROM {t} WHERE id = 5",
        f"ALTER TABLE {t} ADD COLUMN more INT FIRST",
        f"INSERT INTO {t} VALUES (7, 100, 'new', NULL, 'x')",
        f"OPTIMIZE {t}",
        f"INSERT OVERWRITE {t} PARTITION (p = 'x') SELECT 8, 101, 'newer', NULL",
        f"MERGE INTO {t} USING (SELECT 7 AS i) ON id = i WHEN MATCHED THEN DELETE",
    )
    for version in range(1, 9):
        demand_equal(db, spark, place, version)
    demand_equal(db, spark, place)


def test_a_pinned_version_under_views(
    db: ivm.Database, spark: LakeSpark, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_pieces, "PIECE_BYTES", 3000)
    t = f"delta.`{place}`"
    spark.run(
        f"CREATE TABLE {t} (id BIGINT, p STRING, x INT) USING delta PARTITIONED BY (p)",
        f"INSERT INTO {t} SELECT id, concat('p', id % 3), id % 7 FROM range(5000)",
    )
    db.execute(f"""
        CREATE TABLE t (id BIGINT PRIMARY KEY, p VARCHAR, x INTEGER)
        FROM DELTA '{place}' {IN_FILES};
        DELETE FROM t WHERE id < 10; UPDATE t SET p = 'p9' WHERE id = 20;
    """)
    query = "SELECT p, count(*) AS n, sum(x) AS s FROM t GROUP BY p"
    db.execute(f"CREATE MATERIALIZED VIEW by_duckdb AS {query}")
    db.execute(f"CREATE MATERIALIZED VIEW by_spark WITH (backfill = 'spark') AS {query}")
    spark.run(f"DELETE FROM {t} WHERE id < 10")
    db.backfill("by_spark", spark=session())
    epoch = db.epoch
    db.execute("INSERT INTO t VALUES (9000, 'p0', 1)")
    wanted = db.execute("FROM by_duckdb ORDER BY ALL").fetchall()
    assert db.execute("FROM by_spark ORDER BY ALL").fetchall() == wanted
    spark.run(f"UPDATE {t} SET p = 'p9' WHERE id = 20", f"OPTIMIZE {t}")
    before = db.execute("FROM t ORDER BY id").fetchall()
    with pytest.raises(ConstraintError, match="other rows than now"):
        db.execute(f"ALTER TABLE t SET HISTORY '{place}' AT EPOCH {epoch} WITH (version = 2)")
    db.execute(f"ALTER TABLE t SET HISTORY '{place}' AT EPOCH {epoch}")
    (listed,) = [table.in_files for table in db.tables()]
    assert listed is not None
    assert "version = 4" in listed
    assert db.execute("SELECT count(*) FROM _ivm.history_1_added").fetchall() == [(1,)]
    db.close()
    with ivm.connect(db.path) as again:
        assert again.execute("FROM t ORDER BY id").fetchall() == before
        again.execute("DELETE FROM t WHERE id = 21")
        assert all(row[4] for row in again.execute("VERIFY MATERIALIZED VIEWS").fetchall())


def test_vacuumed_files(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    t = f"delta.`{place}`"
    spark.run(
        f"CREATE TABLE {t} (id BIGINT) USING delta",
        f"INSERT INTO {t} SELECT id FROM range(10)",
        f"INSERT INTO {t} SELECT id FROM range(10, 20)",
    )
    db.execute(f"CREATE TABLE t (id BIGINT PRIMARY KEY) FROM DELTA '{place}' {IN_FILES}")
    spark.run(f"OPTIMIZE {t}", f"VACUUM {t} RETAIN 0 HOURS")
    with pytest.raises(UnavailableError, match="SET HISTORY"):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    with pytest.raises(UnavailableError, match="Name a newer version"):
        db.execute(f"CREATE TABLE u FROM DELTA '{place}' WITH (stored = false, version = 1)")
    moved = f"ALTER TABLE t SET HISTORY '{place}' AT EPOCH {db.epoch}"
    db.execute(f"{moved} WITH (check = false)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    assert db.execute("FROM v").fetchall() == [(20,)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_under_other_names(
    db: ivm.Database, spark: LakeSpark, place: Path, mode: str
) -> None:
    t = f"delta.`{place}`"
    spark.run(
        f"CREATE TABLE {t} (id BIGINT, nm STRING, gone INT, p STRING) USING delta "
        f"PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')",
        f"INSERT INTO {t} SELECT id, 'n', 7, concat('p', id) FROM range(3)",
        f"ALTER TABLE {t} RENAME COLUMN nm TO name",
        f"ALTER TABLE {t} DROP COLUMN gone",
        f"ALTER TABLE {t} ADD COLUMNS (gone STRING, nm STRING)",
        f"ALTER TABLE {t} RENAME COLUMN p TO part",
        f"INSERT INTO {t} VALUES (10, 'new', 'q', 'back', 'other')",
    )
    demand_equal(db, spark, place)
    demand_equal(db, spark, place, 1)


def test_names_that_were_mapped_later(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    t = f"delta.`{place}`"
    spark.run(
        f"CREATE TABLE {t} (id BIGINT, nm STRING, s STRUCT<a: INT>) USING delta",
        f"INSERT INTO {t} VALUES (1, 'a', named_struct('a', 1))",
        f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
        f"ALTER TABLE {t} RENAME COLUMN nm TO name",
        f"ALTER TABLE {t} ADD COLUMN nm INT",
        f"INSERT INTO {t} VALUES (2, 'b', named_struct('a', 2), 3)",
    )
    with pytest.raises(UnsupportedError, match=r"'s' cannot be read exactly.*other columns"):
        db.execute(f"CREATE TABLE t FROM DELTA '{place}' {IN_FILES}")
    db.execute(f"CREATE TABLE t (id BIGINT, name VARCHAR, nm INT) FROM DELTA '{place}' {IN_FILES}")
    found = db.execute("SELECT id, name, nm FROM t ORDER BY id").fetchall()
    assert found == [(1, "a", None), (2, "b", 3)]


def test_widened_types(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    t = f"delta.`{place}`"
    spark.run(
        f"CREATE TABLE {t} (id INT, f FLOAT, d DATE, x DECIMAL(10, 2), b BYTE, i INT) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
        "'delta.feature.timestampNtz' = 'supported')",
        f"INSERT INTO {t} VALUES (1, 1.1, date'2026-01-01', 1.23, 5, 2147483647)",
    )
    types = {"id": "BIGINT", "f": "DOUBLE", "d": "TIMESTAMP_NTZ", "x": "DECIMAL(14, 3)",
             "b": "SMALLINT", "i": "DECIMAL(20, 10)"}  # fmt: skip
    for name, type in types.items():
        spark.run(f"ALTER TABLE {t} CHANGE COLUMN {name} TYPE {type}")
    later = "10000000000, 2.2, timestamp_ntz'2026-01-01 10:00:00', 1.234, 500, 1.5"
    spark.run(f"INSERT INTO {t} VALUES ({later})")
    demand_equal(db, spark, place)
    for where in ("id > 3000000000", "id = 1", "f > 1.1", "f = 2.2", "d < '2026-01-01 05:00:00'",
                  "x > 1.2301", "b > 128", "i < 2", "i > 2147483646.5"):  # fmt: skip
        counted = [f"SELECT count(*) FROM {table} WHERE {where}" for table in ("seen", "loaded")]
        assert db.execute(counted[0]).fetchall() == db.execute(counted[1]).fetchall(), where


def test_types_and_partitions_of_each_type(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    t, n = f"delta.`{place}`", f"delta.`{place}-nested`"
    spark.run(
        f"""CREATE TABLE {t} (id BIGINT, bi BINARY, i INT, d DATE, x DECIMAL(10, 2), f DOUBLE,
        b BOOLEAN, s STRING, at TIMESTAMP_NTZ) USING delta PARTITIONED BY (i, d, x, f, b, s, at)""",
        f"""INSERT INTO {t} VALUES
        (1, X'00FF', 5, date'2026-01-01', 1.50, 1e10, true, 'a''b',
         timestamp_ntz'2026-01-01 10:00:00.123456'),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (3, X'', -5, date'0001-01-01', -1.50, double('NaN'), false, '',
         timestamp_ntz'1900-01-01 10:00:00'),
        (4, X'', 0, date'9999-12-31', 0, -0.0, false, '__HIVE_DEFAULT_PARTITION__ %2F\\\\',
         timestamp_ntz'1900-01-01 10:00:00')""",
        f"""CREATE TABLE {n} (id BIGINT, a ARRAY<STRUCT<x: INT, z: STRING>>,
        m MAP<STRING, DATE>, b BYTE, s SHORT, f FLOAT, at TIMESTAMP) USING delta""",
        f"""INSERT INTO {n} VALUES (1, array(named_struct('x', 1, 'z', 'z')),
        map('k', date'2026-01-01'), -128, 32767, 1.5, timestamp'0001-01-01 00:00:00'),
        (2, NULL, NULL, NULL, NULL, NULL, timestamp'9999-12-31 23:59:59.999999')""",
    )
    demand_equal(db, spark, place)
    demand_equal(db, spark, Path(f"{place}-nested"))
    parts = db.execute("DESCRIBE seen").fetchall()
    assert parts
    db.execute(f"CREATE TABLE p (s VARCHAR, i INT) FROM DELTA '{place}' {IN_FILES}")
    assert len(db.execute("FROM p").fetchall()) == 4  # no column of the files


def test_instants_in_both_forms(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    t = f"delta.`{place}`"
    values = "timestamp'2026-01-01 10:00:00.123456', array(timestamp'2026-01-01 10:00:00')"
    insert = f"INSERT INTO {t} SELECT id, {values} FROM range(3)"
    spark.run(f"CREATE TABLE {t} (id BIGINT, moment TIMESTAMP, l ARRAY<TIMESTAMP>) USING delta")
    try:
        for form in ("INT96", "TIMESTAMP_MICROS"):
            spark.run(f"SET spark.sql.parquet.outputTimestampType = {form}", insert)
    finally:
        spark.run("RESET spark.sql.parquet.outputTimestampType")
    with pytest.raises(UnsupportedError, match="'l' as TIMESTAMP"):
        db.execute(f"CREATE TABLE t FROM DELTA '{place}' {IN_FILES}")
    db.execute("SET TimeZone = 'America/New_York'")
    db.execute(f"CREATE TABLE t (id BIGINT, moment TIMESTAMPTZ) FROM DELTA '{place}' {IN_FILES}")
    found = db.execute("SELECT DISTINCT epoch_us(moment) FROM t").fetchall()
    assert found == [(1767261600123456,)]
    with pytest.raises(UnsupportedError, match="time zones"):
        db.execute(f"CREATE TABLE u (id BIGINT, moment TIMESTAMP) FROM DELTA '{place}' {IN_FILES}")


def test_what_is_refused_and_the_way_out(db: ivm.Database, spark: LakeSpark, place: Path) -> None:
    def table(name: str, columns: str, *more: str, properties: str = "") -> str:
        t = f"delta.`{place}-{name}`"
        spark.run(f"CREATE TABLE {t} ({columns}) USING delta {properties}", *[
            sql.replace("@", t) for sql in more])  # fmt: skip
        return f"FROM DELTA '{place}-{name}' {IN_FILES}"

    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    insert, delete = "INSERT INTO @ SELECT id FROM range(100)", "DELETE FROM @ WHERE id = 4"
    made = table("dv", "id BIGINT", insert, delete, properties=vectors)
    with pytest.raises(UnsupportedError, match="REORG TABLE"):
        db.execute(f"CREATE TABLE t {made}")
    spark.run(f"REORG TABLE delta.`{place}-dv` APPLY (PURGE)")
    demand_equal(db, spark, Path(f"{place}-dv"))
    demand_equal(db, spark, Path(f"{place}-dv"), 1)
    made = table("variant", "id BIGINT, v VARIANT", "INSERT INTO @ VALUES (1, parse_json('1'))")
    with pytest.raises(UnsupportedError, match="variantType"):
        db.execute(f"CREATE TABLE t {made}")
    by = "PARTITIONED BY (at)"
    insert = "INSERT INTO @ VALUES (1, timestamp'2026-01-01 10:00:00')"
    made = table("zoned", "id BIGINT, at TIMESTAMP", insert, properties=by)
    with pytest.raises(UnsupportedError, match="partitioned by it"):
        db.execute(f"CREATE TABLE t {made}")
    db.execute(f"CREATE TABLE t (id BIGINT) {made}; DROP TABLE t")
    steps = [
        "ALTER TABLE @ ADD COLUMN s.b INT",
        "INSERT INTO @ VALUES (2, named_struct('a', 1, 'b', 2))",
    ]
    insert = "INSERT INTO @ VALUES (1, named_struct('a', 1))"
    made = table("nested", "id BIGINT, s STRUCT<a: INT>", insert, *steps)
    with pytest.raises(UnsupportedError, match="OPTIMIZE"):
        db.execute(f"CREATE TABLE t {made}")
    spark.run(f"OPTIMIZE delta.`{place}-nested`")
    demand_equal(db, spark, Path(f"{place}-nested"))
    made = table("empty", "id BIGINT")
    with pytest.raises(UnavailableError, match="no files"):
        db.execute(f"CREATE TABLE t {made}")
    policy = "TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2')"
    made = table("v2", "id BIGINT", *["INSERT INTO @ VALUES (1)"] * 5, properties=policy)
    demand_equal(db, spark, Path(f"{place}-v2"))
    assert [table.name for table in db.tables() if table.name == "t"] == []

"""First fills on Spark where names and paths have letters and lengths that files and Spark mind."""

from __future__ import annotations

from pathlib import Path

import pytest

import ivm
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=1)


@pytest.mark.full
@pytest.mark.parametrize("folder", ["day=1 [new] {1}", "c0=5", "number=7", "c1=a/id=x"])
def test_a_path_is_no_pattern(folder: str, tmp_path: Path) -> None:
    """Nor does a folder give the files of ours below it another column, or other values."""
    spark, file = session(), tmp_path / folder / "50% #a:b é *.duckdb"
    file.parent.mkdir(parents=True)
    with ivm.connect(file, spark=spark) as db:
        db.execute("CREATE TABLE plain AS SELECT range AS id, range % 7 AS g FROM range(100)")
        lake = f"'{tmp_path}/lake.parquet'"
        columns = "id BIGINT PRIMARY KEY, g BIGINT"
        db.execute(f"COPY plain TO {lake}")
        db.execute(f"CREATE TABLE lake ({columns}) FROM PARQUET {lake} WITH (stored = false)")
        db.execute("DELETE FROM lake WHERE id < 10; INSERT INTO lake VALUES (1000, 3)")
        demand_filled(db, "SELECT g, count(*) AS n FROM plain GROUP BY g")
        demand_filled(db, "SELECT g, max(l.id) AS m FROM lake l JOIN plain USING (g) GROUP BY g")


@pytest.mark.full
def test_names_may_be_long(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb", spark=session()) as db:
        name = f'"{"a long name " * 40}"'
        db.execute(f"CREATE TABLE {name} AS SELECT range AS id FROM range(3)")
        demand_filled(db, f"SELECT id, id + 1 AS following FROM {name}")


def test_paths_are_those_of_this_machine(tmp_path: Path) -> None:
    spark = session().newSession()
    spark.conf.set("fs.defaultFS", "hdfs://nowhere.invalid:8020")
    with ivm.connect(tmp_path / "shop.duckdb", spark=spark) as db:
        db.execute("CREATE TABLE t AS SELECT range AS id FROM range(3)")
        demand_filled(db, "SELECT id, id + 1 AS following FROM t")


def demand_filled(db: ivm.Database, query: str) -> None:
    """Spark fills a view of the query rightly, with several stages."""
    db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {query}")
    db.backfill("v")
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall()[0][4]
    assert db.execute("VERIFY MATERIALIZED VIEW v USING SPARK").fetchall()[0][4]

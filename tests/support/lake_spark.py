"""A Spark that writes tables of Delta Lake and Iceberg, for tests of our reading of them.

It is another Spark than the one that fills views: the writers are made for certain releases, and
run as a process of their own. The first one to come fetches them, by pip and Maven. Without them
the tests that need them are not run, and say so; where `IVM_SERVERS` is "required", as in CI, that
is a failure.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pytest

from tests.support.maven import Jars, java_missing
from tests.support.view_oracle import Row

SPARK = "4.1.1"
_DELTA = Jars("io.delta", "delta-spark_4.1_2.13", "4.1.0")
_ICEBERG = Jars("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.11.0")
_SQL = "org.apache.spark.sql"
_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}


class LakeSpark:
    """The process.

    Args:
        folder: of its own; tables of the catalog `ice` lie in `folder / "ice"`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        jars = [p for f in (_DELTA.folder(), _ICEBERG.folder()) for p in f.glob("*.jar")]
        own = ("delta-", "iceberg-", "unitycatalog-")
        settings = _SETTINGS | {
            "spark.jars": ",".join(str(p) for p in jars if p.name.startswith(own)),
            "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        home = _pyspark()
        here = {"PYTHONPATH": str(home), "SPARK_HOME": str(home / "pyspark")}
        here |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        program = [sys.executable, str(Path(__file__).with_name("lake_writer.py"))]
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [*program, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=os.environ | here,
            )

    def run(self, *statements: str) -> None:
        """Runs statements."""
        for sql in statements:
            self._ask({"sql": sql})

    def rows(self, sql: str) -> pa.Table:
        """The rows of a query."""
        file = self.folder / "answer.arrow"
        self._ask({"sql": sql, "to": str(file)})
        return feather.read_table(file, memory_map=False)

    def _ask(self, asked: dict[str, str]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, (self.folder / "log").read_text()[-3000:]
        answer = json.loads(line)
        assert "error" not in answer, (asked["sql"], answer["error"])

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


@functools.cache
def lake_spark() -> LakeSpark:
    """The process of all tests, started at its first use."""
    try:
        missing = java_missing() or _DELTA.missing() or _ICEBERG.missing()
        if missing:
            raise RuntimeError(missing)
        folder = tempfile.TemporaryDirectory(prefix="ivm-lake-")
        made = LakeSpark(Path(folder.name))
    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("IVM_SERVERS") == "required":
            raise
        pytest.skip(f"Spark with Delta and Iceberg NOT RUN: {error}")
    atexit.register(folder.cleanup)
    atexit.register(made.close)
    return made


def said(rows: list[Row]) -> list[str]:
    """Rows as sorted texts, in which NaN is NaN."""
    return sorted(map(repr, rows))


def as_rows(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table as DuckDB's values."""
    with duckdb.connect() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        return cursor.from_arrow(table).fetchall()


def _pyspark() -> Path:
    """The folder with this Spark, which the first one to come fetches."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"pyspark-{SPARK}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".complete").exists():
            install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
            command = [*install, "--upgrade", "--target", str(home), f"pyspark=={SPARK}"]
            subprocess.run(command, check=True)
            (home / ".complete").touch()
    return home

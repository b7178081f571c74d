"""Files of this machine, as Spark reads and writes them.

Law: a path is that of this machine, whatever letters it has and whatever file system is Spark's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def local(path: Path) -> str:
    """A path as Spark takes it: on a cluster of Hadoop's, a bare one would be in HDFS."""
    return f"file://{path.absolute()}"


def read_carriers(spark: SparkSession, ddl: str, folder: Path) -> DataFrame:
    """The rows of the Parquet files in a folder.

    Args:
        spark: a prepared session.
        ddl: the columns that are read; "" for the rows alone.
        folder: of the files.
    """
    reader = spark.read.option("__globPaths__", "false")  # Spark's own name for it: no `[` is one
    return reader.schema(ddl or "nothing INT").parquet(local(folder))

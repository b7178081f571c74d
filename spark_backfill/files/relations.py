"""Where Spark finds the rows of base relations: in files of carriers, or in the files of a lake.

Law: `frame(scan)`, or all pieces of `pieces(scan)`, are the rows of the scan in the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.spark_backfill.files.lake import Lake
from ivm.spark_backfill.files.local_files import read_carriers
from ivm.spark_backfill.workers.carriers import carrier
from ivm.spark_backfill.workers.worker import Pieces
from ivm.sql.plan.nodes import Scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Exported:
    """Relations that were exported, or whose files the workers read.

    Args:
        spark: a prepared session.
        folders: the folder of each relation by its SQL spelling.
    """

    def __init__(self, spark: SparkSession, folders: Mapping[str, Path]) -> None:
        self._spark = spark
        self._folders = folders

    def pieces(self, scan: Scan) -> Pieces | None:
        """The pieces that a scan reads; None if all of it was exported."""
        folder = self._folders[scan.relation]
        return Lake(folder).pieces(scan) if Lake.is_at(folder) else None

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan that was exported as carriers, columns c0, c1, …"""
        pairs = list(zip(scan.columns, scan.schema, strict=True))
        ddl = ", ".join(f"c{i} {carrier(type).spark}" for i, (_, type) in pairs)
        frame = read_carriers(self._spark, ddl, self._folders[scan.relation])
        names = [f"c{i} AS c{n}" for n, (i, _) in enumerate(pairs)]
        return frame.selectExpr(*(names or ["1 AS nothing"]))

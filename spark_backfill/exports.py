"""Base relations written as Parquet files of carriers, which Spark reads as they are.

Law: `frame(scan)` of an exported relation has the rows that the exporting cursor saw. A file's
columns are named by their positions in the relation: c0, c1, ….
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.spark_backfill.carriers import carrier
from ivm.sql.plan.nodes import Scan
from ivm.storage.identifiers import literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE_BYTES = 128 << 20
"""The size from which an exported relation goes on in another file, which is another task's."""


def export(
    cursor: Cursor, relation: str, columns: Sequence[tuple[int, str]], schema: Schema, to: Path
) -> None:
    """Writes columns of a relation, as the cursor sees them, to a new folder.

    Args:
        cursor: in its snapshot.
        relation: its SQL spelling.
        columns: position and name of each column.
        schema: of the relation.
        to: the folder, which is not there yet.

    Raises:
        NotCarriedError: a column has no form in Spark.
    """
    types = {i: schema[i][1] for i, _ in columns}
    listed = ", ".join(f"{carrier(types[i]).out(quote(name))} AS c{i}" for i, name in columns)
    to.mkdir(parents=True)
    run(
        cursor,
        f"COPY (SELECT {listed or '1 AS nothing'} FROM {relation}) TO {literal(str(to))} "
        f"(FORMAT parquet, COMPRESSION zstd, FILE_SIZE_BYTES {_FILE_BYTES}, OVERWRITE_OR_IGNORE)",
    )


class Exported:
    """Relations that were exported.

    Args:
        spark: a prepared session.
        folders: the folder of each relation by its SQL spelling.
    """

    def __init__(self, spark: SparkSession, folders: Mapping[str, Path]) -> None:
        self._spark = spark
        self._folders = folders

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan as carriers, columns c0, c1, …"""
        pairs = list(zip(scan.columns, scan.schema, strict=True))
        ddl = ", ".join(f"c{i} {carrier(type).spark}" for i, (_, type) in pairs)
        files = str(self._folders[scan.relation])
        frame = self._spark.read.schema(ddl or "nothing INT").parquet(files)
        names = [f"c{i} AS c{n}" for n, (i, _) in enumerate(pairs)]
        return frame.selectExpr(*(names or ["1 AS nothing"]))

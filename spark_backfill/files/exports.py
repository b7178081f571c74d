"""Base relations written as Parquet files of carriers, which Spark reads as they are.

Law: the files have the rows that the exporting cursor saw. Their columns are named by their
positions in the relation: c0, c1, ….
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ivm.spark_backfill.workers.carriers import carrier
from ivm.storage.identifiers import literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, run

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

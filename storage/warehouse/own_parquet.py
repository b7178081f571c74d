"""Reading Parquet files of our own, whatever the folders above them are called.

Law: a file has the columns that were written. DuckDB takes a folder `a=5` for a column `a` of every
file below it, in the place of the one that the file has.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ivm.storage.identifiers import literal


def reading(files: Iterable[Path | str]) -> str:
    """What follows FROM to read the rows of the files, of which there is one at least."""
    listed = ", ".join([literal(str(file)) for file in files])
    return f"read_parquet([{listed}], hive_partitioning = false)"

"""SQL over the columns of one batch of a result.

Law: the instances of DuckDB that compute it are the server's own and know no user's table; opening
one takes longer than most batches.
"""

from __future__ import annotations

import itertools

import pyarrow as pa

from ivm.storage.identifiers import literal
from ivm.storage.scratch import Scratch
from ivm.storage.values.types import importable
from ivm.storage.warehouse.duckdb.duck import run

BATCH = "batch"
"""The relation of the batch; its columns are `c0`, `c1` and so on."""
_ENGINES = itertools.cycle([Scratch("SET arrow_lossless_conversion = true") for _ in range(2)])


def computed(sql: str, batch: pa.Table, zone: str = "UTC") -> pa.Table:
    """The answer to a query.

    Args:
        sql: over `BATCH`.
        batch: the rows, in DuckDB's lossless types.
        zone: the time zone of the query.

    Raises:
        duckdb.Error: an expression fails on a row.
    """
    names = [f"c{i}" for i in range(batch.num_columns)]
    with next(_ENGINES).borrow() as connection:
        run(connection, f"SET TimeZone = {literal(zone)}")
        connection.register(BATCH, importable(batch.rename_columns(names)))
        try:
            return connection.sql(sql).to_arrow_table()
        finally:
            connection.unregister(BATCH)


def without_rows(types: list[str]) -> pa.Table:
    """Columns of these DuckDB types."""
    columns = ", ".join([f"CAST(NULL AS {type}) AS c{i}" for i, type in enumerate(types)])
    with next(_ENGINES).borrow() as connection:
        return connection.sql(f"SELECT {columns} LIMIT 0").to_arrow_table()

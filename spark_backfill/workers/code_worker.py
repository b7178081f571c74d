"""Key codes in Spark's Python workers: rows get the code of their key, by which Spark sorts them.

Law: the codes are those by which arrangements are sorted, computed by the same kernels. So rows
that Spark has sorted by them are made runs as they come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.spark_backfill.workers.worker import Batches, Body, given, opened
from ivm.sql.plan.nodes import numbered
from ivm.storage.values.column import Column
from ivm.storage.values.key_codes import key_codes
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.carried import carried

_ROWS = 1 << 17


def coding_runner(
    body: Body, key: Sequence[ColumnType]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow`: rows in, the same rows and their codes out.

    Args:
        body: its SQL gives the rows' carriers, and after them the key's values of their own types;
            its schema is that of the carriers and the code.
        key: the key's types.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        with opened(body.settings) as connection:
            for batch in own_values(connection, body, iter(batches)):
                yield from _coded(batch, key, body.schema)

    return run


def own_values(connection: duckdb.DuckDBPyConnection, body: Body, batches: Batches) -> Batches:
    """The answer of a body whose values have types of their own, in the order of the rows."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("SET arrow_lossless_conversion = true").fetchall()
        for _ in given(cursor, body.given, batches):
            yield from carried(cursor.sql(body.sql)).to_arrow_reader(_ROWS)


def _coded(batch: pa.RecordBatch, key: Sequence[ColumnType], schema: pa.Schema) -> Batches:
    width = batch.num_columns - len(key)
    keys = from_arrow(batch.select(range(width, batch.num_columns)), numbered(key))
    codes = pa.array(codes_of(keys.columns, key, batch.num_rows))
    arrays = [*batch.columns[:width], codes]
    yield from pa.Table.from_arrays(arrays, names=schema.names).cast(schema).to_batches()


def codes_of(
    columns: Sequence[Column], types: Sequence[ColumnType], count: int
) -> npt.NDArray[np.int64]:
    """The codes of so many keys; without columns there is one key."""
    return key_codes(columns, types).codes if columns else np.zeros(count, np.int64)

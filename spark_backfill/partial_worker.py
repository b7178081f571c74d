"""Partial states of aggregates, computed by our own operators in Spark's Python workers.

Law: the partial states of the partitions of a multiset add up to the state of the whole, lane by
lane, so only groups and their lanes travel, not rows. A worker that has met many groups sends what
it has and begins anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import duckdb
import numpy as np
import pyarrow as pa

from ivm.delta_ops.aggregates.aggregate import Aggregate as AggregateOperator
from ivm.delta_ops.aggregates.aggregate import PartialState
from ivm.spark_backfill.carriers import carrier
from ivm.spark_backfill.worker import Batches, Body, given, opened
from ivm.sql.compile.rules import COMPILE
from ivm.sql.plan.nodes import Aggregate, numbered, types
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, from_arrow, ones
from ivm.storage.warehouse.carried import carried

LABELS, LANES = "labels__", "lanes__"
DDL = f"{LABELS} STRING, {LANES} ARRAY<BIGINT>"
_MOST_GROUPS = 200_000
_ROWS = 1 << 17


def key_types(plan: Aggregate) -> tuple[ColumnType, ...]:
    """The types of the columns that an aggregate groups by."""
    given = types(plan.input)
    return tuple(given[i] for i in plan.groups)


def partial_runner(plan: Aggregate, body: Body) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow`: rows in, partial states out.

    Args:
        plan: the aggregate; of its input only the types are read.
        body: its SQL gives the input's rows of their own types, its schema is the output's.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        with opened(body.settings) as connection:
            operator = COMPILE[Aggregate](plan, connection.cursor).build(())
            assert isinstance(operator, AggregateOperator)
            groups = 0
            for chunk in _rows(connection, body, numbered(types(plan.input)), iter(batches)):
                groups = operator.collect(chunk)
                if groups > _MOST_GROUPS:
                    yield from _sent(connection, plan, operator.take_partial(), body.schema)
                    groups = 0
            if groups:
                yield from _sent(connection, plan, operator.take_partial(), body.schema)

    return run


def _rows(
    connection: duckdb.DuckDBPyConnection, body: Body, schema: Schema, batches: Batches
) -> Iterator[ZSet]:
    """The input's rows in chunks."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("SET arrow_lossless_conversion = true").fetchall()
        for _ in given(cursor, body.given, batches):
            for batch in carried(cursor.sql(body.sql)).to_arrow_reader(_ROWS):
                yield from_arrow(batch, schema).dictionary_encoded()


def _sent(
    connection: duckdb.DuckDBPyConnection,
    plan: Aggregate,
    state: PartialState,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """A partial state as carriers of its keys, and its lanes."""
    count, key = len(state.lanes), key_types(plan)
    arrays: list[pa.Array | pa.ChunkedArray] = []
    if key:
        keys = ZSet(state.keys, ones(count)).to_arrow(numbered(key))
        connection.register("keys__", keys)
        listed = ", ".join(f"{carrier(t).out(f'c{i}')} AS c{i}" for i, t in enumerate(key))
        arrays += connection.sql(f"SELECT {listed} FROM keys__").to_arrow_table().columns
    arrays.append(pa.array([",".join(map(str, state.labels))] * count))
    flat = pa.array(np.ascontiguousarray(state.lanes).ravel())
    offsets = np.arange(count + 1, dtype=np.int32) * len(state.labels)
    arrays.append(pa.ListArray.from_arrays(pa.array(offsets), flat))
    names = [*[f"c{i}" for i in range(len(key))], LABELS, LANES]
    yield from pa.Table.from_arrays(arrays, names=names).cast(schema).to_batches()


def states_of(table: pa.RecordBatch, schema: Schema) -> Iterator[PartialState]:
    """The partial states in rows that were read back, their keys in types of their own.

    Args:
        table: the key columns, the labels and the lanes.
        schema: of the key columns.
    """
    labels = table.column(len(schema)).dictionary_encode()
    codes = labels.indices.to_numpy(zero_copy_only=False)
    for code, text in enumerate(labels.dictionary.to_pylist()):
        chosen = table.take(pa.array(np.flatnonzero(codes == code)))
        keys = from_arrow(chosen.select(range(len(schema))), schema)
        numbers = tuple(map(int, text.split(",")))
        flat = chosen.column(len(schema) + 1).flatten().to_numpy()
        yield PartialState(keys.columns, numbers, flat.reshape(chosen.num_rows, len(numbers)))

"""Partial states of aggregates, computed and added up by our own operators in Spark's workers.

Law: the partial states of the partitions of a multiset add up to the state of the whole, lane by
lane, so only groups and their lanes travel, not rows. A worker that has met many groups sends what
it has and begins anew. Partial states that come sorted by the code of their key are added up with
one code's groups in memory, so that of each group one is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from ivm.delta_ops.aggregates.aggregate import Aggregate as AggregateOperator
from ivm.delta_ops.aggregates.aggregate import PartialState
from ivm.spark_backfill.workers.carriers import carrier
from ivm.spark_backfill.workers.code_worker import codes_of, own_values
from ivm.spark_backfill.workers.worker import CODE, Batches, Body, opened
from ivm.sql.compile.rules import COMPILE
from ivm.sql.plan.nodes import Aggregate, numbered, types
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, from_arrow, ones

LABELS, LANES = "labels__", "lanes__"
DDL = f"{LABELS} STRING, {LANES} ARRAY<BIGINT>"
_MOST_GROUPS = 200_000


def key_types(plan: Aggregate) -> tuple[ColumnType, ...]:
    """The types of the columns that an aggregate groups by."""
    given = types(plan.input)
    return tuple(given[i] for i in plan.groups)


def partial_runner(plan: Aggregate, body: Body) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow`: rows in, partial states and the codes of their keys out.

    Args:
        plan: the aggregate; of its input only the types are read.
        body: its SQL gives the input's rows of their own types, its schema is the output's.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        with opened(body.settings) as connection:
            states = _States(connection, plan, body.schema)
            groups = 0
            schema = numbered(types(plan.input))
            for batch in own_values(connection, body, iter(batches)):
                chunk = from_arrow(batch, schema).dictionary_encoded()
                groups = states.operator.collect(chunk)
                if groups > _MOST_GROUPS:
                    yield from states.sent()
                    groups = 0
            if groups:
                yield from states.sent()

    return run


def adding_runner(plan: Aggregate, body: Body) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow`: partial states in, sorted by code; one of each group out.

    Args:
        plan: the aggregate; of its input only the types are read.
        body: its SQL gives the keys of their own types, the labels, the lanes and the code; its
            schema is the output's.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        with opened(body.settings) as connection:
            states = _States(connection, plan, body.schema)
            last: int | None = None
            for batch in own_values(connection, body, iter(batches)):
                codes = batch.column(batch.num_columns - 1).to_numpy()
                cut = int(codes.searchsorted(codes[-1]))  # of the last code more may come
                states.add(batch.slice(0, cut))
                if cut or last not in (None, codes[0]):
                    yield from states.sent()
                states.add(batch.slice(cut))
                last = codes[-1]
            if last is not None:
                yield from states.sent()

    return run


@dataclass
class _States:
    """The operator of a worker, and how its state is sent.

    Attributes:
        connection: for the carriers of the keys.
        plan: the aggregate.
        schema: of what is sent: the keys' carriers, the labels, the lanes, and the code if it is
            asked for.
    """

    connection: duckdb.DuckDBPyConnection
    plan: Aggregate
    schema: pa.Schema

    def __post_init__(self) -> None:
        operator = COMPILE[Aggregate](self.plan, self.connection.cursor).build(())
        assert isinstance(operator, AggregateOperator)
        self.operator = operator

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds partial states."""
        if batch.num_rows:
            for state in states_of(batch, numbered(key_types(self.plan))):
                self.operator.add_partial(state)

    def sent(self) -> Iterator[pa.RecordBatch]:
        """The state, which is empty afterwards: the carriers of its keys, and its lanes."""
        state, key = self.operator.take_partial(), key_types(self.plan)
        count = len(state.lanes)
        arrays: list[pa.Array | pa.ChunkedArray] = []
        if key:
            keys = ZSet(state.keys, ones(count)).to_arrow(numbered(key))
            self.connection.register("keys__", keys)
            listed = ", ".join(f"{carrier(t).out(f'c{i}')} AS c{i}" for i, t in enumerate(key))
            arrays += self.connection.sql(f"SELECT {listed} FROM keys__").to_arrow_table().columns
        arrays.append(pa.array([",".join(map(str, state.labels))] * count))
        flat = pa.array(np.ascontiguousarray(state.lanes).ravel())
        offsets = np.arange(count + 1, dtype=np.int32) * len(state.labels)
        arrays.append(pa.ListArray.from_arrays(pa.array(offsets), flat))
        if CODE in self.schema.names:
            arrays.append(pa.array(codes_of(state.keys, key, count)))
        table = pa.Table.from_arrays(arrays, names=self.schema.names)
        yield from table.cast(self.schema).to_batches()


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

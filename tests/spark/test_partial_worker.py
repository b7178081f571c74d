"""Partial states are added up in the workers: one of each group is left, however rows are parted.

The workers' functions are called as Spark calls them, without Spark. The oracle is the state that
the operator builds of all rows at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.aggregates.aggregate import Aggregate as AggregateOperator
from ivm.spark_backfill.workers import partial_worker
from ivm.spark_backfill.workers.partial_worker import LABELS, LANES, adding_runner, partial_runner
from ivm.spark_backfill.workers.worker import CODE, GIVEN, Body
from ivm.sql.compile.rules import COMPILE
from ivm.sql.plan.nodes import Aggregate, Values, numbered, types
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import nodes
from ivm.storage.values import hashing
from ivm.storage.values.zset import from_arrow
from tests.delta_ops.test_partial_states import state
from tests.support import plans
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=2)

KEYS = {"one": "k", "two": "g, k", "text": "g", "none": ""}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from([0, 1, 2**40, -1, None]),
        st.sampled_from([0, 7, -(2**50), 2**50, None]),
    ),
    max_size=30,
)
CUTS = st.lists(st.integers(0, 30), max_size=4)


@pytest.fixture(scope="module")
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        connection.execute("CREATE TABLE t (g VARCHAR, k BIGINT, v BIGINT)")
        yield connection


def cut(table: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    """The rows in pieces, some of them empty."""
    bounds = [0, *sorted(min(c, table.num_rows) for c in cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=examples(60), deadline=None)
@given(rows=ROWS, parts=CUTS, batches=CUTS, partitions=st.integers(1, 3), data=st.data())
def test_one_state_of_each_group_is_left(
    keys: str,
    cursor: duckdb.DuckDBPyConnection,
    rows: list[tuple[str | None, int | None, int | None]],
    parts: list[int],
    batches: list[int],
    partitions: int,
    data: st.DataObject,
) -> None:
    whole = hashing.hash_rows
    hashes = data.draw(st.sampled_from([1, 2, 1 << 62]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "hash_rows", lambda *given: whole(*given) % hashes)
        patch.setattr(partial_worker, "_MOST_GROUPS", data.draw(st.integers(1, 5)))
        check(KEYS[keys], cursor, rows, parts, batches, partitions)


def check(
    keys: str,
    cursor: duckdb.DuckDBPyConnection,
    rows: list[tuple[str | None, int | None, int | None]],
    parts: list[int],
    batches: list[int],
    partitions: int,
) -> None:
    listed = f"{keys}, " if keys else ""
    query = f"SELECT {listed}count(*), sum(v), avg(v), var_pop(v) FROM t"
    plan = plans.planned(query + (f" GROUP BY {keys}" if keys else ""), cursor)
    (aggregate,) = [node for node in nodes(plan) if isinstance(node, Aggregate)]
    cursor.execute("DELETE FROM t").fetchall()
    if rows:
        cursor.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    table = cursor.sql(render(aggregate.input)).to_arrow_table()
    found = added_up(aggregate, table, parts, batches, partitions)

    def operator() -> AggregateOperator:
        made = COMPILE[Aggregate](aggregate, cursor.cursor).build(())
        assert isinstance(made, AggregateOperator)
        return made

    expected, made = operator(), operator()
    chunk = from_arrow(table, numbered(types(aggregate.input)))
    expected.hydrate(lambda _: iter([chunk]))
    schema = numbered(partial_worker.key_types(aggregate))
    made.absorb(s for batch in found.to_batches() for s in partial_worker.states_of(batch, schema))
    assert state(made) == state(expected)
    groups = len(set(zip(*[table.column(i).to_pylist() for i in aggregate.groups], strict=True)))
    assert found.num_rows == (groups if keys else min(len(rows), 1))


def added_up(
    aggregate: Aggregate, table: pa.Table, parts: list[int], batches: list[int], partitions: int
) -> pa.Table:
    """What the workers leave of the rows of a table."""
    stub = replace(aggregate, input=Values((), numbered(types(aggregate.input))))
    keys = [pa.field(f"c{n}", table.schema.field(i).type) for n, i in enumerate(aggregate.groups)]
    lanes = [(LABELS, pa.large_string()), (LANES, pa.large_list(pa.int64()))]
    left, coded = pa.schema([*keys, *lanes]), pa.schema([*keys, *lanes, (CODE, pa.int64())])
    first = partial_runner(stub, Body((), f"FROM {GIVEN}", coded, table.schema, (), False))
    sent = pa.Table.from_batches(
        [batch for part in cut(table, parts) for batch in first(part.to_batches())], coded
    ).sort_by(CODE)
    second = adding_runner(stub, Body((), f"FROM {GIVEN}", left, coded, (), False))
    codes = sent.column(CODE).to_numpy()
    out = []
    for number in range(partitions):  # rows of one code are in one partition
        mine = sent.take(pa.array(np.flatnonzero(codes % partitions == number)))
        out += list(second(b for piece in cut(mine, batches) for b in piece.to_batches()))
    return pa.Table.from_batches(out, left)

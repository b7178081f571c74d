"""Memory is given back: by what a commit no longer needs, and by state whose rows are gone."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import ivm
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.linear.union import UnionAll
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import ArrowColumn, FixedColumn
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet

BIGINT, VARCHAR = type_of("BIGINT"), type_of("VARCHAR")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the garbage collector only what nothing refers to is freed: circles stay."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.full
@pytest.mark.usefixtures("no_collector")
def test_the_strings_of_a_commit_go_with_it() -> None:
    """Columns of ever new texts held themselves until a collection."""
    count = 5_000

    def stream(db: ivm.Database, number: int) -> None:
        keys = list(range(number * count, (number + 1) * count))
        db.insert("t", {"id": keys, "s": [f"never seen before {key}" for key in keys]})
        db.execute("FROM v, t LIMIT 1").fetchall()  # DuckDB has it all then
        db.delete("t", {"id": keys})
        db.execute("FROM v, t LIMIT 1").fetchall()

    with ivm.connect() as db:
        db.execute("CREATE TABLE t(id BIGINT PRIMARY KEY, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT max(s) AS s, count(*) AS n FROM t")
        for number in range(4):
            stream(db, number)
        before = pa.total_allocated_bytes()
        for number in range(4, 14):
            stream(db, number)
        assert pa.total_allocated_bytes() - before < 3 * count * len("never seen before 12345")


def test_ordered_state_shrinks_with_its_rows() -> None:
    """A block that stayed held all blocks that were made with it."""
    count = 50_000
    ids = np.arange(count)
    rows = ArrowColumn(pa.array([f"text {i:6}" for i in ids], pa.large_string()))
    held = SortedRows.build(
        (BIGINT, VARCHAR),
        (OrderTerm(0, BIGINT),),
        [ZSet((FixedColumn(ids), rows), np.ones_like(ids))],
    )
    first = held.blocks[0]
    for column in first.columns:
        assert _bytes_held(column) < 2 * column.nbytes + 64


def _bytes_held(column: FixedColumn | ArrowColumn) -> int:
    """Bytes of the buffers behind a column, whole."""
    if isinstance(column, ArrowColumn):
        return sum(buffer.size for buffer in column.array.buffers() if buffer is not None)
    base = column.values
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base.nbytes


def test_plans_of_steps_are_bounded() -> None:
    """One was kept for every set of tables that ever changed together."""
    circuit = Circuit()
    sources = [circuit.source(f"t{i}", (BIGINT,)) for i in range(10)]
    circuit.output("v", circuit.add("all", lambda _: UnionAll((BIGINT,), (False,) * 10), sources))
    row = ZSet((FixedColumn(np.zeros(1, np.int64)),), np.ones(1, np.int64))
    for number in range(1, 1 << 10):
        changes = {f"t{i}": row for i in range(10) if number >> i & 1}
        assert circuit.step(changes)["v"].weights.sum() == len(changes)
        circuit.rollback()
    assert len(circuit._schedules) <= 256

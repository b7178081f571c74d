"""Times of steps inside circuits alone: no log, no DuckDB, no SQL.

V1: filtered orders ⋈ customers, GROUP BY region, segment with count and sum.
V3: per customer max, min and count(distinct status). V4: the latest three orders per customer.
Transactions are 60 % new orders, 20 % updates, 10 % deletes, 10 % customers that move.

    python benchmarks/micro/micro_circuit.py [orders] [--double] [V1 V3 V4]
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlglot

from ivm.delta_ops.aggregates.aggregate import Aggregate
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join
from ivm.delta_ops.linear.filter import Filter
from ivm.delta_ops.ordered.topk import TopK
from ivm.sql.scalar.compile import compile_predicate
from ivm.storage.values.column import ArrowColumn, FixedColumn
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, add

Ints = npt.NDArray[np.int64]

_CHUNK = 122_880 * 4
_REGIONS = pa.array([f"region {i}" for i in range(25)], pa.large_string())
_SEGMENTS = pa.array([f"segment {i}" for i in range(5)], pa.large_string())
_STATUS = pa.array(["open", "paid", "sent", "void"], pa.large_string())


class Shop:
    """The tables as arrays, and a stream of transactions on them."""

    def __init__(self, orders: int, double: bool) -> None:
        self.rng = np.random.default_rng(7)
        self.double = double
        self.customers = max(orders // 10, 1)
        self.region = self.rng.integers(0, 25, self.customers)
        self.segment = self.rng.integers(0, 5, self.customers)
        room = orders + 4_000_000
        self.count = orders
        self.customer = np.zeros(room, np.int64)
        self.cents = np.zeros(room, np.int64)
        self.status = np.zeros(room, np.int64)
        self.live = np.zeros(room, np.bool_)
        self._fill(np.arange(orders))
        amount = type_of("DOUBLE" if double else "DECIMAL(18,2)")
        big, text, stamp = type_of("BIGINT"), type_of("VARCHAR"), type_of("TIMESTAMP")
        self.order_types = (big, big, amount, text, stamp)
        self.customer_types = (big, text, text)

    def _fill(self, ids: Ints) -> None:
        self.customer[ids] = self.rng.integers(0, self.customers, len(ids))
        self.cents[ids] = self.rng.integers(100, 100_000, len(ids))
        self.status[ids] = self.rng.integers(0, 4, len(ids))
        self.live[ids] = True

    def order_rows(self, ids: Ints, weight: int) -> ZSet:
        amount = self.cents[ids] / 100.0 if self.double else self.cents[ids]
        columns = (
            FixedColumn(ids),
            FixedColumn(self.customer[ids]),
            FixedColumn(amount),
            ArrowColumn(_STATUS.take(pa.array(self.status[ids]))),
            FixedColumn(ids * 1_000_000),
        )
        return ZSet(columns, np.full(len(ids), weight)).dictionary_encoded()

    def customer_rows(self, ids: Ints, weight: int) -> ZSet:
        columns = (
            FixedColumn(ids),
            ArrowColumn(_REGIONS.take(pa.array(self.region[ids]))),
            ArrowColumn(_SEGMENTS.take(pa.array(self.segment[ids]))),
        )
        return ZSet(columns, np.full(len(ids), weight)).dictionary_encoded()

    def chunks(self, orders: bool) -> Iterator[ZSet]:
        total, rows = (
            (self.count, self.order_rows) if orders else (self.customers, self.customer_rows)
        )
        for start in range(0, total, _CHUNK):
            yield rows(np.arange(start, min(start + _CHUNK, total)), 1)

    def transaction(self, size: int, kind: float | None = None) -> dict[str, ZSet]:
        draws = self.rng.random(size) if kind is None else np.full(size, kind)
        fresh = int((draws < 0.6).sum())
        new = np.arange(self.count, self.count + fresh)
        self.count += fresh
        self._fill(new)
        old = np.unique(self.rng.integers(0, self.count - fresh, size - fresh))
        old = old[self.live[old]]
        updates = old[: int((draws[draws >= 0.6] < 0.8).sum())]
        deletes = old[len(updates) :][: int(((draws >= 0.8) & (draws < 0.9)).sum())]
        parts = [self.order_rows(np.concatenate([updates, deletes]), -1)]
        self.live[deletes] = False
        self.cents[updates] += 1
        parts.append(self.order_rows(np.concatenate([updates, new]), 1))
        moving = np.unique(self.rng.integers(0, self.customers, int((draws >= 0.9).sum())))
        moved = [self.customer_rows(moving, -1)]
        self.region[moving] = (self.region[moving] + 1) % 25
        moved.append(self.customer_rows(moving, 1))
        return {"orders": add(parts), "customers": add(moved)}


def filtered(circuit: Circuit, shop: Shop) -> int:
    orders = circuit.source("orders", shop.order_types)

    condition = sqlglot.parse_one("c3 <> 'void'", dialect="duckdb")
    unpaid = compile_predicate(condition, shop.order_types)
    assert unpaid is not None
    kept = [shop.order_types[i] for i in (1, 2)]
    return circuit.add("filter", lambda _: Filter(unpaid, kept, [1, 2]), [orders])


def v1(circuit: Circuit, shop: Shop) -> int:
    left = filtered(circuit, shop)
    kept = circuit.node(left).operator.types
    right = circuit.source("customers", shop.customer_types)
    arranged = [
        circuit.add("left", lambda _: Arrange(kept, [0]), [left]),
        circuit.add("right", lambda _: Arrange(shop.customer_types, [0]), [right]),
    ]
    joined = circuit.add("join", lambda ops: Join(ops[0], ops[1], [3, 4, 1]), arranged)  # type: ignore[arg-type]
    types = circuit.node(joined).operator.types
    total = type_of("DOUBLE" if shop.double else "DECIMAL(38,2)")
    calls = [
        AggregateSpec("count_star", type_of("BIGINT")),
        AggregateSpec("sum", total, 2, types[2]),
    ]
    return circuit.add("aggregate", lambda _: Aggregate(types, [0, 1], calls), [joined])


def v3(circuit: Circuit, shop: Shop) -> int:
    orders = circuit.source("orders", shop.order_types)
    types = shop.order_types
    calls = [
        AggregateSpec("max", types[2], 2, types[2]),
        AggregateSpec("min", types[2], 2, types[2]),
        AggregateSpec("count", type_of("BIGINT"), 3, types[3], distinct=True),
    ]
    return circuit.add("aggregate", lambda _: Aggregate(types, [1], calls), [orders])


def v4(circuit: Circuit, shop: Shop) -> int:
    orders = circuit.source("orders", shop.order_types)
    types = shop.order_types
    order = [OrderKey(4, True, False)]
    return circuit.add("topk", lambda _: TopK(types, [1], order, 3, rank_column=True), [orders])


VIEWS: dict[str, Callable[[Circuit, Shop], int]] = {"V1": v1, "V3": v3, "V4": v4}


def hydrate(circuit: Circuit, shop: Shop, sources: dict[int, str]) -> None:
    """Give every stateful operator its input, computed without the circuit where it is a join."""

    def fetch(node: int) -> Iterator[ZSet]:
        if node in sources:
            yield from shop.chunks(sources[node] == "orders")
            return
        operator = circuit.node(node).operator
        if isinstance(operator, Filter):
            for chunk in shop.chunks(orders=True):
                yield operator.step((chunk,))
            return
        for chunk in shop.chunks(orders=True):
            live = chunk.filter(shop.status[chunk.columns[0].values] != 3)  # type: ignore[union-attr]
            customers = shop.customer_rows(live.columns[1].values, 1)  # type: ignore[union-attr]
            yield ZSet((*customers.columns[1:], live.columns[2]), live.weights)

    for node in circuit.needs_hydration():
        start = time.perf_counter()
        circuit.hydrate(fetch, [node])
        took = time.perf_counter() - start
        operator = circuit.node(node).operator
        print(
            f"  hydrate {operator.describe():45s} {took:6.2f} s"
            f"  {operator.state_bytes() / 1e6:8.1f} MB"
        )


def measure(circuit: Circuit, shop: Shop, size: int, repeats: int) -> None:
    gc.collect()
    times, cpu = [], []
    for _ in range(repeats):
        changes = shop.transaction(size)
        start, start_cpu = time.perf_counter(), time.thread_time()
        circuit.step(changes)
        circuit.commit()
        times.append((time.perf_counter() - start) * 1e3)
        cpu.append((time.thread_time() - start_cpu) * 1e3)
    middle, tail = np.percentile(times, [50, 99])
    print(
        f"  {size:6d} changes: p50 {middle:8.3f} ms, p99 {tail:8.3f} ms;"
        f" of its own thread p50 {np.median(cpu):8.3f} ms"
    )


def main(arguments: list[str]) -> None:
    numbers = [int(float(a)) for a in arguments if a[0].isdigit()]
    names = [a for a in arguments if a in VIEWS] or list(VIEWS)
    double = "--double" in arguments
    for name in names:
        shop = Shop(numbers[0] if numbers else 1_000_000, double)
        circuit = Circuit()
        circuit.output(name, VIEWS[name](circuit, shop))
        print(f"{name}, {shop.count:,} orders, amount {'DOUBLE' if double else 'DECIMAL'}")
        hydrate(circuit, shop, {n: s for s, n in circuit.sources.items()})
        for size, repeats in ((1, 2000), (100, 300), (10_000, 30)):
            measure(circuit, shop, size, repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak RSS {peak:.2f} GB")


if __name__ == "__main__":
    main(sys.argv[1:])

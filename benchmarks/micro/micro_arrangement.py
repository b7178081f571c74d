"""Micro-benchmark of hashing, consolidation and arrangements.

    python -m benchmarks.micro.micro_arrangement [rows]

prints the time of each basic step (best of several, microseconds where small) on an arrangement of
`rows` (default 10 000 000) rows with four columns, two of them strings, keyed by the first.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.arrangement.arrangement import Arrangement, Layout, OrderKey
from ivm.storage.values.column import ArrowColumn, FixedColumn
from ivm.storage.values.consolidate import consolidate, group
from ivm.storage.values.hashing import hash_rows
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet

TYPES = (type_of("BIGINT"), type_of("VARCHAR"), type_of("VARCHAR"), type_of("DOUBLE"))


REGIONS = pa.array([f"region {i}" for i in range(1000)], pa.large_string())
NAMES = pa.array([f"customer#{i:09d}" for i in range(100_000)], pa.large_string())


def batch(keys: npt.ArrayLike, values: npt.ArrayLike = 0.0) -> ZSet:
    """Rows of the four columns with the given keys and values, and weight 1."""
    numbers = np.asarray(keys, np.int64)
    columns = (
        FixedColumn(numbers),
        ArrowColumn(REGIONS.take(pa.array(numbers % len(REGIONS)))),
        ArrowColumn(NAMES.take(pa.array(numbers % len(NAMES)))),
        FixedColumn(np.broadcast_to(np.asarray(values, np.float64), numbers.shape).copy()),
    )
    return ZSet(columns, np.ones(len(numbers), np.int64))


def show(name: str, step: Callable[[], object], repeat: int, per: int = 1) -> None:
    """Print the best time of one call (divided by `per`)."""
    step()
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    print(f"{name:<58} {best / per * 1e6:14,.1f} µs", flush=True)


def hashing() -> None:
    many = batch(np.arange(1_000_000))
    one = many.slice(7, 8)
    show("hash 1 short string", lambda: hash_rows(one.columns[1:2], TYPES[1:2], True), 2000)
    show("hash 1 row of 4 columns", lambda: hash_rows(one.columns, TYPES, True), 2000)
    show("hash 1 000 000 strings", lambda: hash_rows(many.columns[2:3], TYPES[2:3], True), 3)
    for count in (2, 10_000, 1_000_000):
        part = many.slice(0, count)
        show(f"consolidate {count:,} rows", partial(consolidate, part, TYPES), 5)
        strings = partial(group, part.columns[1:3], TYPES[1:3])
        show(f"group {count:,} rows by 2 strings", strings, 5)


def build(rows: int) -> Arrangement:
    rng = np.random.default_rng(1)
    keys = rng.integers(0, rows, rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    narrow = ZSet((FixedColumn(keys), FixedColumn(keys * 0.5)), np.ones(rows, np.int64))
    built = Arrangement.build(Layout((TYPES[0], TYPES[3]), (0,)), [narrow])
    seconds = time.perf_counter() - start
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"build {rows:,} rows of 2 columns: {seconds:.2f} s, {built.nbytes / 2**20:,.0f} MiB held, "
        f"peak grew by {peak:,.0f} MiB"
    )
    del built, narrow
    gc.collect()
    start = time.perf_counter()
    size = 1_000_000
    chunks = (batch(keys[i : i + size]) for i in range(0, rows, size))
    built = Arrangement.build(Layout(TYPES, (0,)), chunks)
    print(f"build {rows:,} rows of 4 columns: {time.perf_counter() - start:.2f} s")
    return built


def appends(store: Arrangement) -> Arrangement:
    rows = [batch([i]) for i in range(100)]
    store = timed("append 1 row", store, [rows[i % 100] for i in range(30_000)])
    rng = np.random.default_rng(4)
    deltas = [batch(rng.integers(0, 10**7, 10_000)) for _ in range(100)]
    return timed("append 10 000 rows", store, deltas)


def timed(name: str, store: Arrangement, deltas: list[ZSet]) -> Arrangement:
    times = []
    for delta in deltas:
        start = time.perf_counter()
        store = store.append(delta)
        times.append((time.perf_counter() - start) * 1e6)
    p50, p99 = np.quantile(times, [0.5, 0.99])
    print(
        f"{name}: mean {np.mean(times):,.1f} µs, p50 {p50:,.1f}, p99 {p99:,.1f}, "
        f"max {max(times):,.0f}; {len(store.runs)} runs"
    )
    return store


def lookups(name: str, store: Arrangement, rows: int) -> None:
    one = [FixedColumn(np.array([rows // 2]))]
    many = [FixedColumn(np.random.default_rng(2).integers(0, rows, 10_000))]
    count = len(store.runs)
    show(f"{name}: lookup of 1 key in {count} runs", lambda: store.lookup(one), 2000)
    show(f"{name}: lookup of 10 000 keys in {count} runs", lambda: store.lookup(many), 5)
    show(f"{name}: lookup_live of 10 000 keys", lambda: store.lookup_live(many), 5)


def firsts() -> None:
    rng = np.random.default_rng(3)
    store = Arrangement.empty(Layout(TYPES, (0,), (OrderKey(3, True, False),)))
    deltas = [batch(rng.integers(0, 100_000, 10_000), rng.random(10_000)) for _ in range(100)]
    store = timed("append 10 000 rows in order", store, deltas)
    one, many = [FixedColumn(np.array([77]))], [FixedColumn(np.arange(10_000))]
    for k in (1, 3):
        show(f"first {k} of 1 key in {len(store.runs)} runs", partial(store.first, one, k), 200)
        show(f"first {k} of 10 000 keys", partial(store.first, many, k), 3)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    hashing()
    store = build(rows)
    lookups("fresh", store, rows)
    store = appends(store)
    lookups("grown", store, rows)
    del store
    firsts()


if __name__ == "__main__":
    main()

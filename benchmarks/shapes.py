"""Time one step of the circuit for each kind of operator: `python -m benchmarks.shapes`.

A change is an insertion (60 %), an update or a deletion (20 % each) among the latest hundred rows,
as in a stream of events; what a window must show anew is then a few rows and not half a table. The
clock is around the circuit's step alone; every view is verified at the end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import ivm
from benchmarks.harness.maintain import verify
from benchmarks.harness.page import Page
from benchmarks.harness.shape_cases import SHAPES, STATUSES, Shape
from ivm.storage.values.zset import ZSet

LIMIT_MS, LIMIT_GROWTH = 1.0, 1.5
STEPS = {1: 300, 100: 30, 10_000: 5}
HEAD = ("view", "rows", "1 row p50", "p99", "growth", "100 rows", "10 000 rows", "recompute", "")
RECENT = 100
Rows = dict[str, np.ndarray[Any, Any]]
Change = tuple[str, str, Rows]


class Feed:
    """An endless stream of changes to a shape's tables.

    Args:
        shape: whose tables.
        count: rows at the start.
        seed: of the choices.
    """

    def __init__(self, shape: Shape, count: int, seed: int) -> None:
        self._tree = "edges" in shape.tables
        self._next = count + 1
        self._count = count
        self._live = list(range(max(1, count - RECENT), count))
        self._random = np.random.default_rng(seed)

    def transaction(self, size: int) -> list[Change]:
        """Insertions, updates and deletions of `size` rows in all."""
        old = self._random.permutation(len(self._live))[: max(0, size - size * 6 // 10)]
        if size == 1:
            old = old[: int(self._random.random() < 0.4)]
        picked = [self._live[i] for i in old]
        updated, deleted = picked[::2], picked[1::2]
        if size == 1 and self._random.random() < 0.5:
            updated, deleted = deleted, updated
        new = list(range(self._next, self._next + size - len(picked)))
        self._next += len(new)
        gone = set(deleted)
        kept = max(RECENT, size)
        self._live = [i for i in [*self._live, *new] if i not in gone][-kept:]
        table = "edges" if self._tree else "facts"
        key = "child" if self._tree else "id"
        changes = [
            ("insert", table, self._rows(new)),
            ("upsert", table, self._rows(updated)),
            ("delete", table, {key: np.array(deleted, np.int64)}),
        ]
        return [c for c in changes if len(next(iter(c[2].values())))]

    def _rows(self, ids: list[int]) -> Rows:
        given = np.array(ids, np.int64)
        if self._tree:
            parents = self._random.integers(0, max(1, self._count), len(ids))
            return {"child": given, "parent": parents}
        draw = self._random.integers
        return {
            "id": given,
            "k": draw(0, max(1, self._count // 10), len(ids)),
            "g": given % max(1, self._count // 100_000),
            "v": draw(0, 100_000, len(ids)),
            "status": np.array(STATUSES)[draw(0, len(STATUSES), len(ids))],
            "ts": np.datetime64("2024-01-01", "us") + given * np.timedelta64(1, "s"),
        }


def commit(db: ivm.Database, changes: list[Change]) -> None:
    """One transaction through the public calls."""
    with db.transaction():
        for kind, table, rows in changes:
            arrow = pa.table(dict(rows))
            if "v" in rows:
                cents = pa.array(rows["v"] / 100).cast(pa.decimal128(12, 2))
                arrow = arrow.set_column(arrow.schema.get_field_index("v"), "v", cents)
            getattr(db, kind)(table, arrow)


def measure(shape: Shape, count: int) -> dict[str, float]:
    """Milliseconds of a step at each size, and of DuckDB's recomputation."""
    with ivm.connect() as db:
        db.execute(shape.tables.replace("$n", str(count)))
        db.execute(f"CREATE MATERIALIZED VIEW shape AS {shape.query}")
        feed = Feed(shape, count, seed=7)
        commit(db, feed.transaction(1))
        times = _clocked(db)
        numbers: dict[str, float] = {}
        for size, steps in STEPS.items():
            times.clear()
            numbers[f"p50 {size}"] = numbers[f"p99 {size}"] = float("nan")  # recomputed: no step
            for _ in range(steps):
                commit(db, feed.transaction(size))
            if times:
                numbers[f"p50 {size}"], numbers[f"p99 {size}"] = np.percentile(times, [50, 99])
        verify(db, "shape")
        numbers["recompute"] = min(_timed(lambda: db.execute(shape.query).arrow()) for _ in "123")
    return numbers


def _clocked(db: ivm.Database) -> list[float]:
    """Milliseconds of every step from now on."""
    times: list[float] = []
    circuit = db._engine.maintenance.circuit
    step = circuit.step

    def clocked(changes: Mapping[str, ZSet], only: Any = None) -> dict[str, ZSet]:
        start = time.perf_counter()
        deltas = step(changes, only)
        times.append((time.perf_counter() - start) * 1e3)
        return deltas

    circuit.step = clocked  # type: ignore[method-assign]
    return times


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def lines(shape: Shape, counts: list[int]) -> Iterator[tuple[str, ...]]:
    """The table's lines of one shape, told as they come."""
    first = None
    for count in counts:
        numbers = measure(shape, count)
        one = numbers["p50 1"]
        first = first or one
        kept = one <= LIMIT_MS and one / first <= LIMIT_GROWTH
        shown = [one, numbers["p99 1"], None, numbers["p50 100"], numbers["p50 10000"]]
        texts = [f"{one / first:.2f} ×" if v is None else f"{v:.3g} ms" for v in shown]
        line = (shape.name, f"{count:,}", *texts, f"{numbers['recompute']:.3g} ms")
        yield (*line, "yes" if kept else "no")


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    options = parser.parse_args()
    page = Page("shapes.md")
    for head in (HEAD, ("---",) * len(HEAD)):
        page.add(f"| {' | '.join(head)} |")
    for shape in SHAPES:
        if options.only in shape.name:
            for line in lines(shape, [int(n) for n in options.rows]):
                page.add(f"| {' | '.join(line)} |")
    if not options.only:
        page.keep()


if __name__ == "__main__":
    main()

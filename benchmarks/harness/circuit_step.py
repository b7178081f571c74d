"""A benchmark cell of the circuit alone: the time of its steps, without checks, log, adoption."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ivm
from benchmarks.harness import stream
from benchmarks.harness.cells import Cell, peak_bytes
from benchmarks.harness.maintain import commit
from benchmarks.harness.workload import VIEWS
from ivm.storage.values.zset import ZSet


def measure(cell: Cell, file: Path, transactions: Sequence[stream.Transaction]) -> dict[str, Any]:
    """Commit the stream as users do, with a clock around the circuit's step."""
    times: list[float] = []
    with ivm.connect(str(file), durability=cell.durability) as db:
        for name in cell.views:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        for transaction in transactions[: cell.warmup]:
            commit(db, transaction)
        circuit = db._engine.maintenance.circuit
        step = circuit.step

        def clocked(changes: Mapping[str, ZSet], only: Any = None) -> dict[str, ZSet]:
            start = time.perf_counter()
            deltas = step(changes, only)
            times.append(time.perf_counter() - start)
            return deltas

        circuit.step = clocked  # type: ignore[method-assign]
        for transaction in transactions[cell.warmup :]:
            commit(db, transaction)
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    changes = sum(map(stream.changes_in, transactions[cell.warmup :]))
    return {
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": max(times) * 1e3,
        "timed": len(times),
        "changes_per_s": changes / sum(times),
        "peak_bytes": peak_bytes(),
    }

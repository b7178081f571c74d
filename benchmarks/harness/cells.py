"""What a benchmark cell is, and the clock that every engine's cell runs under."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import stream


@dataclass(frozen=True)
class Cell:
    """What to measure.

    Attributes:
        engine: "maintain" (ivm), "recompute" (plain DuckDB, each transaction refreshes the view)
            or "circuit_step" (ivm, but only the circuit is timed).
        orders: rows of `orders` at the start.
        views: keys of `workload.VIEWS`.
        size: changes a transaction.
        transactions: how many are timed.
        warmup: how many go before, untimed (the first of all is timed apart); at least 1.
        durability: as for `ivm.connect`.
        read: read the first view after each commit, as part of the time.
        amount: a key of `workload.AMOUNT_TYPES`.
        seconds: a cell that takes longer stops early.
    """

    engine: str
    orders: int
    views: tuple[str, ...]
    size: int
    transactions: int
    warmup: int = 1
    durability: str = "commit"
    read: bool = False
    amount: str = "double"
    seconds: float = 60.0

    @property
    def stream_key(self) -> str:
        """A name of the change stream it takes."""
        return f"{self.orders}-{self.amount}-{self.size}-{self.transactions + self.warmup}"


def timed(
    cell: Cell,
    transactions: Sequence[stream.Transaction],
    commit: Callable[[stream.Transaction], None],
    finish: Callable[[], None],
) -> dict[str, Any]:
    """Commit each transaction in turn.

    Args:
        cell: its `seconds` limit the run.
        transactions: those to be timed.
        commit: makes one transaction durable (and reads, if the cell reads).
        finish: does what commits have put off; its time counts for the throughput.

    Returns:
        Percentiles of the commits in milliseconds, and changes a second over all.
    """
    times: list[float] = []
    changes = 0
    begin = time.perf_counter()
    for transaction in transactions:
        start = time.perf_counter()
        commit(transaction)
        end = time.perf_counter()
        times.append(end - start)
        changes += stream.changes_in(transaction)
        if end - begin > cell.seconds:
            break
    finish()
    elapsed = time.perf_counter() - begin
    p50, p99 = np.percentile(times, [50, 99]) * 1e3
    return {
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "max_ms": max(times) * 1e3,
        "timed": len(times),
        "changes_per_s": changes / elapsed,
    }


def peak_bytes() -> int:
    """The greatest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB

"""A process that fills a view on Spark and kills itself at a point of the job.

Its arguments: the database, the point (module or class, and function), and at which call. Meanwhile
it inserts rows; each is told once it is committed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import ivm
from ivm.backfill import job
from ivm.backfill.hand_over import HandOver
from ivm.spark_backfill.stages import Staging
from ivm.storage.warehouse.warehouse import Warehouse
from tests.support.spark import OPTIONS

OWNERS: dict[str, Any] = {
    "job": job, "HandOver": HandOver, "Staging": Staging, "Warehouse": Warehouse
}  # fmt: skip


def die_at(owner: Any, name: str, call: int) -> None:
    """Lets the process be killed at the so many-th call of a function, from 1."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, counted)


def main() -> None:
    path, owner, name, call = sys.argv[1:5]
    with ivm.connect(path, spark=OPTIONS) as db:
        die_at(OWNERS[owner], name, int(call))
        stop = threading.Event()

        def write() -> None:
            first = 1_000_000 + 10_000 * os.getpid()
            for number in range(first, first + 9_000):
                if stop.wait(0.002):
                    return
                db.insert("orders", [{"id": number, "customer": number % 9, "amount": 1}])
                print(number, flush=True)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            db.backfill("v")
        finally:
            stop.set()
            writer.join()


if __name__ == "__main__":
    main()

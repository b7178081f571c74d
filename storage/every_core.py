"""Work on the parts of columns by every core at once.

Contract: numpy and Arrow let other threads run while a kernel passes over some ten thousand rows,
so parts are to have as many. The work on one must not depend on that on another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_FEW = 4
"""Parts that are done sooner than threads have started."""


def on_every_core(work: Callable[[T], R], parts: Sequence[T]) -> Generator[R, None, None]:
    """What the work gives for each part, in their order.

    Args:
        work: runs in several threads; what it raises is raised here.
        parts: those behind the last result that is asked for may be left out.
    """
    threads = min(os.cpu_count() or 1, len(parts))
    if threads == 1 or len(parts) < _FEW:
        yield from map(work, parts)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(work, parts)
    finally:
        pool.shutdown(cancel_futures=True)

"""Deep recursion: work that does not fit the caller's stack runs once more on a large one.

Limit: Python has one bound for all threads; it is raised while the deep one runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")

_BYTES = 512 << 20
_FRAMES = 100_000
_one = threading.Lock()


def deeply(work: Callable[[], Answer]) -> Answer:
    """Runs `work`, however deep its recursion goes, and returns or raises its outcome.

    Args:
        work: may be begun again.
    """
    try:
        return work()
    except RecursionError:
        pass  # once more, not inside the handler
    answer: Future[Answer] = Future()
    with _one:
        _run(lambda: _answer(work, answer))
    return answer.result()


def _answer(work: Callable[[], Answer], answer: Future[Answer]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:
        answer.set_exception(error)


def _run(work: Callable[[], None]) -> None:
    frames, size = sys.getrecursionlimit(), threading.stack_size(_BYTES)
    try:
        thread = threading.Thread(target=work, name="ivm-deep", daemon=True)
        sys.setrecursionlimit(max(frames, _FRAMES))
        thread.start()
        threading.stack_size(size)
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(frames)

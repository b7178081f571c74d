"""Threads that change every 20 µs, beside two that do nothing but take their turns."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

WAIT = 30.0
_SWITCH = 20e-6


@contextlib.contextmanager
def churning() -> Iterator[None]:
    """A block in which the interpreter changes threads all the time."""
    before = sys.getswitchinterval()
    with beside(lambda: sum(range(50)), 2):
        sys.setswitchinterval(_SWITCH)
        try:
            yield
        finally:
            sys.setswitchinterval(before)


@contextlib.contextmanager
def beside(work: Callable[[], object], threads: int = 1) -> Iterator[list[BaseException]]:
    """Repeats work in threads until the end of the block; its first error is raised there.

    Yields the errors so far.
    """
    ending, errors = threading.Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not ending.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=repeat, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield errors
    finally:
        ending.set()
        for thread in running:
            thread.join(WAIT)
    if errors:
        raise errors[0]

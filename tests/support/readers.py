"""Threads that read one database while the test changes it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence

import ivm


@contextlib.contextmanager
def reading(db: ivm.Database, texts: Sequence[str]) -> Iterator[None]:
    """Two threads read these queries in turn; each gives (n, n - 1, …), and n never falls.

    Args:
        db: the database.
        texts: the queries, which go different ways.
    """
    failures: list[object] = []
    done = threading.Event()

    def read() -> None:
        last = 0
        try:
            while not done.is_set():
                for text in texts:
                    ((n, m, *_),) = db.execute(text).fetchall()
                    if n != m + 1 or n < last:
                        failures.append((text, n, m, last))
                    last = n
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert failures == []

"""Counts of requests and their seconds, for `/metrics`."""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, of the histogram's buckets."""


class Status(Protocol):
    """Knows the status of a response; None if none was sent."""

    status: int | None


class Measures:
    """Of one server; the event loop calls it.

    Attributes:
        counts: of requests, by kind and status.
        buckets: of requests by kind, as many as took at most each of `BOUNDS`, not added up.
        seconds: of all requests of a kind.
        rows_in: rows that clients have written.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, int], int] = {}
        self.buckets: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = {}
        self.rows_in = 0

    @contextlib.contextmanager
    def request(self, name: str, status: Status) -> Iterator[None]:
        """Measures a request."""
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            key = name, status.status or 500
            self.counts[key] = self.counts.get(key, 0) + 1
            buckets = self.buckets.setdefault(name, [0] * (len(BOUNDS) + 1))
            buckets[bisect.bisect_left(BOUNDS, took)] += 1
            self.seconds[name] = self.seconds.get(name, 0.0) + took

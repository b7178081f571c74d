"""Sets the crossing points of `ivm.storage.values.thresholds`, so that few rows go both ways."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from ivm.storage.values import thresholds

NAMES = tuple(name for name in vars(thresholds) if name.isupper())
WAYS = {"numpy": 0, "python": 1 << 40}
"""Everything above every crossing point, and everything below."""
NOT_OF_NONE = ("RADIX_ROWS", "SCATTERED_ROWS")
"""The large way is for one row at least: it asks for an extreme of them."""


@contextlib.contextmanager
def crossing(**points: int) -> Iterator[None]:
    """Let some stand elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        for name, rows in points.items():
            patch.setattr(thresholds, name, rows)
        yield


@contextlib.contextmanager
def one_way(way: str) -> Iterator[None]:
    """Let all rows go one of the `WAYS`, however many they are."""
    least = dict.fromkeys(NOT_OF_NONE, 1)
    with crossing(**{name: max(WAYS[way], least.get(name, 0)) for name in NAMES}):
        yield


@pytest.fixture(params=WAYS)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test runs once each way."""
    with one_way(request.param):
        yield

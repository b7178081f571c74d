"""Nexmark's events in columns: of each fifty a person, three auctions and 46 bids.

As in the original generator half of the bids go to the newest auction whose number is a multiple of
100, the others to one of the last 100; three of four bids and auctions are those of the newest such
person or the one behind, the others those of one of the last 1 000. Some are of people and auctions
that come a little later. Prices are spread evenly over their logarithms, from 10 to 10 000, so that
the ranks of queries 15 and 16 (below 100, below 1 000, and the rest) hold a third each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.nexmark.texts import Numbers, channels, chosen, joined, letters

Times = npt.NDArray[np.datetime64]

FIRST_ID = 1_000
HOT = 100  # of so many people or auctions one is hot
ACTIVE, IN_FLIGHT, AHEAD = 1_000, 100, 10
CATEGORIES = 5
EVENTS_PER_AUCTION = 1_666  # events in which as many auctions come as are in flight
PLACES = {"person": (0, 1), "auction": (1, 4), "bid": (4, 50)}
"""Which of each fifty events are a table's."""
STATES = ("az", "ca", "id", "or", "wa", "wy")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Seattle", "Cheyenne")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones")


def rows_before(table: str, event: int) -> int:
    """How many of the events before this one are a table's."""
    begin, end = PLACES[table]
    return event // 50 * (end - begin) + min(max(event % 50 - begin, 0), end - begin)


@dataclass(frozen=True)
class Events:
    """Events one after the other.

    Attributes:
        first: the number of the first.
        rows: what they add to each table, in their order.
    """

    first: int
    rows: Mapping[str, pa.Table]

    def count(self) -> int:
        """How many there are."""
        return sum(rows.num_rows for rows in self.rows.values())

    def part(self, start: int, stop: int) -> dict[str, pa.Table]:
        """The rows of the events from number `start` up to but not `stop`."""
        found = {}
        for table, rows in self.rows.items():
            before = rows_before(table, start)
            if count := rows_before(table, stop) - before:
                found[table] = rows.slice(before - rows_before(table, self.first), count)
        return found


def generate(first: int, times: Times, seed: int) -> Events:
    """Events with these times, which rise.

    Args:
        first: the number of the first event.
        times: of the events, in microseconds.
        seed: decides all else.
    """
    rng = np.random.default_rng([seed, first])
    numbers = np.arange(first, first + len(times))
    makers = {"person": _people, "auction": _auctions, "bid": _bids}
    rows = {}
    for table, (begin, end) in PLACES.items():
        mine = (numbers % 50 >= begin) & (numbers % 50 < end)
        rows[table] = makers[table](rng, numbers[mine], times[mine])
    return Events(first, rows)


def _people(rng: np.random.Generator, numbers: Numbers, times: Times) -> pa.Table:
    count = len(numbers)
    return pa.table({
        "id": FIRST_ID + numbers // 50,
        "name": joined(
            chosen(rng, count, FIRST_NAMES), " ", chosen(rng, count, LAST_NAMES)
        ),
        "email": joined(letters(rng, count, 3, 7), "@", letters(rng, count, 3, 5), ".com"),
        "city": chosen(rng, count, CITIES),
        "state": chosen(rng, count, STATES),
        "ts": times,
        "extra": letters(rng, count, 80, 120),
    })  # fmt: skip


def _auctions(rng: np.random.Generator, numbers: Numbers, times: Times) -> pa.Table:
    count = len(numbers)
    initial = _prices(rng, count)
    return pa.table({
        "id": FIRST_ID + _last_auction(numbers),
        "item": letters(rng, count, 3, 20),
        "description": letters(rng, count, 3, 100),
        "initial": initial,
        "reserve": initial + _prices(rng, count),
        "ts": times,
        "expires": times + _lengths(rng, times),
        "seller": _person(rng, numbers, hot=0),
        "category": 10 + rng.integers(0, CATEGORIES, count),
        "extra": letters(rng, count, 200, 300),
    })  # fmt: skip


def _bids(rng: np.random.Generator, numbers: Numbers, times: Times) -> pa.Table:
    count = len(numbers)
    channel, url = channels(rng, count)
    return pa.table({
        "auction": _auction(rng, numbers),
        "bidder": _person(rng, numbers, hot=1),
        "price": _prices(rng, count),
        "channel": channel,
        "url": url,
        "ts": times,
        "extra": letters(rng, count, 10, 30),
    })  # fmt: skip


def _prices(rng: np.random.Generator, count: int) -> Numbers:
    return np.rint(10 ** rng.uniform(1, 4, count)).astype(np.int64)


def _lengths(rng: np.random.Generator, times: Times) -> npt.NDArray[np.timedelta64]:
    """How long auctions are open: on average as long as they are among the last ones."""
    pace = np.diff(times).mean() / 50 * 3 if len(times) > 1 else np.timedelta64(1, "ms")
    most = max(int(2 * EVENTS_PER_AUCTION * pace / np.timedelta64(1, "us")), 1)
    return (1 + rng.integers(0, most, len(times))).astype("m8[us]")


def _last_auction(numbers: Numbers) -> Numbers:
    """The number of the newest auction at each event."""
    return numbers // 50 * 3 + np.clip(numbers % 50, 0, 3) - 1


def _auction(rng: np.random.Generator, numbers: Numbers) -> Numbers:
    last = _last_auction(numbers)
    oldest = np.maximum(last - IN_FLIGHT, 0)
    other = rng.integers(oldest, last + AHEAD + 1)
    return FIRST_ID + np.where(rng.random(len(last)) < 1 / 2, last // HOT * HOT, other)


def _person(rng: np.random.Generator, numbers: Numbers, hot: int) -> Numbers:
    last = numbers // 50
    active = np.minimum(last + 1, ACTIVE)
    other = last + 1 - active + rng.integers(0, active + AHEAD)
    return FIRST_ID + np.where(rng.random(len(last)) < 3 / 4, last // HOT * HOT + hot, other)

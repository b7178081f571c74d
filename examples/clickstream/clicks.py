"""Clicks of simulated mornings, as five devices send them, four of which do it badly.

Law: the same clicks every time, in the same lines, which stand in the order they were sent in.

What a device does wrong shows between two times: when a click happened, and when it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

BEGIN = datetime(2026, 3, 2, 8)
ROUND = timedelta(minutes=10)
ROUNDS = 36  # of a morning: six hours
CLICKS = 1_200  # of a device in a morning
PEOPLE = 200
PAGES = ("home", "shop", "cart", "offer", "order")
SHARES = (0.4, 0.3, 0.12, 0.12, 0.06)
MINUTE = 60_000  # times are numbers of milliseconds since the morning has begun

Clicks: TypeAlias = Mapping[str, npt.NDArray[np.int64]]
"""Columns: id, person, page (a number), happened, sent, and ts, which the device's clock tells."""


class Round(NamedTuple):
    """What devices have sent within ten minutes.

    Attributes:
        end: of the ten minutes.
        size: how many clicks.
        lines: the clicks as lines of JSON.
    """

    end: datetime
    size: int
    lines: str


def made(chance: np.random.Generator, number: int) -> Clicks:
    """The clicks of a device, each sent within four minutes: not in the order they happened in."""
    happened = chance.integers(0, ROUNDS * 10 * MINUTE, CLICKS)
    return {
        "id": number * 10_000 + np.arange(CLICKS),
        "person": chance.integers(0, PEOPLE, CLICKS),
        "page": chance.choice(len(PAGES), CLICKS, p=SHARES),
        "happened": happened,
        "sent": happened + chance.integers(0, 4 * MINUTE, CLICKS),
        "ts": happened,
    }


def well(clicks: Clicks) -> Clicks:
    """A device that does nothing wrong."""
    return clicks


def double(clicks: Clicks) -> Clicks:
    """A phone in a nervous hand: every tenth click comes again a third of a second later."""
    again = {name: values[::10] for name, values in clicks.items()}
    later = {name: again[name] + 333 for name in ("happened", "sent", "ts")}
    return joined(clicks, {**again, **later, "id": again["id"] + CLICKS})


def twice(clicks: Clicks) -> Clicks:
    """A kiosk that sends everything twice, to be sure."""
    return joined(clicks, clicks)


def shut(clicks: Clicks) -> Clicks:
    """A laptop that is offline from 9:30 on and shut at 10; at 12 it sends what it has kept."""
    offline, closed, opened = 90 * MINUTE, 120 * MINUTE, 240 * MINUTE
    happened = clicks["happened"]
    used = taken(clicks, (happened < closed) | (happened >= opened))
    is_kept = (used["sent"] >= offline) & (used["happened"] < closed)
    return {**used, "sent": np.where(is_kept, opened, used["sent"])}


def set_back(clicks: Clicks) -> Clicks:
    """A watch that gets another battery at 11: from then on its clock is five hours slow."""
    slow = np.where(clicks["happened"] >= 180 * MINUTE, 300 * MINUTE, 0)
    return {**clicks, "ts": clicks["happened"] - slow}


def taken(clicks: Clicks, which: npt.NDArray[np.bool_]) -> Clicks:
    return {name: values[which] for name, values in clicks.items()}


def joined(first: Clicks, second: Clicks) -> Clicks:
    return {name: np.concatenate([first[name], second[name]]) for name in first}


DEVICES: Mapping[str, Callable[[Clicks], Clicks]] = {
    "tablet": well,
    "phone": double,
    "kiosk": twice,
    "laptop": shut,
    "watch": set_back,
}

LINES = """
    SELECT least(sent // $round, $last) AS round, count(*), string_agg(
        to_json({id: id, ts: $begin + to_milliseconds(ts), device: device, person: person,
                 page: $pages[page + 1]})::VARCHAR || chr(10), '' ORDER BY sent, id)
    FROM sent GROUP BY round ORDER BY round
"""


def sent_by(device: str, clicks: Clicks) -> pa.Table:
    """The clicks of a device as a table, with its name."""
    return pa.table({**clicks, "device": pa.repeat(device, len(clicks["id"]))})


def morning(day: int) -> Iterator[Round]:
    """The rounds of one morning."""
    chance, first = np.random.default_rng(day), day * len(DEVICES)
    parts = [
        sent_by(device, fault(made(chance, first + i)))
        for i, (device, fault) in enumerate(DEVICES.items())
    ]
    begin = BEGIN + timedelta(days=day)
    given = {"round": 10 * MINUTE, "last": ROUNDS - 1, "begin": begin, "pages": list(PAGES)}
    with duckdb.connect() as con:
        con.register("sent", pa.concat_tables(parts))
        found = con.execute(LINES, given).fetchall()
    for number, size, lines in found:
        yield Round(begin + (number + 1) * ROUND, size, lines)

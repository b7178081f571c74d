"""Windows that close: final views over tables with watermarks, and how soon their rows are there.

After the events in batches others come in groups, a window of ten seconds apart, in which the
watermark stands still before the last fifty: one of these closes the window. The clock runs from
before its commit until a query of the view has the new rows.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import ivm
from benchmarks.nexmark.events import PLACES, Events, generate
from benchmarks.nexmark.feed import DELAY, Measured, apply, auction_house, demand_right, feed
from tests.corpus.nexmark import FINAL

GROUP = 5_000  # events
LAST = GROUP - 50  # of them come before their time stands still
WINDOW = np.timedelta64(10_000_000, "us")
CLOSER = {"q8": LAST + PLACES["auction"][0]}
"""The event of a group that closes its window: the first auction here, elsewhere the first bid."""


def later(first: int, after: np.datetime64, windows: int, seed: int) -> Events:
    """Groups of events, of which the last fifty each are four seconds behind a window's end.

    Args:
        first: the number of the first event, a multiple of fifty.
        after: the time of the event before.
        windows: how many close and are timed; one more goes before them.
        seed: decides the rest.
    """
    day = after.astype("M8[D]").astype("M8[us]")
    begin = day + ((after - day) // WINDOW + 1) * WINDOW + np.timedelta64(DELAY, "s")
    within = np.arange(1, GROUP + 1) * np.timedelta64(1_000, "us")
    within[LAST:] = WINDOW
    return generate(
        first, (begin + np.arange(windows + 1)[:, None] * WINDOW + within).ravel(), seed
    )


def closings(db: ivm.Database, name: str, events: Events, windows: int) -> list[float]:
    """The milliseconds from each event that closes a window until its rows can be read.

    The first group begins the sessions that end with the second, and is not timed.
    """
    found, closer = [], CLOSER.get(name, LAST + PLACES["bid"][0])
    apply(db, events.part(events.first, events.first + GROUP))
    for first in range(events.first + GROUP, events.first + (windows + 1) * GROUP, GROUP):
        apply(db, events.part(first, first + closer))
        before = final_rows(db, name)
        ((table, row),) = events.part(first + closer, first + closer + 1).items()
        began = time.perf_counter()
        db.insert(table, row)
        now = final_rows(db, name)
        found.append((time.perf_counter() - began) * 1e3)
        if now <= before:
            raise SystemExit(f"{name}: event {first + closer:,} closed no window")
        apply(db, events.part(first + closer + 1, first + GROUP))
    return found


def final_rows(db: ivm.Database, name: str) -> int:
    """How many rows of a view can be read."""
    ((count,),) = db.execute(f"SELECT count(*) FROM {name}").fetchall()
    return int(count)


def measure_final(folder: Path, name: str, events: Events, further: Events, count: int) -> Measured:
    """Feeds `count` events in batches and the further ones in groups to a final view.

    Args:
        folder: for its file.
        name: of the query.
        events: the first ones.
        further: groups behind them.
        count: of events in batches.
    """
    path, last = folder / f"{name}-final.duckdb", count + further.count()
    with auction_house(path, name, FINAL[name], marked=True) as db:
        rate, cpu = feed(db, events, 0, count)
        times = closings(db, name, further, further.count() // GROUP - 1)
        for table in PLACES:
            db.advance(table, "infinity")
        columns = "* EXCLUDE (window_end)" if name == "q7" else "*"
        kept = db.execute(f"SELECT {columns} FROM {name}").arrow()
    demand_right(path, name, kept, last)
    return Measured.of(rate, cpu, times, kept.num_rows)

"""A stream that does not end: rows, memory and disk while events of many hours go through.

Clicks and orders come out of order, at most a minute late, and the tables keep an hour of the time
of their stream. Above them stand a count per hour, sessions, a join of clicks with the orders that
follow within ten minutes, each of them final, and the first click of a person and a page per hour.
Everything that is held is to be as large at the end as it was after the first hours.

    python -m benchmarks.endless [--events 1e7] [--batch 10000] [--keep]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm
from benchmarks.harness.page import Page, with_keep

RATE = 100  # events a second of the stream
LATE = 60_000_000  # microseconds that an event is late at most
BEGIN = np.datetime64("2026-01-01", "us").astype(np.int64)
PEOPLE, PAGES, ORDERED = 20_000, 50, 10  # one of ten events is an order
MARKED = "WATERMARK FOR ts AS ts - INTERVAL '1 minute')"
KEPT = "WITH (retain = INTERVAL '1 hour' BEHIND WATERMARK, late = 'refuse')"
VIEWS = {
    "hours": "SELECT window_end, page, count(*) AS n FROM tumble(clicks, ts, INTERVAL '1 hour')"
    " GROUP BY ALL EMIT ON WINDOW CLOSE",
    "visits": "SELECT person, window_end, count(*) AS n FROM session((SELECT person, ts FROM clicks"
    " WHERE person < 2000), ts, INTERVAL '10 minutes', partition_by := [person]) GROUP BY ALL"
    " EMIT ON WINDOW CLOSE",
    "led_to": "SELECT c.id, c.ts, o.id AS o FROM clicks c LEFT JOIN orders o ON o.person = c.person"
    " AND o.ts BETWEEN c.ts AND c.ts + INTERVAL '10 minutes' WHERE page = 7 EMIT ON WINDOW CLOSE",
    "first_looks": "SELECT id, person, page FROM clicks QUALIFY row_number() OVER (PARTITION BY"
    " person, page, time_bucket(INTERVAL '1 hour', ts) ORDER BY ts, id) = 1",
}
HEAD = """| events | hours | events/s | rows of tables | rows of states | memory | file and log |
|---|---|---|---|---|---|---|"""


class Held(NamedTuple):
    """What is held at one moment.

    Attributes:
        rows: of the tables.
        state: rows in the states of all operators.
        memory: bytes that the process has in memory.
        disk: bytes of the file and its side folder.
    """

    rows: int
    state: int
    memory: int
    disk: int


def batches(events: int, batch: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Clicks and orders, in batches by the time of their coming."""
    random = np.random.default_rng(7)
    for start in range(0, events, batch):
        ids = np.arange(start, min(start + batch, events))
        sent = BEGIN + ids * (1_000_000 // RATE)
        times = (sent - random.integers(0, LATE, len(ids))).astype("datetime64[us]")
        person = (random.pareto(1.2, len(ids)) * 100).astype(np.int64) % PEOPLE
        rows = pa.table({"id": ids, "ts": times, "person": person})
        page = pa.array(random.integers(0, PAGES, len(ids)))
        ordered = pa.array(ids % ORDERED == 0)
        clicks = rows.append_column("page", page).filter(pc.invert(ordered))
        yield clicks, rows.filter(ordered)


def held(db: ivm.Database, folder: Path) -> Held:
    """What is held now."""
    (count,) = db.execute("SELECT (SELECT count(*) FROM clicks) + count(*) FROM orders").fetchall()
    circuit = db._engine.maintenance.circuit
    state = sum([circuit.node(number).operator.state_rows() or 0 for number in circuit.numbers])
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Held(count[0], state, pages * resource.getpagesize(), disk)


def feed(folder: Path, events: int, batch: int) -> Iterator[str]:
    """Feeds the stream; gives a line of the table at each tenth of it."""
    with ivm.connect(folder / "stream.duckdb", durability="interval") as db:
        columns = "(id BIGINT PRIMARY KEY, ts TIMESTAMP, person BIGINT"
        db.execute(f"CREATE TABLE clicks {columns}, page BIGINT, {MARKED} {KEPT}")
        db.execute(f"CREATE TABLE orders {columns}, {MARKED} {KEPT}")
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        began, sent, shown = time.perf_counter(), 0, 0
        for clicks, orders in batches(events, batch):
            with db.transaction():
                db.insert("clicks", clicks)
                db.insert("orders", orders)
            sent += clicks.num_rows + orders.num_rows
            if sent * 10 // events > shown:
                shown = sent * 10 // events
                yield line(sent, time.perf_counter() - began, held(db, folder))
        for view in db.execute("VERIFY MATERIALIZED VIEWS").fetchall():
            assert view[4], view


def line(sent: int, seconds: float, now: Held) -> str:
    """A line of the table, in Markdown."""
    hours, speed = sent / RATE / 3600, sent / seconds
    sizes = f"{now.rows:,} | {now.state:,} | {now.memory / 1e6:,.0f} MB | {now.disk / 1e6:,.0f} MB"
    return f"| {sent:,} | {hours:.1f} | {speed:,.0f} | {sizes} |"


def main() -> None:
    """Feed one stream."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endless", description=__doc__)
    parser.add_argument("--events", type=float, default=1e7)
    parser.add_argument("--batch", type=int, default=10_000)
    given = with_keep(parser)
    page = Page("endless.md")
    page.add(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for each in feed(Path(folder), int(given.events), given.batch):
            page.add(each)
    if given.keep:
        page.keep()


if __name__ == "__main__":
    main()

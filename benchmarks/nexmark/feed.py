"""Events fed to one query as a view over tables that are empty at first, and the proof of its rows.

Rows go in as they come: those of a batch into all tables in one transaction, durably. The proof is
DuckDB's own answer to the plain query over the tables that are in the file in the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import ivm
from benchmarks.nexmark.events import PLACES, Events
from tests.corpus.nexmark import QUERIES, SCHEMA

BATCH = 10_000  # events a transaction
COMMITS = 500  # of one event
DELAY = 4  # seconds for which a watermark waits
MARK = "ALTER TABLE {} SET WATERMARK FOR ts AS ts - INTERVAL '{} seconds'"
SIDE = "INSERT INTO side SELECT i, 'v' || i FROM range(10) AS r(i)"


@dataclass(frozen=True)
class Measured:
    """What was measured of a view.

    Attributes:
        rate: events a second.
        cpu: microseconds of all threads for an event.
        p50: of commits, in milliseconds.
        p99: likewise.
        rows: of the view in the end.
    """

    rate: float
    cpu: float
    p50: float
    p99: float
    rows: int

    @classmethod
    def of(cls, rate: float, cpu: float, times: list[float], rows: int) -> Measured:
        """What was measured, with the milliseconds of each commit."""
        p50, p99 = np.percentile(times, (50, 99)).tolist()
        return cls(rate, cpu, p50, p99, rows)


@contextmanager
def auction_house(path: Path, name: str, query: str, *, marked: bool) -> Iterator[ivm.Database]:
    """A new file with a view over empty tables.

    Args:
        path: of the file.
        name: of the view.
        query: of the view.
        marked: whether the tables have watermarks.
    """
    with ivm.connect(path) as db:
        db.execute(SCHEMA)
        db.execute(SIDE)
        for table in PLACES if marked else ():
            db.execute(
                f"ALTER TABLE {table} SET WATERMARK FOR ts AS ts - INTERVAL '{DELAY} seconds'"
            )
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield db


def apply(db: ivm.Database, rows: Mapping[str, pa.Table]) -> None:
    """One transaction."""
    with db.transaction():
        for table, added in rows.items():
            db.insert(table, added)


def feed(db: ivm.Database, events: Events, start: int, stop: int) -> tuple[float, float]:
    """Feeds the events of these numbers in batches.

    Returns:
        The events a second, and the microseconds of CPU for each.
    """
    began, cpu = time.perf_counter(), time.process_time()
    for first in range(start, stop, BATCH):
        apply(db, events.part(first, min(first + BATCH, stop)))
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return (stop - start) / took, used / (stop - start) * 1e6


def commits(db: ivm.Database, events: Events, start: int, stop: int) -> list[float]:
    """The milliseconds of one commit for each event."""
    found = []
    for number in range(start, stop):
        ((table, rows),) = events.part(number, number + 1).items()
        began = time.perf_counter()
        db.insert(table, rows)
        found.append((time.perf_counter() - began) * 1e3)
    return found


def measure(folder: Path, name: str, query: str, events: Events, count: int) -> Measured:
    """Feeds `count` events in batches and further ones alone to a view that is always up to date.

    Args:
        folder: for its file.
        name: of the query.
        query: with windows of time, where it has any.
        events: the first ones, and those for the commits.
        count: of events in batches.
    """
    path, last = folder / f"{name}.duckdb", count + COMMITS
    with auction_house(path, name, query, marked=False) as db:
        rate, cpu = feed(db, events, 0, count)
        times = commits(db, events, count, last)
        kept = db.execute(f"FROM {name}").arrow()
    demand_right(path, name, kept, last)
    return Measured.of(rate, cpu, times, kept.num_rows)


def demand_right(path: Path, name: str, kept: pa.Table, events: int) -> None:
    """Ends the run where the rows of a view are not DuckDB's answer.

    Args:
        path: of the file, which is closed.
        name: of the query.
        kept: the rows of the view.
        events: that its tables must hold.
    """
    with duckdb.connect(str(path), read_only=True) as plain:
        stored = sum(plain.table(table).shape[0] for table in PLACES)
        if stored != events:
            raise SystemExit(f"{name}: {stored:,} of {events:,} events are stored")
        plain.register("kept", kept)
        plain.execute(f"CREATE TEMP TABLE wanted AS {QUERIES[name]}").fetchall()
        sides = ("FROM kept EXCEPT ALL FROM wanted", "FROM wanted EXCEPT ALL FROM kept")
        extra, missing = (plain.sql(side).shape[0] for side in sides)
        if extra or missing:
            raise SystemExit(f"{name}: {extra:,} rows too many, {missing:,} missing")

"""Nexmark's queries as views, each over its own tables: `python -m benchmarks.nexmark`.

A view is made over empty tables in a durable file, and the same events are fed to it in
transactions of 10 000, then 500 in one commit each. Queries with windows are fed once more, as
final views over tables with watermarks: shown is how long it takes from the commit of the event
that closes a window until its rows can be read. The rows of every view must be DuckDB's answer in
the end. The goal, that no query is slower than 0.9 times query 4, is of the project's own. On a
busy machine compare the ratios alone, or the CPU that all threads use for an event.

    python -m benchmarks.nexmark [--events 1000000] [--queries q4 q5] [--windows 100] [--keep]
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.harness.page import Page, with_keep
from benchmarks.nexmark.closing import later, measure_final
from benchmarks.nexmark.events import Events, generate
from benchmarks.nexmark.feed import BATCH, COMMITS, Measured, auction_house, feed, measure
from tests.corpus.nexmark import FINAL, QUERIES, WINDOWED

BASE, GOAL = "q4", 0.9
SEED = 1
BEGIN = np.datetime64("2026-01-01T10:00:00", "us")
PACE = np.timedelta64(100, "us")  # from one event to the next: 10 000 a second
HEAD = """| query | events/s | × q4 | goal | | CPU µs an event | × q4 | {}, p50 ms | p99 ms | rows |
|---|---|---|---|---|---|---|---|---|---|"""


def measure_all(folder: Path, names: list[str], count: int, windows: int) -> dict[str, Measured]:
    """What was measured of each view; final ones have "final" behind the query's name.

    Args:
        folder: for the files, one at a time.
        names: of the queries.
        count: of events in batches, a multiple of fifty.
        windows: that close for each final view.
    """
    times = BEGIN + np.arange(count + COMMITS) * PACE
    events, further = generate(0, times, SEED), later(count, times[count - 1], windows, SEED)
    warm(folder / "warm.duckdb", events)
    found = {}
    for name in names:
        found[name] = measure(folder, name, {**QUERIES, **WINDOWED}[name], events, count)
        tell(name, found[name])
    for name in filter(FINAL.__contains__, names):
        found[f"{name} final"] = measure_final(folder, name, events, further, count)
        tell(f"{name} final", found[f"{name} final"])
    return found


def warm(path: Path, events: Events) -> None:
    """Feeds a batch that is not measured: it imports what is imported late."""
    with auction_house(path, BASE, QUERIES[BASE], marked=False) as db:
        feed(db, events, 0, min(BATCH, events.count()))


def tell(name: str, numbers: Measured) -> None:
    """Says on the way what was measured."""
    print(f"{name}: {numbers.rate:,.0f} events/s", file=sys.stderr, flush=True)


def tables(found: dict[str, Measured], count: int, windows: int) -> list[list[str]]:
    """The lines of both tables: views that are always up to date, and final ones."""
    lines = {name: line(name, numbers, found[BASE]) for name, numbers in found.items()}
    current = [lines[name] for name in lines if name in QUERIES]
    final = [lines[name] for name in lines if name not in QUERIES]
    return [
        [f"{count:,} events", "", HEAD.format("commit of one"), *current, ""],
        [f"{windows:,} windows", "", HEAD.format("window closed and read"), *final],
    ]


def line(name: str, numbers: Measured, base: Measured) -> str:
    """One line of a table, in Markdown; ratios are better the larger they are."""
    ratio, of_cpu = numbers.rate / base.rate, base.cpu / numbers.cpu
    reached = "yes" if ratio >= GOAL else "no"
    rate = f"{numbers.rate:,.0f} | {ratio:.2f} × | {GOAL:g} × | {reached}"
    commits = f"{numbers.p50:.3g} | {numbers.p99:.3g}"
    return (
        f"| {name} | {rate} | {numbers.cpu:.2f} | {of_cpu:.2f} × | {commits} | {numbers.rows:,} |"
    )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--events", type=float, default=1e6, help="in batches (default 1e6)")
    parser.add_argument("--queries", nargs="+", choices=[*QUERIES], default=[*QUERIES])
    parser.add_argument("--windows", type=int, default=100, help="that close (default 100)")
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    return with_keep(parser)


def main() -> None:
    """Measure, print, keep."""
    given = arguments()
    names = [name for name in QUERIES if name in {BASE, *given.queries}]
    count = int(given.events) // 50 * 50
    gc.freeze()  # a full collection would be the longest commit
    with tempfile.TemporaryDirectory() as folder:
        found = measure_all(Path(folder), names, count, given.windows)
    gc.unfreeze()
    page = Page("nexmark.md")
    for lines in tables(found, count, given.windows):
        page.add(*lines)
    if given.json:
        kept = {name: asdict(numbers) for name, numbers in found.items()}
        given.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if given.keep:
        page.keep()


if __name__ == "__main__":
    main()

"""Time a source that is Debezium's engine: `python -m benchmarks.debezium`.

The engine's connector of PostgreSQL copies a table into ours, which has one aggregate view, and
then works off a backlog of changes. Each part tells the rate, and the time of all processors that
this process, with its Java, has used for a row. The server (see `tests/support/postgres.py`) runs
on the same machine. A part ends with the second without an event by which a source knows that it
has caught up. At the end the view is compared with PostgreSQL's answer.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import ivm
from benchmarks.cdc import Timed, timed
from benchmarks.harness.report import machine
from benchmarks.postgres import OURS, QUERY, ROWS, TABLE, catch_up, demand_equal, write_backlog
from ivm.cdc.sources.debezium import jvm
from tests.cdc.debezium.upstreams import PostgresUpstream, source
from tests.support.postgres import Database, running


def tell(what: str, rows: int, found: Timed) -> None:
    """Prints one line."""
    rate, cost = rows / found.wall, found.user / rows * 1e6
    print(f"{what:24} {rate:>9,.0f} rows/s, {cost:.0f} us of CPU a row", flush=True)


def measure(shop: Database, rows: int) -> None:
    """Copies rows, and follows twice as many changes.

    Args:
        shop: without tables.
        rows: a multiple of 200.
    """
    shop.execute(TABLE, f"INSERT INTO orders {ROWS.format(1, rows)}")
    with tempfile.TemporaryDirectory() as folder, ivm.connect(Path(folder) / "a.duckdb") as db:
        db.execute(OURS)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        jvm.start()
        with timed() as copied:
            db.execute(source(PostgresUpstream(shop)))
            db.start_sources()
            catch_up(db)
        tell("copy, with the beginning", rows, copied)
        db.execute("PAUSE SOURCE shop")
        write_backlog(shop, 2 * rows)
        with timed() as streamed:
            db.execute("RESUME SOURCE shop")
            catch_up(db)
        tell("backlog", 2 * rows, streamed)
        demand_equal(db, shop, QUERY)
        db.execute("DROP SOURCE shop")


def main() -> None:
    """Measure with a server of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.debezium", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of the table")
    options = parser.parse_args()
    print(machine(), flush=True)
    with running() as server, server.fresh() as shop:
        measure(shop, options.rows)


if __name__ == "__main__":
    main()

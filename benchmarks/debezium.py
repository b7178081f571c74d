"""Time a source that is Debezium's engine: `python -m benchmarks.debezium`.

The engine's connector of PostgreSQL copies a table into ours, which has one aggregate view, and
then works off a stream of updates. Each part tells the rate, and the time of all processors that
this process, with its Java, has used for a row. The server (see `tests/support/postgres.py`) runs
on the same machine. A part ends with the second without an event by which a source knows that it
has caught up. At the end the view is compared with PostgreSQL's answer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ivm
from benchmarks.postgres import OURS, QUERY, ROWS, TABLE, catch_up, demand_equal
from benchmarks.report import machine
from ivm.cdc.sources.debezium import jvm
from tests.support.postgres import Database, running

_A_TRANSACTION = 100


def source(shop: Database) -> ivm.sources.Debezium:
    """A source of all tables of a database."""
    where = {
        "database.hostname": "127.0.0.1",
        "database.port": str(shop.server.port),
        "database.user": "postgres",
        "database.dbname": shop.name,
        "schema.include.list": "public",
    }
    return ivm.sources.Debezium(connector="postgresql", properties=where)


@contextmanager
def timed(what: str, rows: int) -> Iterator[None]:
    """Times the block, and prints one line."""
    used, start = time.process_time(), time.perf_counter()
    yield
    wall, used = time.perf_counter() - start, time.process_time() - used
    cost = f"{used / rows * 1e6:.0f} us of CPU a row"
    print(f"{what:24} {rows / wall:>9,.0f} rows/s, {cost}", flush=True)


def update(shop: Database, rows: int) -> None:
    """Changes each row once, in small transactions."""
    for at in range(0, rows, _A_TRANSACTION):
        between = f"id > {at} AND id <= {at + _A_TRANSACTION}"
        shop.execute(f"UPDATE orders SET amount = amount + 1 WHERE {between}")


def measure(shop: Database, rows: int) -> None:
    """Copies and follows."""
    shop.execute(TABLE, f"INSERT INTO orders {ROWS.format(1, rows)}")
    with tempfile.TemporaryDirectory() as folder, ivm.connect(Path(folder) / "a.duckdb") as db:
        db.execute(OURS)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        jvm.start()
        with timed("copy, with the beginning", rows):
            db.create_source("shop", source(shop))
            db.start_sources()
            catch_up(db)
        db.execute("PAUSE SOURCE shop")
        update(shop, rows)
        with timed("stream", rows):
            db.execute("RESUME SOURCE shop")
            catch_up(db)
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

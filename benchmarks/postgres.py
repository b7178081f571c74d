"""Time a PostgreSQL source against a server of its own: `python -m benchmarks.postgres`.

1. A backlog of row changes in transactions of a hundred: decoded alone, and applied by a running
   source with an aggregate view.
2. Freshness at 500 transactions a second: from the time that PostgreSQL writes into the row, before
   its commit, to the arrival of the view's delta at a changefeed.
3. The copy of a table by a new source with a view, against PostgreSQL's own COPY to a file.

Views are compared with PostgreSQL's answers at the end of each part.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

import ivm
from benchmarks.harness.report import machine
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.copying import DONE, copy_stream
from ivm.cdc.sources.source import Position
from ivm.session.row_calls import table_info
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo
from tests.support.postgres import Database, running

TABLE = """
CREATE TABLE orders
    (id int PRIMARY KEY, customer int, amount numeric(10,2), note text, at timestamptz)
"""
OURS = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(10,2), note VARCHAR,
    "at" TIMESTAMP WITH TIME ZONE)
"""
ROWS = "SELECT i, i % 1000, i % 977 * 0.25, 'some text ' || i, now() FROM generate_series({}, {}) i"
QUERY = "SELECT customer, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY customer"
ORDERS = TableName("public", "orders")
RATE, SECONDS = 500, 20
_A_TRANSACTION = 100

_WRITER = """
import psycopg2, sys, time
connection = psycopg2.connect(sys.argv[1])
connection.autocommit = True
cursor = connection.cursor()
begin, rate, seconds = time.monotonic(), int(sys.argv[2]), float(sys.argv[3])
for number in range(int(rate * seconds)):
    time.sleep(max(0.0, begin + number / rate - time.monotonic()))
    cursor.execute(
        "INSERT INTO ticks VALUES (%s, extract(epoch FROM clock_timestamp()))", [number]
    )
"""


@contextmanager
def following(shop: Database, table: str, query: str) -> Iterator[ivm.Database]:
    """A database with a source that has copied the table, and a view."""
    with tempfile.TemporaryDirectory() as folder, ivm.connect(Path(folder) / "a.duckdb") as db:
        db.create_source("shop", ivm.sources.Postgres(dsn=shop.dsn, tables=table))
        db.start_sources()
        catch_up(db)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        yield db


def catch_up(db: ivm.Database) -> None:
    """Waits until everything is applied."""
    while not db.sources()[0].caught_up:
        if db.sources()[0].state == "stopped":
            raise SystemExit(db.sources()[0].reason)
        time.sleep(0.1)  # to ask is work, too


def demand_equal(db: ivm.Database, shop: Database, query: str) -> None:
    """Ends the program if the view is not PostgreSQL's answer."""
    mine, theirs = db.execute("FROM v").fetchall(), shop.execute(query)
    if sorted(map(repr, mine)) != sorted(map(repr, theirs)):
        raise SystemExit("the view differs from PostgreSQL's answer")


def backlog(shop: Database, count: int) -> None:
    """Part 1."""
    shop.execute(TABLE, f"INSERT INTO orders {ROWS.format(1, count // 2)}")
    with following(shop, "orders", QUERY) as db:
        db.execute("PAUSE SOURCE shop")
        write_backlog(shop, count)
        print(f"decoded alone: {count / decode_backlog(shop):>10,.0f} row changes/s")
        begin = time.perf_counter()
        db.execute("RESUME SOURCE shop")
        catch_up(db)
        spent = time.perf_counter() - begin
        print(f"applied:       {count / spent:>10,.0f} row changes/s, with an aggregate view")
        demand_equal(db, shop, QUERY)
        db.execute("DROP SOURCE shop")


def write_backlog(shop: Database, count: int) -> None:
    """Inserts, updates and deletes in turn, in small transactions."""
    half = count // 2
    with closing(shop.connect()) as connection, connection.cursor() as cursor:
        for at in range(0, count, 4 * _A_TRANSACTION):
            low, high = at // 4, at // 4 + _A_TRANSACTION
            between = f"id > {low} AND id <= {high}"
            cursor.execute(f"INSERT INTO orders {ROWS.format(half + low + 1, half + high)}")
            cursor.execute(f"UPDATE orders SET amount = amount + 1 WHERE {between}")
            cursor.execute(f"UPDATE orders SET customer = customer + 1 WHERE {between}")
            cursor.execute(f"DELETE FROM orders WHERE {between}")


def table_of(db: ivm.Database) -> tuple[TableInfo, Cursor]:
    """Our table, made in a database, and a cursor of it."""
    db.execute(OURS)
    session = db._session()
    return table_info(session, "orders"), session.cursor


def decode_backlog(shop: Database) -> float:
    """Seconds for reading a copy of the slot and decoding its changes, which are dropped."""
    shop.execute("SELECT pg_copy_logical_replication_slot('ivm_shop', 'second')")
    source = ivm.sources.Postgres(
        dsn=shop.dsn, tables="orders", slot="second", publication="ivm_shop", create_slot=False
    )
    with ivm.connect() as db:
        info, cursor = table_of(db)
        ((oid,),) = shop.execute("SELECT 'orders'::regclass::oid::bigint")
        reader = source.open("second", None, {copy_stream(ORDERS): Position(1, f"{DONE} {oid}")})
        begin = time.perf_counter()
        while not reader.caught_up():
            batch = reader.read(50_000, 0.05)
            for part in batch.parts if batch else ():
                part.decode(cursor, info)
        spent = time.perf_counter() - begin
        reader.close()
    shop.execute("SELECT pg_drop_replication_slot('second')")
    return spent


def freshness(shop: Database) -> None:
    """Part 2."""
    shop.execute("CREATE TABLE ticks (id int PRIMARY KEY, sent double precision)")
    query = "SELECT id % 8 AS part, count(*) AS n, max(sent) AS sent FROM ticks GROUP BY id % 8"
    with following(shop, "ticks", query) as db, db.subscribe("v") as feed:
        count = RATE * SECONDS
        arguments = [shop.dsn, str(RATE), str(SECONDS)]
        writer = subprocess.Popen([sys.executable, "-c", _WRITER, *arguments])
        late: list[float] = []
        seen = 0
        for _, delta in feed:
            now = time.time()
            added = [row for row in delta.to_pylist() if row["_weight"] > 0]
            late += [now - row["sent"] for row in added]
            seen += sum(row["n"] * row["_weight"] for row in delta.to_pylist())
            if seen >= count:
                break
        writer.wait()
        p50, p99 = np.quantile(late, [0.5, 0.99]) * 1000
        print(f"freshness at {RATE} transactions/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
        demand_equal(db, shop, query)
        db.execute("DROP SOURCE shop")


def copy(shop: Database, count: int) -> None:
    """Part 3."""
    shop.execute(TABLE, f"INSERT INTO orders {ROWS.format(1, count)}", "VACUUM ANALYZE orders")
    target = shop.server.folder / "data" / "copied"
    begin = time.perf_counter()
    shop.execute(f"COPY orders TO '{target}'")
    bound = time.perf_counter() - begin
    os.remove(target)
    with tempfile.TemporaryDirectory() as folder, ivm.connect(Path(folder) / "a.duckdb") as db:
        db.execute(OURS)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        begin = time.perf_counter()
        db.create_source("shop", ivm.sources.Postgres(dsn=shop.dsn, tables="orders"))
        db.start_sources()
        catch_up(db)
        db.execute("FROM v").fetchall()
        spent = time.perf_counter() - begin
        print(
            f"copy of {count:,} rows: {spent:.1f} s, PostgreSQL's COPY to a file {bound:.1f} s: "
            f"{spent / bound:.2f} times"
        )
        demand_equal(db, shop, QUERY)
        db.execute("DROP SOURCE shop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["backlog", "freshness", "copy"])
    parser.add_argument("--changes", type=int, default=400_000, help="of the backlog")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the copy")
    arguments = parser.parse_args()
    print(machine())
    with running() as server:
        for part in arguments.parts:
            shop = server.database(part)
            if part == "backlog":
                backlog(shop, arguments.changes)
            elif part == "freshness":
                freshness(shop)
            else:
                copy(shop, arguments.rows)
            shop.drop()


if __name__ == "__main__":
    main()

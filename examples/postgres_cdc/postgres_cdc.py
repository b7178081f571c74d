"""A live view over a PostgreSQL database: `python examples/postgres_cdc/postgres_cdc.py [SECONDS]`.

It starts a PostgreSQL server of its own (Debian's package `postgresql`, or PyPI's `pgserver`), lets
shops write orders into it, and shows the revenue of each region as the orders are committed there.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
from rich.console import Console
from rich.live import Live
from rich.table import Table

import ivm

SHOP = """
    CREATE TABLE customers (id int PRIMARY KEY, region text NOT NULL);
    CREATE TABLE orders (id serial PRIMARY KEY, customer int NOT NULL, amount numeric(8,2));
    INSERT INTO customers
        SELECT i, (ARRAY['north', 'south', 'east', 'west'])[i % 4 + 1]
        FROM generate_series(1, 100) i;
    INSERT INTO orders (customer, amount) SELECT i % 100 + 1, i FROM generate_series(1, 1000) i;
"""
REVENUE = """
    SELECT region, count(*) AS orders, sum(amount) AS revenue
    FROM orders JOIN customers ON customers.id = customer GROUP BY region
"""
WRITES = (
    "INSERT INTO orders (customer, amount) VALUES ({customer}, {amount})",
    "UPDATE orders SET amount = amount + 1 WHERE id = {order}",
    "DELETE FROM orders WHERE id = {order}",
    "BEGIN; INSERT INTO orders (customer, amount) VALUES ({customer}, 1e5); ROLLBACK",
)


def programs() -> Path:
    """Where PostgreSQL's programs are."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if debian:
        return debian[-1].parent
    found = importlib.util.find_spec("pgserver")
    if found is None or found.origin is None:
        raise SystemExit("install PostgreSQL: apt install postgresql, or pip install pgserver")
    return Path(found.origin).parent / "pginstall" / "bin"


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL server; gives its dsn. Root runs it as another user, as PostgreSQL demands."""
    with tempfile.TemporaryDirectory() as name, closing(socket.socket()) as free:
        folder, user = Path(name), None
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody").pw_uid
            os.chown(folder, user, -1)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        options = f"-c wal_level=logical -c port={port} -c fsync=off -c listen_addresses=127.0.0.1"

        def run(program: str, *arguments: str) -> None:
            command = [str(programs() / program), "-D", str(folder / "data"), *arguments]
            subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL)

        run("initdb", "--no-sync", "--auth=trust", "--username=shop", "--encoding=UTF8")
        socket_folder = f"-c unix_socket_directories={folder}"
        log = str(folder / "log")
        run("pg_ctl", "start", "--wait", "--log", log, "--options", f"{options} {socket_folder}")
        try:
            yield f"host=127.0.0.1 port={port} user=shop dbname=postgres"
        finally:
            run("pg_ctl", "stop", "--wait", "--mode=immediate")


def write(dsn: str, over: threading.Event) -> None:
    """Writes to the shop until it is over."""
    chance = random.Random(1)
    with closing(psycopg.connect(dsn)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        while not over.is_set():
            values = {"customer": chance.randint(1, 100), "order": chance.randint(1, 2000)}
            kind = chance.choice(WRITES)
            cursor.execute(kind.format(**values, amount=chance.randint(1, 99)))
            time.sleep(0.002)


def shown(db: ivm.Database) -> Table:
    """The view, and how far the source is."""
    [source] = db.sources()
    table = Table(title=f"{source.events:,} changes from PostgreSQL", title_justify="left")
    for column in ("region", "orders", "revenue"):
        table.add_column(column, justify="left" if column == "region" else "right")
    for row in db.execute("FROM revenue ORDER BY region").fetchall():
        table.add_row(*[str(value) for value in row])
    return table


def follow(db: ivm.Database, dsn: str, seconds: float) -> None:
    """Shows the view while the shop is written to."""
    over = threading.Event()
    writer = threading.Thread(target=write, args=(dsn, over))
    writer.start()
    with Live(shown(db), console=Console(), refresh_per_second=10) as live:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
            live.update(shown(db))
    over.set()
    writer.join()


def answers(dsn: str) -> list[tuple[object, ...]]:
    """PostgreSQL's own answer to the view's query."""
    with closing(psycopg.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(REVENUE)
        return sorted(cursor.fetchall())


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with server() as dsn, tempfile.TemporaryDirectory() as folder:
        with closing(psycopg.connect(dsn)) as connection, connection.cursor() as cursor:
            cursor.execute(SHOP)
            connection.commit()
        with ivm.connect(Path(folder) / "shop.duckdb") as db:
            db.create_source(
                "shop", ivm.sources.Postgres(dsn=dsn, tables="public.orders, public.customers")
            )
            db.start_sources()
            while not db.sources()[0].caught_up:
                time.sleep(0.05)
            db.execute(f"CREATE MATERIALIZED VIEW revenue AS {REVENUE}")
            follow(db, dsn, seconds)
            expected = answers(dsn)
            while sorted(db.execute("FROM revenue").fetchall()) != expected:
                time.sleep(0.05)
            print("\nthe view has PostgreSQL's own answer:")
            for row in expected:
                print(*row)


if __name__ == "__main__":
    main()

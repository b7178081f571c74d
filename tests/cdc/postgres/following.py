"""A database that follows one of PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ivm
from tests.support.postgres import Database

ORDERS = (
    "CREATE TABLE orders (id integer PRIMARY KEY, customer integer, amount numeric(8,2), t text)"
)
OURS = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(8,2), t VARCHAR)"
)
VIEW = (
    "CREATE MATERIALIZED VIEW revenue AS"
    " SELECT customer, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY customer"
)
REVENUE = "SELECT customer, count(*), sum(amount) FROM orders GROUP BY customer"


def until(check: Callable[[], bool], db: ivm.Database, seconds: float = 20.0) -> None:
    """Waits until something holds, and fails with the state of the sources if it never does."""
    end = time.monotonic() + seconds
    while not check():
        if time.monotonic() > end:
            raise AssertionError(db.execute("SHOW SOURCES").fetchall())
        time.sleep(0.02)


def same(db: ivm.Database, shop: Database, ours: str, theirs: str) -> Callable[[], bool]:
    """Whether two queries have the same rows."""

    def check() -> bool:
        return rows(db, ours) == sorted(shop.execute(theirs), key=repr)

    return check


def rows(db: ivm.Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(query).fetchall(), key=repr)


def position(db: ivm.Database) -> int:
    """How far the stream was applied."""
    found = db.execute("SELECT position FROM _ivm.positions WHERE stream = 'stream'").fetchall()
    return int(found[0][0]) if found else 0


def follow(db: ivm.Database, shop: Database, tables: str = "orders", options: str = "") -> None:
    """Creates the source, starts it, and waits until the tables are copied."""
    dsn = shop.dsn.replace("'", "''")
    db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', tables '{tables}'{options})")
    db.start_sources()
    done = "SELECT count(*) FROM _ivm.positions WHERE stream LIKE 'copy %' AND detail LIKE 'done%'"
    until(lambda: position(db) > 0 and db.execute(done).fetchall() != [(0,)], db)


def state(db: ivm.Database) -> tuple[str, str]:
    """The stored state of the source, and its reason."""
    return tuple(db.execute("SELECT state, coalesce(reason, '') FROM _ivm.sources").fetchall()[0])

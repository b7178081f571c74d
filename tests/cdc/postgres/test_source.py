"""Tables that follow a real PostgreSQL database: copied once, then change by change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        yield opened


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


def follow(db: ivm.Database, shop: Database, tables: str = "orders", options: str = "") -> None:
    """Creates the source and starts it."""
    dsn = shop.dsn.replace("'", "''")
    db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', tables '{tables}'{options})")
    db.start_sources()


def test_a_table_is_copied_and_followed(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS, "INSERT INTO orders SELECT i, i % 7, i, 'x' FROM generate_series(1, 5000) i"
    )
    db.execute(OURS + ";" + VIEW)
    follow(db, shop)
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    shop.execute(
        "INSERT INTO orders VALUES (0, NULL, NULL, '')",
        "UPDATE orders SET amount = -amount WHERE id % 3 = 0",
        "DELETE FROM orders WHERE id % 5 = 0; UPDATE orders SET id = -id WHERE id < 100",
    )
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    assert rows(db, "FROM revenue") == sorted(shop.execute(REVENUE), key=repr)
    shop.execute("TRUNCATE orders; INSERT INTO orders VALUES (7, 1, 2, 'y')")
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)

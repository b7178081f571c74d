"""A database that follows one of PostgreSQL by Debezium's connector."""

from __future__ import annotations

import ivm
from tests.cdc.postgres.following import until
from tests.support.postgres import Database

ORDERS = (
    "CREATE TABLE orders (id integer PRIMARY KEY, customer integer, amount numeric(8,2), t text)"
)


def properties(shop: Database) -> dict[str, str]:
    """The connector's."""
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(shop.server.port),
        "database.user": "postgres",
        "database.dbname": shop.name,
    }


def source(shop: Database, tables: str = "public.*", **options: str) -> str:
    """The statement that creates the source."""
    listed = {**properties(shop), "table.include.list": tables, **options}
    given = ", ".join(f"'{name}' '{value}'" for name, value in listed.items())
    return f"CREATE SOURCE shop FROM DEBEZIUM (connector 'postgresql', {given})"


def follow(db: ivm.Database, shop: Database, tables: str = "public.*") -> None:
    """Creates the source, starts it, and waits until the tables are copied."""
    db.execute(source(shop, tables))
    db.start_sources()
    until(lambda: copied(db), db, 60)


def copied(db: ivm.Database) -> bool:
    """Whether the copy is complete."""
    found = db.execute("SELECT count(*) FROM _ivm.positions WHERE stream LIKE '{%'").fetchall()
    return found != [(0,)]


def reason(db: ivm.Database) -> str:
    """Why the source has stopped, "" while it has not."""
    [found] = db.sources()
    return (found.reason or "") if found.state == "stopped" else ""

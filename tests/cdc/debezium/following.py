"""A database that follows another by Debezium's engine."""

from __future__ import annotations

import ivm
from tests.cdc.debezium.upstreams import Upstream, source
from tests.cdc.postgres.following import until

ORDERS = (
    "CREATE TABLE orders (id integer PRIMARY KEY, customer integer, amount numeric(8,2),"
    " t varchar(40))"
)


def follow(db: ivm.Database, upstream: Upstream, **more: str) -> None:
    """Creates the source, starts it, and waits until the tables are copied."""
    db.execute(source(upstream, **more))
    db.start_sources()
    until(lambda: copied(db), db, 120)


def copied(db: ivm.Database) -> bool:
    """Whether the copy is complete."""
    found = db.execute("SELECT count(*) FROM _ivm.positions WHERE stream LIKE '{%'").fetchall()
    return found != [(0,)]


def same(db: ivm.Database, upstream: Upstream, query: str) -> bool:
    """Whether a query has the same rows here and there, as texts."""
    theirs = upstream.execute(query)
    try:
        ours = db.execute(query).fetchall()
    except ivm.errors.SqlError:  # its table comes with the first row
        return not theirs
    return sorted(map(texts, ours)) == sorted(map(texts, theirs))


def texts(row: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(map(str, row))


def follows(db: ivm.Database, upstream: Upstream, query: str = "SELECT * FROM orders") -> None:
    """Waits until a query has the same rows here and there."""
    until(lambda: same(db, upstream, query), db, 60)


def reason(db: ivm.Database) -> str:
    """Waits until the source has stopped, and says why."""
    until(lambda: db.sources()[0].state == "stopped", db, 60)
    return str(db.sources()[0].reason)

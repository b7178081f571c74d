"""A database that follows another by Debezium's engine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial

import ivm
from ivm.cdc import stored_sources
from ivm.cdc.apply import apply_parts, prepare
from ivm.cdc.follow import follow as follow_upstream
from ivm.cdc.sources.source import Batch, Position, Reader
from ivm.session.session import Session
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


def opened(db: ivm.Database) -> closing[Reader]:
    """A reader of the source from its beginning, which no job runs."""
    stored = db._with_session(lambda session: stored_sources.load(session, "shop"))
    assert stored is not None
    return closing(stored.definition.open("shop", stored.target, {}))


def take(reader: Reader) -> int:
    """Reads and confirms a batch that is not applied; returns how many events it has."""
    batch = reader.read(100, 0.1)
    if batch is None:
        return 0
    reader.confirm(batch.positions)
    return len(batch)


def begin_to_copy(db: ivm.Database) -> None:
    """Applies some of the copied rows of the source, and leaves it."""
    positions: dict[str, Position] = {}
    with opened(db) as reader:
        rows = 0
        while rows == 0:
            batch = reader.read(100, 0.1)
            if batch is not None:
                _apply(db, batch, dict(positions))
                positions.update(batch.positions)
                reader.confirm(positions)
                rows += len(batch)


def _apply(db: ivm.Database, batch: Batch, since: Mapping[str, Position]) -> None:
    def work(session: Session) -> None:
        for part in batch.parts:
            follow_upstream(session, part)
        parts = [partial(prepare, session, part) for part in batch.parts]
        apply_parts(session, "shop", parts, batch.positions, since)

    db._with_session(work)


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

"""The sinks of a database as rows of `_ivm.sinks`, and the statements that change these rows.

Law: a sink that begins with a snapshot gets the view's rows as they were before the transaction
that creates it, and from there on every delta, that of this transaction first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ivm.catalog.names import name_parts
from ivm.catalog.version import View
from ivm.cdc import records
from ivm.cdc.sinks.encode import refuse_names
from ivm.cdc.sinks.kinds import definition_of
from ivm.cdc.sinks.target import SinkTo
from ivm.cdc.sources.definition import options_of
from ivm.engine.feeds.outbox_rows import Part, Sink, packed, part_of, put_parts, put_sinks
from ivm.engine.transactions.transaction import Transaction
from ivm.session.ddl.sinks import drop_sinks
from ivm.session.session import Session
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.duckdb.duck import chunks

SNAPSHOT_ROWS = 100_000
"""Rows of a part of a snapshot."""


def create(
    session: Session, name: str, view: str, definition: SinkTo, *, if_not_exists: bool
) -> None:
    """Creates a sink.

    Raises:
        SqlError: the name is taken, or there is no such view.
        InputError: its target cannot be written, see `SinkTo.prepared`.
        UnsupportedError: a table, or a transaction that has changed the catalog.
        EvaluationError: the view is broken.
    """
    records.create(session)
    name = fold(name)
    with session.writing() as transaction:
        sinks = session.engine.outbox.with_changes(transaction.changes)
        if name not in sinks:
            others = [definition_of(sink) for sink in sinks.values()]
            found = _view(session, transaction, view)
            _create(session, transaction, name, found, definition.prepared(others))
        elif not if_not_exists:
            raise SqlError(f"sink {name!r} exists: DROP SINK {name} first, or choose a name")


def _view(session: Session, transaction: Transaction, view: str) -> View:
    catalog, parts = session.engine.catalog, name_parts(view)
    if transaction.changes_catalog:
        raise UnsupportedError("a sink is created before DDL or after it: COMMIT first")
    name = catalog.names.resolve(parts)
    if name in catalog.tables:
        raise UnsupportedError(
            f"{name!r} is a table, and sinks are of views: CREATE MATERIALIZED VIEW v AS FROM "
            f"{name}, and a sink of v"
        )
    found = catalog.version.view(parts)
    session.engine.broken.demand_whole(found.name)
    return found


def _create(
    session: Session, transaction: Transaction, name: str, view: View, definition: SinkTo
) -> None:
    refuse_names(definition.format, view.name, view.schema)
    epoch = session.engine.epoch
    options = {**options_of(definition), "format": definition.format}
    before = epoch - 1 if definition.snapshot else epoch
    sink = Sink(name, view.name, definition.kind, options, acknowledged=before)
    transaction.add(put_sinks([sink], known=False))
    if definition.snapshot:
        for part in _snapshot(session, sink, view, epoch):
            transaction.add(put_parts([part]))
    transaction.afterwards(lambda: session.engine.jobs.changed("sink", name))


def _snapshot(session: Session, sink: Sink, view: View, epoch: int) -> Iterator[Part]:
    """The view's rows as of the last commit."""
    engine = session.engine
    engine.tables.flush([view.name])
    listed = ", ".join([quote(name) for name, _ in view.schema])
    sql = f"SELECT {listed} FROM {engine.catalog.qualified[view.name]}"
    found = chunks(engine.warehouse.cursor(), sql, view.schema, SNAPSHOT_ROWS)
    for number, rows in enumerate(found):
        yield part_of(sink.name, epoch, number, rows, packed(rows, view.schema))


def set_paused(session: Session, name: str, paused: bool) -> None:
    """Pauses or resumes a sink; what comes meanwhile waits in the outbox."""
    with session.writing() as transaction:
        sink = find(session, transaction, name)
        if sink.paused != paused:
            transaction.add(put_sinks([replace(sink, paused=paused)], known=True))
            transaction.afterwards(lambda: session.engine.jobs.changed("sink", sink.name))


def drop(session: Session, name: str, *, if_exists: bool) -> None:
    """Drops a sink and what it has not acknowledged; what its target has stays there."""
    with session.writing() as transaction:
        if if_exists and fold(name) not in _known(session, transaction):
            return
        drop_sinks(session, transaction, [find(session, transaction, name)])


def find(session: Session, transaction: Transaction, name: str) -> Sink:
    """A sink, the transaction's changes included.

    Raises:
        SqlError: there is none of this name.
    """
    sinks = _known(session, transaction)
    if fold(name) not in sinks:
        raise SqlError(f"there is no sink {name!r}; there are: {', '.join(sinks) or 'none yet'}")
    return sinks[fold(name)]


def _known(session: Session, transaction: Transaction) -> dict[str, Sink]:
    return session.engine.outbox.with_changes(transaction.changes)

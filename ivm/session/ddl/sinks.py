"""Sinks in statements on the views that they are of.

Contract: a view with a sink is dropped or replaced after the sink, or together with it by CASCADE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ivm.engine.feeds.outbox_rows import Sink
from ivm.engine.transactions.transaction import Transaction
from ivm.session.session import Session
from ivm.storage.errors import UnsupportedError


def refuse_sinks(
    session: Session, transaction: Transaction, views: Iterable[str], what: str
) -> None:
    """Refuses to drop or replace views that have sinks.

    Raises:
        UnsupportedError: one has.
    """
    found = session.engine.outbox.of_views(views, transaction.changes)
    if found:
        names = ", ".join(sink.name for sink in found)
        drops = "; ".join(f"DROP SINK {sink.name}" for sink in found)
        raise UnsupportedError(
            f"cannot {what}: the sink{'s' if len(found) > 1 else ''} {names} would end; {drops} "
            "first"
        )


def drop_sinks(session: Session, transaction: Transaction, sinks: Sequence[Sink]) -> None:
    """Drops sinks, and what they have not acknowledged."""
    for change in session.engine.outbox.removal(sinks, transaction.changes):
        transaction.add(change)
    names = [sink.name for sink in sinks]

    def stop() -> None:
        for name in names:
            session.engine.jobs.changed("sink", name)

    transaction.afterwards(stop)

"""The opening of changefeeds.

Law: the rows of the view when the feed is opened + its deltas = the view's rows now. With a
snapshot those rows are its first delta.
"""

from __future__ import annotations

from collections.abc import Callable

from ivm.catalog.names import name_parts
from ivm.engine.feeds.changefeed import Subscription
from ivm.session.session import Session
from ivm.storage.errors import InputError


def subscribe(
    session: Session,
    view: str,
    limit: int,
    on_close: Callable[[Subscription], None],
    *,
    snapshot: bool,
) -> Subscription:
    """See `Database.subscribe`; `on_close` takes the feed from the engine's feeds."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"the limit of a changefeed is a number of rows, not {limit!r}")
    engine = session.engine
    with session.writing():
        found = engine.catalog.version.view(name_parts(view))
        engine.recomputed.refresh([found.name])
        engine.broken.demand_whole(found.name)
        durable = engine.log.make_durable
        feed = Subscription(found.name, found.schema, durable, on_close, limit)
        if snapshot:
            engine.tables.flush([found.name])
            rows = engine.tables.content(found.name)
            if len(rows):
                feed.put(engine.epoch, rows)
        engine.feeds.add(feed)
    return feed

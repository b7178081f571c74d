"""A materialized view as it changes: its first rows, and what the last change has done.

Law: a picture shows the view at an epoch no older than the one it names; the change counts are the
changefeed's since the picture before. Changes may come from any thread of this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from ivm.database import Database
from ivm.engine.feeds.changefeed import WEIGHT, Subscription
from ivm.shell.created import parsed
from ivm.shell.display.output import Paint
from ivm.shell.display.table import Shown, shown_part
from ivm.shell.listing import named
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError, IvmError

_BETWEEN_PICTURES = 0.1  # seconds: a stream of small commits is drawn ten times a second
_PATIENCE = 0.2  # seconds until `ending` is looked at


@dataclass(frozen=True)
class Picture:
    """A view at one moment.

    Attributes:
        epoch: an epoch that the view had reached, at least.
        rows: the number of the view's rows.
        added, removed: rows of the last change.
        shown: the rows on the screen.
        marked: the rows among them that the last change added.
    """

    epoch: int
    rows: int
    added: int
    removed: int
    shown: Shown
    marked: frozenset[tuple[str | None, ...]]


class ViewReader:
    """Reads the first rows of a view, in the order of its query.

    Args:
        database: the view's database.
        name: the view's canonical name.
        zone: the time zone of its texts, needed for TIMESTAMP WITH TIME ZONE columns alone.
    """

    def __init__(self, database: Database, name: str, zone: str | None = None) -> None:
        self._database = database
        self._zone = zone
        self.name = name
        self._orders = [*_own_order(database, name), "ALL"]

    def pictures(
        self, feed: Subscription, rows: Callable[[], int], ending: threading.Event
    ) -> Iterator[Picture]:
        """The view as it is now, and again after changes.

        Args:
            feed: the view's changes.
            rows: gives the number of rows to show.
            ending: when it is set, there are no more pictures.

        Raises:
            InputError: the view was dropped or replaced, or the database closed.
        """
        yield self.picture(self._database.epoch, [], rows())
        while not ending.is_set():
            changes = self._changes(feed)
            if changes:
                yield self.picture(changes[-1][0], [delta for _, delta in changes], rows())

    def _changes(self, feed: Subscription) -> list[tuple[int, pa.Table]]:
        """The changes of a moment; none if there are none for a while."""
        first = feed.poll(_PATIENCE)
        if first is None:
            if feed.ended:
                raise InputError(
                    f"{self.name} changes no more: it was dropped or replaced, "
                    "or the database was closed"
                )
            return []
        time.sleep(_BETWEEN_PICTURES)
        return [first, *iter(lambda: feed.poll(0), None)]

    def picture(self, epoch: int, deltas: list[pa.Table], rows: int) -> Picture:
        """Reads the view as it is now, and counts the rows of `deltas`."""
        total = self._database.execute(f"SELECT count(*) FROM {named(self.name)}").fetchone()
        shown = self._shown(rows)
        weights = [delta.column(WEIGHT).to_numpy() for delta in deltas]
        return Picture(
            epoch,
            0 if total is None else int(total[0]),
            sum(int(w[w > 0].sum()) for w in weights),
            -sum(int(w[w < 0].sum()) for w in weights),
            shown,
            self._added_rows(shown, deltas),
        )

    def _shown(self, rows: int) -> Shown:
        order = self._orders[0]
        query = f"SELECT * FROM {named(self.name)} ORDER BY {order} LIMIT {rows}"
        try:
            result = self._database.execute(query)
            return shown_part(result.columns, result.types, result.arrow(), None, self._zone)
        except (IvmError, duckdb.Error):
            if order == "ALL":
                raise
            self._orders.pop(0)  # the query orders by an expression that is not in the view
            return self._shown(rows)

    def _added_rows(
        self, shown: Shown, deltas: list[pa.Table]
    ) -> frozenset[tuple[str | None, ...]]:
        """Returns the texts of added rows, of a few screens at most."""
        found: set[tuple[str | None, ...]] = set()
        for delta in deltas[-8:]:
            added = delta.filter(pc.greater(delta.column(WEIGHT), 0)).drop_columns([WEIGHT])
            part = shown_part(shown.names, shown.types, added.slice(0, 1000), None, self._zone)
            found.update(zip(*part.cells, strict=True))
        return frozenset(found)


def _own_order(database: Database, name: str) -> list[str]:
    """Returns the ORDER BY of the view's query, if it has one."""
    views = database._with_session(lambda session: session.views)
    tree = parsed(next((view.query for view in views if view.name == name), ""))
    order = None if tree is None else tree.args.get("order")
    terms = order.expressions if order is not None else []
    return [", ".join(term.sql(dialect="duckdb") for term in terms)] if terms else []


def headline(name: str, picture: Picture, paint: Paint) -> list[str]:
    """What stands above the rows: the view, how many rows it has, its epoch, its last change."""
    head = [paint("bold", name), counted(picture.rows, "row"), f"epoch {picture.epoch:,}"]
    if picture.added or picture.removed:
        added = paint("added", f"+{picture.added:,}")
        removed = paint("removed", f"−{picture.removed:,}")
        head.append(f"last change {added} {removed}")
    return head

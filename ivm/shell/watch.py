"""Shows a materialized view on the whole terminal and draws it again whenever it changes.

Law: the drawing shows the view at an epoch no older than the one named above it; the change counts
are the changefeed's since the last drawing. Changes may come from any thread of this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from ivm.database import Database
from ivm.engine.changefeed import WEIGHT, Subscription
from ivm.shell.console import Console
from ivm.shell.listing import named, parsed
from ivm.shell.output import Paint
from ivm.shell.table import Shown, box, shown_part
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError, IvmError

_BETWEEN_DRAWINGS = 0.1  # seconds: a stream of small commits is drawn ten times a second
_LINES_AROUND = 7  # head line, blank, and the table's own lines


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


def watch(console: Console, name: str) -> None:
    """Shows a view until the user types q or Ctrl-C.

    Raises:
        InputError: there is no terminal, or a transaction is open.
        SqlError: there is no materialized view of that name.
    """
    if not console.output.is_terminal:
        raise InputError(
            ".watch needs a terminal: in a script SELECT from the view, or in Python use "
            f"db.subscribe({name!r})"
        )
    if console.database.in_transaction:
        raise InputError(
            ".watch shows what is committed, and a transaction is open: COMMIT or ROLLBACK it first"
        )
    database = console.database
    with database.subscribe(name) as feed:
        reader = ViewReader(database, feed.view, console.zone())  # other threads' sessions differ
        Screen(reader, feed, console.output.paint).run()


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

    @property
    def epoch(self) -> int:
        """The epoch of the database's last commit."""
        return self._database.epoch

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
    tree = parsed(next((view.sql for view in database.views() if view.name == name), ""))
    order = None if tree is None else tree.args.get("order")
    terms = order.expressions if order is not None else []
    return [", ".join(term.sql(dialect="duckdb") for term in terms)] if terms else []


def drawn(name: str, picture: Picture, width: int, paint: Paint) -> list[str]:
    """Returns the lines of the screen."""
    head = [paint("bold", name), counted(picture.rows, "row"), f"epoch {picture.epoch:,}"]
    if picture.added or picture.removed:
        added = paint("added", f"+{picture.added:,}")
        removed = paint("removed", f"−{picture.removed:,}")
        head.append(f"last change {added} {removed}")
    head.append(paint("dim", "q ends"))
    lines = ["   ".join(head), "", *box(picture.shown, width, paint, picture.marked)]
    rest = picture.rows - picture.shown.rows
    return [*lines, paint("dim", f"… {counted(rest, 'row')}")] if rest > 0 else lines


class Screen:
    """The full-screen display; a thread of its own waits for changes and reads the view.

    Args:
        reader: reads the view.
        feed: its changes.
        paint: colours.
    """

    def __init__(self, reader: ViewReader, feed: Subscription, paint: Paint) -> None:
        self._reader = reader
        self._feed = feed
        self._paint = paint
        self._picture: Picture | None = None
        self._error: Exception | None = None
        self._ending = threading.Event()
        self._app: Application[None] = Application(
            layout=Layout(
                Window(FormattedTextControl(lambda: ANSI(self.text())), always_hide_cursor=True)
            ),
            key_bindings=_keys(),
            full_screen=True,
        )

    def run(self) -> None:
        """Shows the view until a key ends it; raises the error of its reader."""
        thread = threading.Thread(target=self._follow, name="ivm-watch", daemon=True)
        try:
            self._app.run(pre_run=thread.start)
        finally:
            self._ending.set()
            thread.join()
        if self._error is not None:
            raise self._error

    def text(self) -> str:
        """Returns the text on the screen."""
        if self._picture is None:
            return "…"
        width = self._app.output.get_size().columns
        return "\n".join(drawn(self._reader.name, self._picture, width, self._paint))

    def _follow(self) -> None:
        try:
            self._draw(self._reader.epoch, [])
            while not self._ending.is_set():
                self._wait_for_change()
        except (IvmError, duckdb.Error) as error:
            self._error = error
            self._in_app(self._app.exit)

    def _wait_for_change(self) -> None:
        item = self._feed.poll(0.2)
        if item is None:
            if self._feed.ended:
                raise InputError(
                    f"{self._reader.name} changes no more: it was dropped or replaced, "
                    "or the database was closed"
                )
            return
        epoch, delta = item
        deltas = [delta]
        time.sleep(_BETWEEN_DRAWINGS)
        while (item := self._feed.poll(0)) is not None:
            epoch = item[0]
            deltas.append(item[1])
        self._draw(epoch, deltas)

    def _draw(self, epoch: int, deltas: list[pa.Table]) -> None:
        room = self._app.output.get_size().rows - _LINES_AROUND
        self._picture = self._reader.picture(epoch, deltas, max(room, 1))
        self._in_app(self._app.invalidate)  # in this thread it fails if the app ends meanwhile

    def _in_app(self, act: Callable[[], None]) -> None:
        """Calls a method of the app in its own thread, unless the app has ended."""
        loop = self._app.loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed by now
                loop.call_soon_threadsafe(act)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    def leave(event: KeyPressEvent) -> None:
        event.app.exit()

    for key in ("q", "Q", "c-c", "c-d", "escape"):
        keys.add(key)(leave)
    return keys

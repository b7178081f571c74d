"""Shows a materialized view on the whole terminal and draws it again whenever it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import duckdb
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from ivm.engine.feeds.changefeed import Subscription
from ivm.shell.console import Console
from ivm.shell.display.output import Paint
from ivm.shell.display.table import box
from ivm.shell.view_pictures import Picture, ViewReader, headline
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError, IvmError

_LINES_AROUND = 7  # head line, blank, and the table's own lines


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


def drawn(name: str, picture: Picture, width: int, paint: Paint) -> list[str]:
    """Returns the lines of the screen."""
    head = [*headline(name, picture, paint), paint("dim", "q ends")]
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
            for picture in self._reader.pictures(self._feed, self._room, self._ending):
                self._picture = picture
                self._in_app(self._app.invalidate)  # in this thread it fails if the app ends
        except (IvmError, duckdb.Error) as error:
            self._error = error
            self._in_app(self._app.exit)

    def _room(self) -> int:
        """The rows that the screen has room for."""
        return max(self._app.output.get_size().rows - _LINES_AROUND, 1)

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

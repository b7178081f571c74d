"""A materialized view in a notebook's output, which is shown anew in its place when it changes.

Law: what is shown is the view at an epoch no older than the one named above it. A thread of its own
waits for changes, so that other cells can run: those that change the tables, for one.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from html import escape

import duckdb
from IPython.display import display

from ivm.database import Database
from ivm.shell.display.output import Paint
from ivm.shell.display.table import SHOWN_ROWS, box
from ivm.shell.view_pictures import Picture, ViewReader, headline
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError, IvmError

_PLAIN = Paint(on=False)
_ADDED = "background: rgba(80, 180, 80, 0.25)"
_LEFT = "text-align: left"


class Watch:
    """One view in the output of a cell.

    Args:
        database: the view's.
        name: of the view.

    Attributes:
        view: its canonical name.

    Raises:
        SqlError: there is no materialized view of that name.
        InputError: a transaction is open in this thread.
    """

    def __init__(self, database: Database, name: str) -> None:
        if database.in_transaction:
            raise InputError(
                "%ivm watch shows what is committed, and a transaction is open: COMMIT or ROLLBACK "
                "it first"
            )
        zone = database.execute("SELECT current_setting('TimeZone')").fetchall()[0][0]
        self._feed = database.subscribe(name)
        self.view = self._feed.view
        self._ending = threading.Event()
        reader = ViewReader(database, self.view, zone)  # other threads' sessions differ
        self._pictures = reader.pictures(self._feed, lambda: SHOWN_ROWS, self._ending)
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Shows the view as it is, and follows it from then on."""
        try:
            picture = next(self._pictures)
            drawn = _drawn(self.view, picture)
            self._shown = display(drawn, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            context = contextvars.copy_context()  # the cell whose output it is
            self._thread = threading.Thread(
                target=context.run, args=(self._follow, picture), name="ivm-watch", daemon=True
            )
            self._thread.start()
        except BaseException:
            self._feed.close()
            raise

    def end(self) -> None:
        """Leaves what is shown as it is; ending twice does nothing."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, picture: Picture) -> None:
        with self._feed:
            try:
                for picture in self._pictures:
                    self._shown.update(_drawn(self.view, picture), raw=True)
            except (IvmError, duckdb.Error) as error:
                self._shown.update(_drawn(self.view, picture, str(error)), raw=True)


def _drawn(view: str, picture: Picture, note: str = "") -> dict[str, str]:
    """The view as HTML, and as text for what shows none."""
    head, rest = "   ".join(headline(view, picture, _PLAIN)), _rest(picture)
    text = [head, *box(picture.shown, None, _PLAIN), rest, note]
    return {
        "text/html": "".join(_html(head, picture, rest, note)),
        "text/plain": "\n".join(filter(None, text)),
    }


def _rest(picture: Picture) -> str:
    rest = picture.rows - picture.shown.rows
    return f"… {counted(rest, 'row')}" if rest > 0 else ""


def _html(head: str, picture: Picture, rest: str, note: str) -> Iterator[str]:
    yield f"<div>{escape(head)}</div><table><thead><tr>"
    yield from (_cell("th", name) for name in picture.shown.names)
    yield "</tr></thead><tbody>"
    for row in zip(*picture.shown.cells, strict=True):
        yield f'<tr style="{_ADDED}">' if row in picture.marked else "<tr>"
        yield from (_cell("td", value) for value in row)
        yield "</tr>"
    yield "</tbody></table>"
    yield from (f"<div>{escape(line)}</div>" for line in (rest, note) if line)


def _cell(tag: str, value: str | None) -> str:
    text = "<i>NULL</i>" if value is None else escape(value)
    return f'<{tag} style="{_LEFT}">{text}</{tag}>'

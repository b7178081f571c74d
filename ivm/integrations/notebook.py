"""The magics of IPython: `%ivm` and `%%ivm` run SQL, `%ivm watch` shows a view as it changes.

Contract: statements run as `db.sql` would run them in the cell: they can name its variables.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.display import display

from ivm.database import Database, connect
from ivm.engine.changefeed import Subscription
from ivm.lifetime import opened
from ivm.session.relation import Relation
from ivm.storage.errors import IvmError
from ivm.storage.identifiers import quote, split_name

_PAUSE = 0.1  # seconds between two drawings of a view
_SHOWN = 10_000  # rows of a view that are read for a drawing
_USAGE = "%ivm SQL · %%ivm and SQL · %ivm connect FILE · %ivm watch VIEW · %ivm unwatch [VIEW]"


@magics_class
class IvmMagics(Magics):
    """`%ivm` and `%%ivm`.

    Args:
        shell: whose variables statements can read.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._variables: dict[str, Any] = shell.user_ns
        self._database: Database | None = None
        self._watches: dict[str, _Watch] = {}

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def ivm(self, line: str, cell: str | None = None, local_ns: Any = None) -> Any:
        """Runs SQL, or one of the commands connect, watch and unwatch."""
        command, _, rest = line.strip().partition(" ")
        commands: dict[str, Callable[[str], Any]] = {
            "connect": self._connect,
            "watch": self._watch,
            "unwatch": self._unwatch,
        }
        if cell is None and command.lower() in commands:
            return commands[command.lower()](rest.strip().strip("'"))
        text = line if cell is None else f"{line}\n{cell}"
        if not text.strip():
            raise UsageError(_USAGE)
        return self._run(text, local_ns or {})

    def _run(self, text: str, variables: Mapping[str, Any]) -> Any:
        database = self._current()
        scope = {**variables, "__ivm__": lambda: database.sql(text)}
        try:  # in a frame that has the cell's variables
            return eval("__ivm__()", self._variables, scope)
        except IvmError as error:
            told = f"{type(error).__name__}: {error}"
            vars(error)["_render_traceback_"] = lambda: [told]  # IPython asks for it
            raise

    def _connect(self, path: str) -> Database:
        path = path or ":memory:"
        found = opened(path)
        self._database = found if isinstance(found, Database) else connect(path)
        return self._database

    def _current(self) -> Database:
        """The database of `%ivm connect`, else the only one among the variables."""
        if self._database is not None:
            return self._database
        values = self._variables.values()
        found = {id(value): value for value in values if isinstance(value, Database)}
        if len(found) != 1:
            what = "no database is" if not found else f"{len(found)} databases are"
            raise UsageError(f"{what} open here: say which with %ivm connect shop.duckdb")
        return next(iter(found.values()))

    def _watch(self, view: str) -> None:
        if not view:
            raise UsageError(_USAGE)
        self._unwatch(view)
        self._watches[view] = _Watch(self._current(), view)

    def _unwatch(self, view: str) -> None:
        for name in [view] if view else list(self._watches):
            if name in self._watches:
                self._watches.pop(name).stop()


class _Watch:
    """One view shown in the output of a cell, drawn again after its changes.

    Args:
        database: has the view.
        view: its name.
    """

    def __init__(self, database: Database, view: str) -> None:
        self._database, self._view = database, view
        self._feed: Subscription = database.subscribe(view)
        self._stopping = threading.Event()
        self._handle = display(self._drawn(), display_id=True)
        self._thread = threading.Thread(target=self._follow, name=f"ivm watch {view}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leaves the view as it is drawn."""
        self._stopping.set()
        self._feed.close()
        self._thread.join()

    def _drawn(self) -> _Drawing:
        name = ".".join(map(quote, split_name(self._view)))
        epoch = self._database.epoch  # the rows are of this one, or of a later one
        relation = self._database.sql(f"SELECT * FROM {name} ORDER BY ALL LIMIT {_SHOWN}")
        assert relation is not None
        return _Drawing(f"{self._view} at epoch {epoch}", relation)

    def _follow(self) -> None:
        try:
            for _ in self._feed:
                while self._feed.poll(timeout=0) is not None:  # one drawing for all that wait
                    pass
                self._handle.update(self._drawn())
                if self._stopping.wait(_PAUSE):
                    return
            if not self._stopping.is_set():
                self._handle.update(_Drawing(f"{self._view} has ended"))
        except IvmError as error:
            self._handle.update(_Drawing(f"{self._view} cannot be followed any more: {error}"))


class _Drawing:
    """A line about a view, and its rows."""

    def __init__(self, head: str, rows: Relation | None = None) -> None:
        self._head, self._rows = head, rows

    def __repr__(self) -> str:
        return self._head if self._rows is None else f"{self._head}\n{self._rows}"

    def _repr_html_(self) -> str:
        table = "" if self._rows is None else self._rows._repr_html_()
        return f"<b>{html.escape(self._head)}</b>{table}"


def load(shell: InteractiveShell) -> None:
    """Registers the magics with a shell."""
    shell.register_magics(IvmMagics(shell))

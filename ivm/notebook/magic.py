"""The magics %ivm and %%ivm: SQL in a cell, a connection for it, and views that are watched.

Contract: SQL runs as `Database.execute` runs it, and reads the notebook's variables by their names;
IPython replaces nothing in its text. An error keeps its type, and is shown without our frames. A
query ends within the call: an error of its last rows fails the cell, not what shows its result.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import needs_local_scope, no_var_expand

from ivm.client.database import RemoteDatabase
from ivm.connection import Connection, Cursor
from ivm.database import Database, connect
from ivm.notebook.watch import Watch
from ivm.open_databases import file_of, opened
from ivm.session.names.caller_scope import values_of, variables
from ivm.session.results.result import Result
from ivm.storage.errors import IvmError
from ivm.storage.identifiers import fold, path_of, split_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAME = "ivm"
_COMMAND = re.compile(r"(\w+)(?:\s+(.*?))?\s*;?\s*", re.DOTALL)
_USAGE = """\
%ivm connect shop.duckdb    opens a database (or takes a variable's: %ivm connect db)
%ivm SELECT …               runs SQL; %%ivm runs the statements of a cell, and shows the last result
%ivm watch revenue          shows a materialized view as it changes
%ivm unwatch [revenue]      leaves it, or all of them, as they are
%ivm close                  closes the database, if it was opened here"""


class Magic:
    """The magics of one shell.

    Args:
        shell: IPython's.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._database: Database | RemoteDatabase | None = None
        self._owned = False
        self._watches: dict[str, Watch] = {}
        self._commands: dict[str, Callable[[str], None]] = {
            "connect": self._connect,
            "watch": self._watch,
            "unwatch": self._unwatch,
            "close": self._close,
        }

    @classmethod
    def register(cls, shell: InteractiveShell) -> Magic:
        """Makes `%ivm` and `%%ivm` known to a shell."""
        magic = cls(shell)

        def ivm(
            line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None
        ) -> Result | None:
            return magic.run(line, cell, local_ns)

        ivm.__doc__ = _USAGE
        decorated = no_var_expand(needs_local_scope(ivm))
        register: Callable[..., None] = shell.register_magic_function  # its type lacks arguments
        register(decorated, "line_cell", NAME)
        return magic

    def remove(self) -> None:
        """Undoes `register`, and closes what was opened."""
        self._close("")
        for kind in ("line", "cell"):
            self._shell.magics_manager.magics[kind].pop(NAME, None)

    def run(self, line: str, cell: str | None, local_ns: Mapping[str, Any] | None) -> Result | None:
        """Runs a command of the magic's, or SQL."""
        try:
            with variables(ChainMap(dict(local_ns or {}), self._shell.user_ns)):
                return self._run(line, cell)
        except IvmError as error:
            _show_plainly(error)
            raise

    def _run(self, line: str, cell: str | None) -> Result | None:
        if cell is None:
            found = _COMMAND.fullmatch(line)
            command = self._commands.get(found[1].lower()) if found else None
            if found is not None and command is not None:
                command(found[2] or "")
                return None
        sql = line if cell is None else f"{line}\n{cell}"
        if not sql.strip():
            raise UsageError(f"there is nothing to run\n{_USAGE}")
        result = self._demand().execute(sql)
        result.held()
        return result

    def _demand(self) -> Database | RemoteDatabase:
        if self._database is None:
            raise UsageError("no database is open: %ivm connect shop.duckdb")
        return self._database

    def _connect(self, argument: str) -> None:
        path = argument.strip("'\"")
        if not path:
            raise UsageError("%ivm connect takes a path, :memory:, or a variable's name")
        given = self._given(path)
        database = connect(path, durability=None) if given is None else given
        if database is not self._database:
            self._close("")
        self._owned |= given is None
        self._database = database
        print(f"connected to {database.path}")

    def _given(self, name: str) -> Database | RemoteDatabase | None:
        """The database that a variable holds, or that has the file of that name open."""
        variable = values_of(frozenset((name,)), all_frames=False).get(name)
        if isinstance(variable, Database | RemoteDatabase):
            return variable
        if isinstance(variable, Connection | Cursor):
            of = "connection.database" if isinstance(variable, Cursor) else "database"
            raise UsageError(
                f"{name} is a {type(variable).__name__}, whose session is its own: give the magic "
                f"its database (db = {name}.{of}, then %ivm connect db)"
            )
        found = opened(file_of(name))
        return None if found is None else next(iter(found.owners), None)

    def _close(self, argument: str) -> None:
        self._unwatch("")
        database, owned = self._database, self._owned
        self._database, self._owned = None, False
        if database is not None and owned:
            database.close()

    def _watch(self, argument: str) -> None:
        if not argument:
            raise UsageError("%ivm watch takes the name of a materialized view")
        if not hasattr(self._shell, "kernel"):
            raise UsageError(
                "%ivm watch needs a notebook, whose output can change: in a terminal use .watch of "
                "`ivm shell`, or db.subscribe"
            )
        database = self._demand()
        if isinstance(database, RemoteDatabase):
            raise UsageError(
                "%ivm watch shows views of a database that this process has open: over ivm:// "
                "follow one by db.subscribe"
            )
        watch = Watch(database, argument)
        before = self._watches.get(watch.view)
        if before is not None:
            before.end()
        self._watches[watch.view] = watch
        watch.begin()

    def _unwatch(self, argument: str) -> None:
        ended = [view for view in self._watches if not argument or _is_named(view, argument)]
        if argument and not ended:
            watched = ", ".join(self._watches) or "nothing"
            raise UsageError(f"{argument} is not watched; {watched} is")
        for view in ended:
            self._watches.pop(view).end()


def _is_named(view: str, written: str) -> bool:
    """Returns whether a name, as SQL writes it, can be that of a view, which may be dropped."""
    given = [fold(part) for part in split_name(written)]
    path = [fold(part) for part in path_of(view)]
    return given[-len(path) :] == path[-len(given) :]


def _show_plainly(error: IvmError) -> None:
    """Lets IPython show an error's message alone."""
    shown = [f"{type(error).__name__}: {error}"]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]

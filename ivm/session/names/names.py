"""Names as one session sees them: its temporary relations hide those of the database.

Invariant: temporary things and attached databases are read from DuckDB again after each statement
of the session that may have changed them, and after the transaction in which they were read, which
may have been undone. A session that has made nothing temporary and attached nothing reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ivm.catalog.names import NOTHING
from ivm.engine.engine import Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.sql.statements import parse as st
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_TEMPORARY = """
SELECT 'table', table_name FROM system.main.duckdb_tables() WHERE temporary
UNION ALL SELECT 'view', view_name FROM system.main.duckdb_views() WHERE temporary AND NOT internal
UNION ALL SELECT 'type', type_name FROM system.main.duckdb_types()
WHERE database_name = 'temp' AND NOT internal
UNION ALL SELECT DISTINCT 'macro', function_name FROM system.main.duckdb_functions()
WHERE database_name = 'temp' AND NOT internal
"""
# Statements whose text does not show what they make:
_ANYTHING = ("import", "copy database", "call", "pragma")


class Temporary(NamedTuple):
    """A table, view, type or macro that only its session sees."""

    kind: str
    name: str


class Owner(Protocol):
    """The part of a session that its names use."""

    engine: Engine
    cursor: Cursor
    transaction: Transaction | None

    def release(self) -> None:
        """Frees the cursor: an open result is read into memory."""


class SessionNames:
    """A session's temporary things, and the resolution of names where these hide others.

    Args:
        session: whose cursor sees its temporary things.
    """

    def __init__(self, session: Owner) -> None:
        self._session = session
        self._temporary: tuple[Temporary, ...] = ()
        self._hidden = self._macros = NOTHING
        self._uncertain = self._attaches = False
        self._read_in: Transaction | None = None

    @property
    def temporary(self) -> tuple[Temporary, ...]:
        """All temporary things of the session."""
        self._follow()
        return self._temporary

    @property
    def hidden(self) -> frozenset[str]:
        """The folded names of the temporary relations, which hide those of schema main."""
        self._follow()
        return self._hidden

    @property
    def macros(self) -> frozenset[str]:
        """The names of the temporary macros, in lower case."""
        self._follow()
        return self._macros

    def resolve(self, parts: Sequence[str]) -> str | None:
        """The canonical name of the relation that is meant; None if it is not in the catalog."""
        if self._uncertain or self._read_in is not None:
            self._follow()
        return self._session.engine.catalog.names.resolve(parts, self._hidden)

    def is_temporary(self, parts: Sequence[str]) -> bool:
        """Returns whether a name means one of the session's temporary relations."""
        *schemas, name = [fold(part) for part in parts]
        return name in self.hidden and (schemas in ([], ["main"]) or schemas[0] == "temp")

    def hides(self, parts: Sequence[str]) -> str | None:
        """The canonical name of the relation that a name means apart from temporary relations."""
        return self._session.engine.catalog.names.resolve(parts) if self.hidden else None

    def learn(self, statement: st.Ddl) -> None:
        """Notes a statement that the session has run, or tried; it may change the names."""
        engine = self._session.engine
        renamed = statement.action == "alter" and statement.target == "database"
        if statement.action in ("attach", "detach") or renamed:
            self._attaches = True
            engine.reload_databases(engine.warehouse.cursor())
        named = any(len(name) > 1 and fold(name[0]) == "temp" for name in statement.names)
        made = statement.temporary or named or statement.action in _ANYTHING
        self._uncertain |= bool(made or self._attaches or self._temporary)

    def _follow(self) -> None:
        before = self._read_in
        undone = before is not None and (
            before is not self._session.transaction or before.over is not None
        )
        if self._uncertain or undone:
            self._read()

    def _read(self) -> None:
        session = self._session
        session.release()
        found = [Temporary(kind, name) for kind, name in rows(session.cursor, _TEMPORARY)]
        self._temporary = tuple(found)
        self._hidden = frozenset([fold(t.name) for t in found if t.kind in ("table", "view")])
        self._macros = frozenset([fold(t.name) for t in found if t.kind == "macro"])
        if self._attaches:
            session.engine.reload_databases(session.cursor)
        transaction = session.transaction
        self._read_in = None if transaction is None or transaction.over else transaction
        self._uncertain = False
        self._attaches &= self._read_in is not None

"""Names as one session sees them: what it has made temporary hides what all sessions have.

Law: what is temporary or attached is read from DuckDB anew after each statement of the session's
own that may have changed it, and when the transaction has ended in which it was read: that may have
been undone. A session that never made anything temporary and attached nothing asks DuckDB nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ivm.catalog.names import NOTHING
from ivm.engine.engine import Engine
from ivm.engine.transaction import Transaction
from ivm.sql.statements import parse as st
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duck import Cursor, rows

_TEMPORARY = """
SELECT 'table', table_name FROM system.main.duckdb_tables() WHERE temporary
UNION ALL SELECT 'view', view_name FROM system.main.duckdb_views() WHERE temporary AND NOT internal
UNION ALL SELECT 'type', type_name FROM system.main.duckdb_types()
WHERE database_name = 'temp' AND NOT internal
UNION ALL SELECT DISTINCT 'macro', function_name FROM system.main.duckdb_functions()
WHERE database_name = 'temp' AND NOT internal
"""
# Statements whose words do not tell what they make:
_ANYTHING = ("import", "copy database", "call", "pragma")


class Temporary(NamedTuple):
    """Something that only its session sees: a table, view, type or macro."""

    kind: str
    name: str


class Owner(Protocol):
    """A session as its names see it."""

    engine: Engine
    cursor: Cursor
    transaction: Transaction | None

    def release(self) -> None:
        """Have the cursor free."""


class SessionNames:
    """What the session has for itself, and what names mean beside it.

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
        """Folded names of the temporary relations, which stand before those of schema main."""
        self._follow()
        return self._hidden

    @property
    def macros(self) -> frozenset[str]:
        """Names of the temporary macros, in small letters."""
        self._follow()
        return self._macros

    def resolve(self, parts: Sequence[str]) -> str | None:
        """The canonical name of the relation of the database that the session means, or None."""
        if self._uncertain or self._read_in is not None:
            self._follow()
        return self._session.engine.catalog.names.resolve(parts, self._hidden)

    def is_temporary(self, parts: Sequence[str]) -> bool:
        """Whether a name means one of the session's temporary relations."""
        *schemas, name = [fold(part) for part in parts]
        return name in self.hidden and (schemas in ([], ["main"]) or schemas[0] == "temp")

    def hides(self, parts: Sequence[str]) -> str | None:
        """The relation of the database that a name would mean if the session had none alike."""
        return self._session.engine.catalog.resolve(parts) if self.hidden else None

    def learn(self, statement: st.Ddl) -> None:
        """The session has run, or tried, this statement."""
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

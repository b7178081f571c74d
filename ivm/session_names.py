"""Names as one session sees them: its temporary tables and views hide tables of the database.

Law: what is temporary or attached is read from DuckDB anew after each statement of the session's
own that may have changed it, and while the transaction of such a statement is open: it may yet be
undone. A session that never made anything temporary and attached nothing asks DuckDB nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ivm.names import NOTHING
from ivm.sql import statements as st
from ivm.storage.duck import rows
from ivm.storage.identifiers import fold

if TYPE_CHECKING:
    from ivm.session import Session

_TEMPORARY = """
SELECT table_name FROM system.main.duckdb_tables() WHERE temporary UNION ALL
SELECT view_name FROM system.main.duckdb_views() WHERE temporary AND NOT internal
"""
# Statements whose words do not tell what they make:
_ANYTHING = ("import", "copy database", "call", "pragma")


class SessionNames:
    """Resolves names for a session.

    Args:
        session: whose cursor sees its temporary relations.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hidden = NOTHING
        self._uncertain = False
        self._attaches = False

    @property
    def hidden(self) -> frozenset[str]:
        """Folded names of the temporary relations, which stand before those of schema main."""
        if self._uncertain:
            self._read()
        return self._hidden

    def resolve(self, parts: Sequence[str]) -> str | None:
        """The canonical name of the relation of the database that the session means, or None."""
        return self._session.engine.catalog.resolve(parts, self.hidden)

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
        anything = statement.action in _ANYTHING or self._attaches
        self._uncertain |= bool(named or anything or statement.temporary or self._hidden)

    def _read(self) -> None:
        session = self._session
        session.release()
        self._hidden = frozenset([fold(name) for (name,) in rows(session.cursor, _TEMPORARY)])
        if self._attaches:
            session.engine.reload_databases(session.cursor)
        transaction = session.transaction
        self._uncertain = transaction is not None and transaction.over is None
        self._attaches &= self._uncertain

"""The views that an open transaction creates, fills anew or drops.

Law: the circuit does not follow them: their tables are filled from the tables as the transaction
sees them, and again before they are read or committed if changes came later. Only the commit lets
the circuit forget what they were. Who listens to one that stays gets the difference of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ivm.storage.warehouse.system_tables import save_view

if TYPE_CHECKING:
    from ivm.catalog.catalog import View
    from ivm.engine.engine import Engine
    from ivm.storage.values.zset import ZSet
    from ivm.storage.warehouse.duck import Cursor

_NEVER = -1


class RebuiltViews:
    """Names of views, and after how many changes of the transaction each was filled.

    Args:
        engine: the database's engine.
        cursor: the session's cursor.
    """

    def __init__(self, engine: Engine, cursor: Cursor) -> None:
        self._engine = engine
        self._tables = engine.view_tables
        self._cursor = cursor
        self._filled: dict[str, int] = {}
        self._dropped: set[str] = set()
        self._created: set[str] = set()
        self._known: dict[str, ZSet] = {}

    def __bool__(self) -> bool:
        return bool(self._filled or self._dropped)

    def __contains__(self, name: str) -> bool:
        return name in self._filled

    def create(self, name: str, changes: int) -> None:
        """A view was created, filled after so many changes."""
        self._created.add(name)
        self._filled[name] = changes

    def refill(self, name: str) -> None:
        """What a view reads is not what it was."""
        self._filled[name] = _NEVER

    def drop(self, name: str) -> None:
        """A view is no more."""
        self._filled.pop(name, None)
        self._dropped.add(name)

    @property
    def followed(self) -> set[str] | None:
        """The views that the circuit still follows; None for all."""
        left_out = self._filled.keys() | self._dropped
        return self._engine.catalog.views.keys() - left_out if left_out else None

    def lacking(self, changes: int) -> list[View]:
        """Views that were filled before the last of so many changes, those below first."""
        views = self._engine.catalog.views.items()
        return [view for name, view in views if self._filled.get(name, changes) < changes]

    def fill(self, views: Iterable[View], changes: int) -> None:
        """Fill views from what they read, as it is after so many changes."""
        for view in views:
            self._tables.refill(self._cursor, view)
            save_view(self._cursor, self._tables.stored(view, exact=not view.rounds))
            self._filled[view.name] = changes

    def remember_rows(self) -> None:
        """Keep the rows that listeners know; the transaction is about to commit."""
        stay = self._filled.keys() - self._dropped - self._created
        listened = [name for name in self._engine.feeds.views if name in stay]
        self._known = {name: self._engine.tables.content(name) for name in listened}

    def adopt(self) -> None:
        """The transaction has committed."""
        if self:
            self._tables.rebuild(self._dropped, self._filled, self._known)

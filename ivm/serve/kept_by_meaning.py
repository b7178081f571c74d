"""What is found about statements, kept for as long as the names in them mean the same.

Law: what comes of an error is not kept, nor what a session alone sees (its temporary relations, the
catalog of its open transaction, the snapshot of one that is READ ONLY), nor anything about names
that come to mean others without a commit: those of files, and of what a table is pivoted to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ivm.serve.definition_texts import names_any, texts_of
from ivm.serve.from_clauses import means_by_catalog
from ivm.session.session import Session

T = TypeVar("T")
_MOST = 2048


def meaning_of(session: Session, text: str) -> Hashable:
    """Equal as long as the names in a text mean the same; None if that is not known."""
    meaning = session.engine.meaning()
    if meaning is None or session.sees_more() or session.is_pinned:
        return None
    if not means_by_catalog(text):
        return None
    changing = texts_of(session.engine).changing
    return None if changing and names_any(text, changing) else meaning


class KeptByMeaning:
    """Remembers answers for all sessions of one database; any thread calls it."""

    def __init__(self) -> None:
        self._known: tuple[Hashable, dict[Hashable, Any]] = None, {}  # and what names meant

    def get(
        self, session: Session, text: str, more: Hashable, asked: Callable[[], T | None]
    ) -> T | None:
        """The answer that is known about a text, or is asked for; None is none.

        Args:
            session: asks.
            text: a statement.
            more: on which the answer depends.
            asked: finds it out.
        """
        meaning = meaning_of(session, text)
        if meaning is None:
            return asked()
        then, known = self._known  # another thread may put others in their place meanwhile
        if meaning != then or len(known) >= _MOST:
            self._known = meaning, (known := {})
        key = text, more
        found: T | None = known.get(key)
        if found is None:
            found = asked()
            if found is not None and meaning == session.engine.meaning():
                known[key] = found
        return found

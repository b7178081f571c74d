"""What is found about statements, kept for as long as the names in them mean the same.

Law: what comes of an error is not kept, nor what a session alone sees.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ivm.session.session import Session

T = TypeVar("T")
_MOST = 2048


class KeptByMeaning:
    """Remembers answers for all sessions of one database; any thread calls it."""

    def __init__(self) -> None:
        self._known: tuple[Hashable, dict[Hashable, Any]] = None, {}  # and what names meant

    def get(self, session: Session, key: Hashable, asked: Callable[[], T | None]) -> T | None:
        """The answer that is known, or is asked for; None is none."""
        meaning = session.engine.meaning()
        if meaning is None or session.sees_more():
            return asked()
        then, known = self._known  # another thread may put others in their place meanwhile
        if meaning != then or len(known) >= _MOST:
            self._known = meaning, (known := {})
        found: T | None = known.get(key)
        if found is None:
            found = asked()
            if found is not None and meaning == session.engine.meaning():
                known[key] = found
        return found

"""How the last statements are done, kept for the time when the same texts come again.

Law: a plan is a function of the statement's text and of some objects that do not change, its
table's among them; so it holds as long as these are the same objects.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple, TypeVar

from ivm.ingest.not_fast import NotFastError
from ivm.sql.statements.text.cached_by_text import LONGEST

P = TypeVar("P")
_MOST = 256


class PlanCache:
    """The plans of one session."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[tuple[object, ...], Any]] = {}

    def find(self, kind: str, text: str, of: tuple[object, ...], plan: Callable[[], P]) -> P:
        """The plan of a statement, or that it has none.

        Args:
            kind: of plan: a statement may have several.
            text: the statement.
            of: all else that the plan depends on.
            plan: makes it if it is not known.

        Raises:
            NotFastError: by `plan`.
        """
        known = self._known.get((kind, text))
        if known is None or not all(map(is_, known[0], of)):
            known = of, _made(plan)
            if len(text) <= LONGEST:
                if len(self._known) >= _MOST:
                    self._known.clear()
                self._known[kind, text] = known
        if isinstance(known[1], _NoPlan):
            raise NotFastError(known[1].reason)
        return known[1]  # type: ignore[no-any-return]


class _NoPlan(NamedTuple):
    """That a statement has no plan.

    Attributes:
        reason: why DuckDB has to run it.
    """

    reason: str


def _made(plan: Callable[[], P]) -> P | _NoPlan:
    try:
        return plan()
    except NotFastError as error:
        return _NoPlan(error.reason)

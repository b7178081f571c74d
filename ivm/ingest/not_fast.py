"""The way by which the fast path leaves a change to DuckDB, with the reason.

Law: whoever raises it has changed nothing and drawn from no sequence. DuckDB makes the change then,
and words its errors; EXPLAIN prints the reason.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

VIOLATES = "a row may violate a constraint, of which DuckDB words the error"


class NotFastError(Exception):
    """A change that only DuckDB can make, or decide about.

    Args:
        reason: why, as a clause.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def demanded(found: T | None, reason: str) -> T:
    """What was found.

    Args:
        found: None if there is none.
        reason: why DuckDB has to make the change then.

    Raises:
        NotFastError: there is none.
    """
    if found is None:
        raise NotFastError(reason)
    return found

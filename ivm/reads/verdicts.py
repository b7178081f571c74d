"""Why a query, or a shape of several texts, is not answered from memory."""

from __future__ import annotations

NO_KEY = "it does not ask for a key of the table {!r}, nor by an index of it"


class NotFromStateError(Exception):
    """The query is answered by DuckDB; the message says why."""


class LiftedError(Exception):
    """A lifted literal stands where it must not be one; the message says why."""

    def __init__(self, reason: str = "a literal whose type matters") -> None:
        super().__init__(reason)

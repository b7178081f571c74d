"""Troubles: failures in the database's own threads, raised to the next caller.

Contract: no failure is silent. It is stored until it has been raised to one caller, or until the
same work has succeeded; its thread goes on, and tries again.
"""

from __future__ import annotations

import duckdb

from ivm.storage.errors import UnavailableError


class Troubles:
    """Failures in the background of one database, by the work that failed."""

    def __init__(self) -> None:
        self._failures: dict[str, Exception] = {}

    def add(self, work: str, error: Exception) -> None:
        """Stores the failure of some work."""
        self._failures[work] = error

    def remove(self, work: str) -> None:
        """Removes the failure of some work, which has succeeded."""
        self._failures.pop(work, None)

    def told(self) -> list[str]:
        """The stored failures in words; they stay until they are raised."""
        return [f"{work} has failed: {error}" for work, error in list(self._failures.items())]

    def raise_one(self) -> None:
        """Raises a stored failure, once.

        Raises:
            UnavailableError: some work failed; nothing has been done for this caller.
        """
        while self._failures:
            try:
                work, error = self._failures.popitem()
            except KeyError:  # its thread has removed it meanwhile
                return
            raise UnavailableError(
                f"{work} has failed in the background ({error!r}) and is tried again; no commit is"
                f" lost. This call has done nothing: {_way_out(error)}"
            ) from error


def _way_out(error: Exception) -> str:
    if isinstance(error, duckdb.FatalException):
        return "DuckDB has given the database up; mend the cause, close it and open it again"
    return "mend the cause, then repeat it"

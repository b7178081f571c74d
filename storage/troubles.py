"""Troubles: failures in the database's own threads, kept for the next caller.

Contract: no failure is silent. It is kept until it has been raised to one caller or the same work
has been done after all; its thread goes on, and tries again.
"""

from __future__ import annotations

from ivm.storage.errors import UnavailableError


class Troubles:
    """Failures in the background of one database, by the work that failed."""

    def __init__(self) -> None:
        self._kept: dict[str, Exception] = {}

    def keep(self, work: str, error: Exception) -> None:
        """Keeps a failure of this work."""
        self._kept[work] = error

    def over(self, work: str) -> None:
        """Forgets the failure: the work has been done."""
        self._kept.pop(work, None)

    def tell(self) -> None:
        """Raises the failure that is kept, once.

        Raises:
            UnavailableError: some work failed; nothing has been done for this caller.
        """
        while self._kept:
            try:
                work, error = self._kept.popitem()
            except KeyError:  # it has been done just now
                return
            raise UnavailableError(
                f"{work} has failed in the background ({error!r}) and is tried again; no commit is"
                " lost. This call has done nothing: mend the cause, then repeat it"
            ) from error

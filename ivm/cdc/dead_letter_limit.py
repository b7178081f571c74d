"""The limits of dead letters, past which a source stops: what all of its events are is no dirt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ivm.cdc.apply import Applied
from ivm.cdc.sources.source import Source, SourceError

_LEAST = 1_000  # events, before a share says anything


class DeadLetterLimit:
    """Counts the events and the dead letters of one source.

    Args:
        source: has the limits.
        stored: how many dead letters it has already.
    """

    def __init__(self, source: Source, stored: int) -> None:
        self._source = source
        self._stored = stored
        self._recent: deque[tuple[int, int]] = deque()

    def admit(self, events: int, done: Applied, count: Callable[[], int]) -> None:
        """Raises SourceError if a batch would pass a limit: it is then not to be committed.

        Args:
            events: of the batch.
            done: what it has come to.
            count: tells how many dead letters are stored now; some may have been discarded.
        """
        refused = done.refused
        if not refused:
            return
        source = self._source
        if self._stored + refused > source.max_dead_letters:
            self._stored = count()
        stored = self._stored + refused
        why = next(why for part in done.parts for why in part.refused.values())
        if stored > source.max_dead_letters:
            raise SourceError(
                f"{stored} events could not be applied (max_dead_letters is "
                f"{source.max_dead_letters}), one because {why}: mend the cause, RETRY or DISCARD "
                "the DEAD LETTERS, then RESUME SOURCE"
            )
        all_events = events + sum(count for count, _ in self._recent)
        all_refused = refused + sum(count for _, count in self._recent)
        if all_events >= _LEAST and all_refused > source.max_dead_share * all_events:
            raise SourceError(
                f"{all_refused} of the last {all_events} events could not be applied "
                f"(max_dead_share is {source.max_dead_share:g}), one because {why}: is the format "
                "right? ALTER SOURCE … SET (…) or mend the table, then RESUME SOURCE"
            )

    def passed(self, events: int, refused: int) -> None:
        """Counts a batch that is committed."""
        self._stored += refused
        self._recent.append((events, refused))
        while sum(count for count, _ in self._recent) - self._recent[0][0] >= _LEAST:
            self._recent.popleft()

"""Logins that fail are answered late, and are tried at a rate; a right one is not held up by them.

Law: a wrong password is told after a delay, which doubles with each failure of the same user and
address, up to a bound. Once one has failed, their logins are tried at once as long as they are few,
else one after another: guesses come at this rate, however many connections make them. What would
wait longer than the bound is refused. A right password costs nothing of the rate, and nobody else
waits; whoever waits is no work for the server, and takes no place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import fold

_log = logging.getLogger("ivm.serve")
_FORGOTTEN = 900.0  # seconds after the last failure
_MOST_KEPT = 10_000


@dataclass
class _Failures:
    count: int = 0
    last: float = 0.0
    busy: float = 0.0  # until when the logins that were tried take the whole rate


class FailedLogins:
    """The failures of all users; any thread calls it.

    Args:
        first: seconds after which the first failure is told.
        most: at most, and for a login that waits.
        spacing: seconds between two logins that are tried, beyond a few.
        clock: tells the time in seconds.
    """

    def __init__(
        self,
        first: float = 0.5,
        most: float = 8.0,
        spacing: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first, self._most, self._spacing, self._clock = first, most, spacing, clock
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, host: str, name: str) -> float:
        """The seconds after which a login is to be tried: none, unless many are.

        Raises:
            UnavailableError: they would be too many.
        """
        with self._lock:
            found, now = self._failures.get((host, fold(name))), self._clock()
            if found is None or now - found.last > _FORGOTTEN:
                return 0.0
            wait = max(found.busy - now - self._most, 0.0)
            if wait > self._most:
                raise _too_many(host, name, wait)
            found.busy = max(found.busy, now) + self._spacing
            return wait

    def failed(self, host: str, name: str) -> float:
        """A login has failed; the seconds after which that is to be told."""
        with self._lock:
            now = self._clock()
            found = self._failures.setdefault((host, fold(name)), _Failures())
            if now - found.last > _FORGOTTEN:
                found.count = 0
            if not found.count:  # `wait` did not count it
                found.busy = max(found.busy, now) + self._spacing
            found.count, found.last = found.count + 1, now
            count = found.count
            self._failures.move_to_end((host, fold(name)))
            if len(self._failures) > _MOST_KEPT:
                self._failures.popitem(last=False)
        delay = min(self._first * 2.0 ** min(count - 1, 60), self._most)
        _log.warning(
            "failed logins of %r from %s: %d; this is told after %g s", name, host, count, delay
        )
        return delay

    def succeeded(self, host: str, name: str) -> None:
        """A login has succeeded: it was no guess."""
        with self._lock:
            found = self._failures.get((host, fold(name)))
            if found is not None:
                found.busy -= self._spacing


def _too_many(host: str, name: str, wait: float) -> UnavailableError:
    return UnavailableError(
        f"logins of {name!r} from {host} have failed just now, and many are tried: try again in "
        f"{wait:.1f} s"
    )

"""Logins that fail are slowed down: each holds back the next one of the same user and address.

Law: the delay doubles with each failure in a row, up to a bound, and ends with a login that
succeeds. Nobody else waits, and whoever waits is no work for the server: what would wait longer
than the bound, because others of this name and address wait already, is refused.
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
    free: float = 0.0  # when the next login may be tried


class FailedLogins:
    """The failures of all users; any thread calls it.

    Args:
        first: seconds for which one failure holds back the next login.
        most: at most.
        clock: tells the time in seconds.
    """

    def __init__(
        self,
        first: float = 0.5,
        most: float = 8.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first, self._most, self._clock = first, most, clock
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, host: str, name: str) -> float:
        """The seconds for which a login is to be held back, which it has for itself.

        Raises:
            UnavailableError: they would be too many.
        """
        with self._lock:
            found, now = self._failures.get((host, fold(name))), self._clock()
            if found is None or now - found.last > _FORGOTTEN:
                return 0.0
            wait = max(found.free - now, 0.0)
            if wait > self._most:
                raise _too_many(host, name, wait)
            found.free = now + wait + self._delay(found)
            return wait

    def demand_no_wait(self, host: str, name: str) -> None:
        """Refuses a login that would be held back.

        Raises:
            UnavailableError: it would be.
        """
        with self._lock:
            found, now = self._failures.get((host, fold(name))), self._clock()
            if found is not None and found.free > now:
                raise _too_many(host, name, found.free - now)

    def note(self, host: str, name: str, *, succeeded: bool) -> None:
        """A login has succeeded, or failed."""
        if succeeded:
            self.succeeded(host, name)
        else:
            self.failed(host, name)

    def failed(self, host: str, name: str) -> None:
        """A login has failed."""
        with self._lock:
            now = self._clock()
            found = self._failures.setdefault((host, fold(name)), _Failures())
            if now - found.last > _FORGOTTEN:
                found.count = 0
            found.count, found.last = found.count + 1, now
            delay = self._delay(found)
            found.free = max(found.free, now + delay)
            self._failures.move_to_end((host, fold(name)))
            if len(self._failures) > _MOST_KEPT:
                self._failures.popitem(last=False)
        _log.warning(
            "failed logins of %r from %s: %d; the next is held back for %g s",
            *(name, host, found.count, delay),
        )

    def succeeded(self, host: str, name: str) -> None:
        """A login has succeeded."""
        with self._lock:
            self._failures.pop((host, fold(name)), None)

    def _delay(self, found: _Failures) -> float:
        return min(self._first * 2.0 ** min(found.count - 1, 60), self._most)


def _too_many(host: str, name: str, wait: float) -> UnavailableError:
    return UnavailableError(
        f"logins of {name!r} from {host} have failed just now: try again in {wait:.1f} s"
    )

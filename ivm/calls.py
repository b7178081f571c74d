"""What the parts of `Database` share: the way to a session.

Contract: every call that runs something goes through `_with_session`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from ivm.session.session import Session

T = TypeVar("T")


class Calls(ABC):
    """A part of `Database`."""

    @abstractmethod
    def _with_session(self, work: Callable[[Session], T], *, looks: bool = False) -> T:
        """Calls a function with the thread's session; see `Lifetime.run`."""

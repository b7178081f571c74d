"""A state before and after the step under way.

Invariant: a state is immutable, so both versions stand side by side: `commit` drops the old one,
`rollback` the new one. Between steps they are the same.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, Self, TypeVar

from ivm.storage.values.zset import ZSet


class State(Protocol):
    """A state whose `append` makes a new version: an arrangement, an integral."""

    def append(self, delta: ZSet, /) -> Self: ...

    @property
    def row_count(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


S = TypeVar("S", bound=State)


class Versions(Generic[S]):
    """A staged state.

    Attributes:
        before: without what the step under way adds.
        after: with it.
    """

    def __init__(self, state: S) -> None:
        self.before = self.after = state

    @property
    def row_count(self) -> int:
        """Entries held, as committed."""
        return self.before.row_count

    @property
    def nbytes(self) -> int:
        """Bytes held, as committed."""
        return self.before.nbytes

    def append(self, delta: ZSet) -> None:
        """Stages a delta."""
        self.after = self.after.append(delta)

    def reset(self, state: S) -> None:
        """Replaces both versions: the state is committed."""
        self.before = self.after = state

    def saved(self) -> Any:
        """The committed version."""
        return self.before

    def restore(self, saved: Any) -> None:
        """Takes what `saved` gave."""
        self.reset(saved)

    def commit(self) -> None:
        """Adopts the staged version."""
        self.before = self.after

    def rollback(self) -> None:
        """Drops the staged version."""
        self.after = self.before

"""A commit, as the parts of the state that follow it see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet


class Commit(NamedTuple):
    """One epoch that is committed.

    Attributes:
        epoch: its number.
        changes: of base tables.
        deltas: of views.
        in_duckdb: DuckDB's tables have all of it.
    """

    epoch: int
    changes: Sequence[TableChange]
    deltas: Mapping[str, ZSet]
    in_duckdb: bool = False


class Follower(Protocol):
    """A part of the state that follows commits."""

    def follow(self, commit: Commit) -> None:
        """Takes over a commit. It must not fail: the epoch stands."""

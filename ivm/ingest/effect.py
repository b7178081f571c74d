"""The effect of one statement on the rows of a table: those that go, are replaced, and come."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ivm.ingest.further_keys import Positions
from ivm.storage.values.zset import ZSet, add


class Effect(NamedTuple):
    """What a statement does; None stands for no rows.

    Attributes:
        deleted: stored rows, with the columns of the table's index.
        replaced: those that are updated, likewise.
        updated: the new values of these, in their order, with all columns.
        added: new rows, with all columns.
        sets: the columns that are set in the updated ones.
        unmet: a key that no stored row shares with the added ones; () if none is known.
    """

    deleted: ZSet | None = None
    replaced: ZSet | None = None
    updated: ZSet | None = None
    added: ZSet | None = None
    sets: Collection[int] = ()
    unmet: Positions = ()

    @property
    def removed(self) -> ZSet | None:
        """All stored rows that are changed."""
        return _joined(self.deleted, self.replaced)

    @property
    def written(self) -> ZSet | None:
        """All rows that result, first the updated ones."""
        return _joined(self.updated, self.added)

    @property
    def counts(self) -> list[int]:
        """How many rows are deleted, replaced and added."""
        parts = (self.deleted, self.replaced, self.added)
        return [0 if rows is None else len(rows) for rows in parts]


def _joined(first: ZSet | None, second: ZSet | None) -> ZSet | None:
    if first is None or (second is not None and not len(first)):
        return second
    return first if second is None or not len(second) else add([first, second])

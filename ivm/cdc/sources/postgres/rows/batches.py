"""Transactions of the stream as the parts of a batch, one a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ivm.cdc.sources.postgres.log import messages as wire
from ivm.cdc.sources.postgres.log.messages import Relation
from ivm.cdc.sources.postgres.rows.parts import Described, PostgresPart
from ivm.cdc.sources.postgres.rows.texts import Texts, cut, filled, joined
from ivm.cdc.sources.postgres.rows.tuples import Messages
from ivm.storage.values.column import Indexes, Mask

Shapes = Sequence[tuple[int, Relation, Described]]
"""The number of the first message from which on a table has a shape, and the shape."""


class Changes:
    """Messages of committed transactions, with those that empty tables."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = messages
        self._all = Messages(messages)
        self._truncates = {
            int(at): wire.truncated(messages[at])
            for at in (self._all.kinds == wire.TRUNCATE).nonzero()[0]
        }

    def tables(self) -> list[int]:
        """The oids of the tables that are changed."""
        rows = self._all.relations[self._all.kinds != wire.TRUNCATE]
        emptied = [oid for oids in self._truncates.values() for oid in oids]
        return list(dict.fromkeys([*np.unique(rows).tolist(), *emptied]))

    def of(self, oid: int) -> tuple[Indexes, list[int]]:
        """The numbers of a table's changes, and of those that empty it."""
        rows: Mask = (self._all.relations == oid) & (self._all.kinds != wire.TRUNCATE)
        return rows.nonzero()[0], [at for at, oids in self._truncates.items() if oid in oids]

    def numbers(self, oid: int) -> Indexes:
        """The numbers of the messages that change a table."""
        rows, truncates = self.of(oid)
        return np.sort(np.concatenate([rows, np.array(truncates, np.int64)]))

    def part(self, oid: int, shapes: Shapes, stream: str, position: int) -> PostgresPart:
        """The changes of a table.

        Args:
            oid: of the table.
            shapes: of the table; the first has the number 0.
            stream: for dead letters.
            position: for dead letters.
        """
        rows, truncates = self.of(oid)
        ends = [*(at for at, _, _ in shapes), len(self._messages)]
        _, last, described = shapes[-1]
        added = {column.name: described.before.get(column.name) for column in last.columns}
        texts: list[Texts] = []
        for (_, relation, _), (begin, end) in zip(shapes, pairwise(ends), strict=True):
            chosen = rows[(rows >= begin) & (rows < end)]
            if len(chosen):
                sent = cut(self._all, chosen, [c.name for c in relation.columns])
                texts.append(filled(sent, {**described.before, **added}))
        whole = joined(texts) if texts else cut(self._all, rows, list(described.readings))
        return PostgresPart(described, whole, rows, truncates, stream, position)


def chained(shapes: Shapes) -> Shapes:
    """New shapes, each of which tells what the table was before the first of them.

    Rows are decoded by the last shape of a table. PostgreSQL sends one for each partition with a
    change, and one whenever a transaction alters the table again.

    Raises:
        SourceError: a transaction has altered types twice.
    """
    last: dict[int, Described] = {}
    found = []
    for at, shape, known in shapes:
        if shape.oid in last:
            known = _since(last[shape.oid], known)
        last[shape.oid] = known
        found.append((at, shape, known))
    return found


def _since(first: Described, then: Described) -> Described:
    """A shape that follows another one of before it."""
    kept, own = first.upstream.kept, then.upstream.kept
    if kept is not None and own is not None:
        raise own.error
    known = {column.name: column for column in first.upstream.columns}
    columns, before = [], dict(then.before)
    for column in then.upstream.columns:
        old = known.get(column.was or "")
        if old is not None:
            column = replace(column, was=old.was, before=column.before or old.before)
            if old.name in first.before:
                before[column.name] = first.before[old.name]
        columns.append(column)
    upstream = replace(then.upstream, columns=tuple(columns), kept=own or kept)
    return replace(then, upstream=upstream, before=before)


def shapes_in(
    begin: Mapping[int, tuple[Relation, Described]],
    changes: Sequence[tuple[int, Relation, Described]],
    oid: int,
) -> Shapes:
    """The shapes of a table within a batch.

    Args:
        begin: the shapes of tables when it begins.
        changes: of shapes within it.
        oid: of the table.
    """
    first = [(0, *begin[oid])] if oid in begin else []
    later = [change for change in changes if change[1].oid == oid]
    found = [*first, *later]
    return [(at if i else 0, shape, known) for i, (at, shape, known) in enumerate(found)]

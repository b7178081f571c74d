"""Tables whose copies are made while the stream goes on.

Law: a change of such a table is held until its copy is complete. Those whose transactions the
copy's snapshot has seen are dropped then, and the others follow the copy in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ivm.cdc.sources.metadata import Metadata
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.copying import COPYING, Copier, copy_stream
from ivm.cdc.sources.postgres.log.messages import Relation
from ivm.cdc.sources.postgres.log.spool import Spool
from ivm.cdc.sources.postgres.log.transactions import Transactions
from ivm.cdc.sources.postgres.rows.batches import Changes, Shapes, chained
from ivm.cdc.sources.postgres.rows.facts import carried, carrying, copied, facts_of, told
from ivm.cdc.sources.postgres.rows.parts import Described
from ivm.cdc.sources.postgres.snapshot import Copies
from ivm.cdc.sources.postgres.tables.catalog import Table
from ivm.cdc.sources.source import Batch


class Held:
    """The changes of one table that are held, in order; `close` it."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._runs: list[tuple[int, Shapes]] = []

    def add(self, messages: Sequence[bytes], commits: Sequence[int], shapes: Shapes) -> None:
        """Holds messages of the table.

        Args:
            messages: of some transactions.
            commits: the position of each one's commit.
            shapes: of the table, by the numbers of the messages.
        """
        for message, commit in zip(messages, commits, strict=True):
            self._spool.add(commit, message)
        count = len(messages)
        if self._runs and len(shapes) == 1 and self._runs[-1][1] == shapes:
            count += self._runs.pop()[0]
        self._runs.append((count, shapes))

    def take(self, limit: int, start: int) -> tuple[list[bytes], Shapes] | None:
        """Removes the first transactions, and drops those before a position.

        Args:
            limit: about how many messages.
            start: the position.

        Returns:
            Messages, maybe none, and the shapes of the table; None if nothing is held.
        """
        if not self._runs:
            return None
        count, shapes = self._runs.pop(0)
        found = self._spool.take(min(count, limit) if len(shapes) == 1 else count, whole=True)
        taken = len(found)
        if taken < count:
            self._runs.insert(0, (count - taken, shapes))
        dropped = sum(commit < start for commit, _ in found)  # commits are in order
        ends = [*(at for at, _, _ in shapes[1:]), taken]
        left = [
            (max(at - dropped, 0), relation, known)
            for (at, relation, known), end in zip(shapes, ends, strict=True)
            if end > dropped
        ]
        return [message for _, message in found[dropped:]], left

    def close(self) -> None:
        """Drops what is held."""
        self._spool.close()


class AddedTables:
    """Copies tables in the background; `close` it.

    Args:
        tables: what is copied.
        copies: of these tables.
        copier: makes parts of chunks.
        shown: describes a table that is copied, as the stream has shown it.
        metadata: which columns get facts of changes.
    """

    def __init__(
        self,
        tables: Sequence[TableName],
        copies: Copies,
        copier: Copier,
        shown: Callable[[Relation], Described],
        metadata: Metadata,
    ) -> None:
        self._held = {table: Held() for table in tables}
        self._copied: list[Table] = []
        self._copies = copies
        self._copier = copier
        self._shown = shown
        self._metadata = metadata

    @property
    def is_over(self) -> bool:
        """All tables are copied, and nothing is held."""
        return not self._held

    def holds(self, table: TableName) -> bool:
        """Whether the changes of a table are held."""
        return table in self._held

    def hold(self, found: Transactions, changes: Changes, oid: int, shapes: Shapes) -> bool:
        """Holds the changes of a table, if it is one of these.

        Args:
            found: transactions.
            changes: their messages.
            oid: of the table.
            shapes: of the table, by the numbers of the transactions' messages.
        """
        relation = shapes[-1][1]
        held = self._held.get(TableName(relation.schema, relation.name))
        if held is None:
            return False
        numbers = changes.numbers(oid)
        of = np.searchsorted(found.ends, numbers, "right")
        commits = [found.commits[i] for i in of.tolist()]
        messages = [found.messages[i] for i in numbers.tolist()]
        own = [(int(np.searchsorted(numbers, at)), shape, known) for at, shape, known in shapes]
        held.add(list(map(carrying, messages, commits)), [each.start for each in commits], own)
        return True

    def next(self, limit: int) -> Batch | None:
        """The next rows of some table, or held changes, if there are any already.

        Raises:
            UnavailableError: the server does not answer.
            SourceError: it refuses.
        """
        if self._copied:
            return self._released(self._copied[-1], limit)
        self._copies.limit = limit
        chunk = self._copies.next(0)
        if chunk is None:
            return None
        if chunk.is_last:
            self._copied.append(chunk.table)
            self._copier.copied(chunk.table)
        part = self._copier.part(chunk)
        rows = copied(part, self._metadata)
        return Batch((rows,), self._copier.position(chunk.table.name))

    def close(self) -> None:
        """Ends the copies."""
        self._copies.close()
        for held in self._held.values():
            held.close()

    def _released(self, table: Table, limit: int) -> Batch:
        """Held changes of a table that is copied; the last batch ends the copy."""
        name = table.name
        found = self._held[name].take(limit, self._copies.start)
        if found is None:
            self._held.pop(name).close()
            self._copied.pop()
            self._copier.finish(table)
            return Batch((), self._copier.position(name))
        messages, held = found
        shapes = chained([(at, relation, self._shown(relation)) for at, relation, _ in held])
        at = self._copier.move(name, len(messages), COPYING)
        parts = []
        if messages:
            messages, commits = carried(messages)
            changes, oid = Changes(messages), shapes[-1][1].oid
            part = changes.part(oid, shapes, copy_stream(name), at.offset)
            facts = facts_of(commits, range(1, len(commits) + 1))
            parts.append(told(part, self._metadata, facts))
        return Batch(parts, self._copier.position(name))

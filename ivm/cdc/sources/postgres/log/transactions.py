"""Messages of a replication stream as whole transactions, in the order of their commits.

Law: a batch ends behind a commit. What a transaction or a subtransaction that was rolled back has
changed is in no batch. The shape of a table (its Relation message) is told anew only between
two batches, or inside of a transaction that changes it itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ivm.cdc.sources.postgres.log import messages as wire
from ivm.cdc.sources.postgres.log.messages import Commit, Relation
from ivm.cdc.sources.postgres.log.spool import Spool


@dataclass(frozen=True)
class Transactions:
    """Committed transactions.

    Attributes:
        messages: their INSERT, UPDATE, DELETE and TRUNCATE messages.
        shapes: the number of the first message from which on a table has a shape, and the shape.
        ends: for each transaction, the number of messages up to its end.
        commits: of each transaction.
    """

    messages: list[bytes]
    shapes: list[tuple[int, Relation]]
    ends: list[int]
    commits: list[Commit]


class Assembler:
    """Assembles transactions of messages.

    Attributes:
        messages: INSERT, UPDATE and DELETE messages of transactions that are not streamed may be
            appended here instead of being given to `add`, while `streaming` is None.
        streaming: the transaction that is being streamed.
        is_open: a transaction has begun, and is not streamed.
        is_cut: the open transaction has changed the shape of a table, and those before it are to
            be taken first.
    """

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.streaming: int | None = None
        self.is_open = False
        self.is_cut = False
        self._xid = 0
        self._relations: set[int] = set()
        self._shapes: list[tuple[int, Relation]] = []
        self._ends: list[int] = []
        self._commits: list[Commit] = []
        self._streams: dict[int, _Stream] = {}

    @property
    def committed(self) -> int:
        """How many messages of committed transactions wait to be taken."""
        return self._ends[-1] if self._ends else 0

    @property
    def has_commit(self) -> bool:
        """A transaction waits to be taken; it may have no messages."""
        return bool(self._commits)

    def add(self, message: bytes) -> None:
        """Adds the next message of the stream."""
        kind = message[0]
        if self.streaming is not None and kind in wire.IN_STREAMS:
            self._streams[self.streaming].changes.add(*wire.own_transaction(message))
        elif kind in wire.ROWS or kind == wire.TRUNCATE:
            self.messages.append(message)
        elif kind == wire.RELATION:
            self._shape(wire.relation(message))
        elif kind == wire.BEGIN:
            self.is_open, self._xid = True, wire.begun(message)
        elif kind == wire.COMMIT:
            self._end(wire.commit(message), self._xid)
        elif kind == wire.STREAM_START:
            self.streaming = wire.transaction(message)
            if self.streaming not in self._streams:
                self._streams[self.streaming] = _Stream()
        elif kind == wire.STREAM_STOP:
            self.streaming = None
        elif kind == wire.STREAM_COMMIT:
            for change in self._streams.pop(wire.transaction(message)).committed():
                self.add(change)
            self._end(wire.commit(message), wire.transaction(message))
        elif kind == wire.STREAM_ABORT:
            self._abort(*wire.aborted(message))

    def take(self) -> Transactions:
        """The committed transactions that wait; the open one stays."""
        count, ends, commits = self.committed, self._ends, self._commits
        shapes = [shape for shape in self._shapes if shape[0] < count]
        taken = Transactions(self.messages[:count], shapes, ends, commits)
        del self.messages[:count]
        self._shapes = [(at - count, shape) for at, shape in self._shapes if at >= count]
        self._ends, self._commits, self.is_cut = [], [], False
        return taken

    def close(self) -> None:
        """Drops what was not committed."""
        for stream in self._streams.values():
            stream.changes.close()

    def _shape(self, relation: Relation) -> None:
        if relation.oid in self._relations and self._commits:
            self.is_cut = True
        self._relations.add(relation.oid)
        self._shapes.append((len(self.messages), relation))

    def _end(self, commit: Commit, xid: int) -> None:
        self._ends.append(len(self.messages))
        self._commits.append(replace(commit, xid=xid))
        self.is_open = False

    def _abort(self, transaction: int, own: int) -> None:
        if own == transaction:
            self._streams.pop(transaction).changes.close()
        else:
            self._streams[transaction].undone.add(own)


class _Stream:
    """The changes of a transaction that was streamed before its end.

    Attributes:
        changes: each with the number of the (sub)transaction that made it.
        undone: the subtransactions that were rolled back.
    """

    def __init__(self) -> None:
        self.changes = Spool()
        self.undone: set[int] = set()

    def committed(self) -> Iterator[bytes]:
        """The messages that were not undone, in order; called once."""
        while found := self.changes.take(1000):
            yield from (message for own, message in found if own not in self.undone)
        self.changes.close()

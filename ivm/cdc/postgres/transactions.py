"""Messages of a replication stream as whole transactions, in the order of their commits.

Law: a batch ends behind a commit. What a transaction or a subtransaction that was rolled back has
changed is in no batch. The shape of a table (its Relation message) changes only between two
batches, or inside of a transaction that changes it itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from tempfile import SpooledTemporaryFile

from ivm.cdc.postgres import messages as wire
from ivm.cdc.postgres.messages import Commit, Relation

_IN_MEMORY = 64 << 20  # bytes of an open transaction before they lie in a file
_FRAME = Struct(">II")


@dataclass(frozen=True)
class Transactions:
    """Committed transactions.

    Attributes:
        messages: their INSERT, UPDATE, DELETE and TRUNCATE messages.
        shapes: the number of the first message from which on a table has a shape, and the shape.
        commit: of the last one.
    """

    messages: list[bytes]
    shapes: list[tuple[int, Relation]]
    commit: Commit


class Assembler:
    """Assembles transactions of messages.

    Attributes:
        messages: INSERT, UPDATE and DELETE messages of transactions that are not streamed may be
            appended here instead of being given to `add`, while `streaming` is None.
        streaming: the transaction that is being streamed.
        is_cut: the open transaction has changed the shape of a table, and those before it are to
            be taken first.
    """

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.streaming: int | None = None
        self.is_cut = False
        self._relations: dict[int, Relation] = {}
        self._shapes: list[tuple[int, Relation]] = []
        self._committed = 0
        self._commit: Commit | None = None
        self._streams: dict[int, _Stream] = {}

    @property
    def committed(self) -> int:
        """How many messages of committed transactions wait to be taken."""
        return self._committed

    @property
    def has_commit(self) -> bool:
        """A transaction waits to be taken; it may have no messages."""
        return self._commit is not None

    def add(self, message: bytes) -> None:
        """Adds the next message of the stream."""
        kind = message[0]
        if self.streaming is not None and kind in wire.IN_STREAMS:
            self._streams[self.streaming].add(*wire.own_transaction(message))
        elif kind in wire.ROWS or kind == wire.TRUNCATE:
            self.messages.append(message)
        elif kind == wire.RELATION:
            self._shape(wire.relation(message))
        elif kind == wire.COMMIT:
            self._end(wire.commit(message))
        elif kind == wire.STREAM_START:
            self.streaming = wire.transaction(message)
            if self.streaming not in self._streams:
                self._streams[self.streaming] = _Stream()
        elif kind == wire.STREAM_STOP:
            self.streaming = None
        elif kind == wire.STREAM_COMMIT:
            for change in self._streams.pop(wire.transaction(message)).changes():
                self.add(change)
            self._end(wire.commit(message))
        elif kind == wire.STREAM_ABORT:
            self._abort(*wire.aborted(message))

    def take(self) -> Transactions:
        """The committed transactions that wait; the open one stays."""
        assert self._commit is not None
        count, self._committed = self._committed, 0
        taken = Transactions(
            self.messages[:count],
            [shape for shape in self._shapes if shape[0] < count],
            self._commit,
        )
        del self.messages[:count]
        self._shapes = [(at - count, r) for at, r in self._shapes if at >= count]
        self._commit, self.is_cut = None, False
        return taken

    def close(self) -> None:
        """Drops what was not committed."""
        for stream in self._streams.values():
            stream.close()

    def _shape(self, relation: Relation) -> None:
        if self._relations.get(relation.oid) == relation:
            return
        if relation.oid in self._relations and self._commit is not None:
            self.is_cut = True
        self._relations[relation.oid] = relation
        self._shapes.append((len(self.messages), relation))

    def _end(self, commit: Commit) -> None:
        self._committed, self._commit = len(self.messages), commit

    def _abort(self, transaction: int, own: int) -> None:
        if own == transaction:
            self._streams.pop(transaction).close()
        else:
            self._streams[transaction].undone.add(own)


class _Stream:
    """The changes of a transaction that was streamed before its end.

    Attributes:
        undone: the subtransactions that were rolled back.
    """

    def __init__(self) -> None:
        self.undone: set[int] = set()
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (closed by its owner)

    def add(self, own: int, message: bytes) -> None:
        self._file.write(_FRAME.pack(own, len(message)) + message)

    def changes(self) -> list[bytes]:
        """The messages that were not undone, in order; called once."""
        found = []
        self._file.seek(0)
        while frame := self._file.read(_FRAME.size):
            own, size = _FRAME.unpack(frame)
            message = self._file.read(size)
            if own not in self.undone:
                found.append(message)
        self.close()
        return found

    def close(self) -> None:
        self._file.close()

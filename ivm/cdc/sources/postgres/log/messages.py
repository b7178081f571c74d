"""The messages of pgoutput, PostgreSQL's logical replication protocol, versions 1 and 2.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

Contract: rows are not read here. A message of a row stays the bytes that came, see `tuples`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct

INSERT, UPDATE, DELETE, TRUNCATE = b"IUDT"
BEGIN, COMMIT, RELATION = b"BCR"
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = b"SEcA"
ROWS = frozenset((INSERT, UPDATE, DELETE))
IN_STREAMS = frozenset(b"IUDTRYM")
"""Messages that have the number of their transaction behind their kind while it is streamed."""

_EPOCH = 946_684_800_000_000  # PostgreSQL counts microseconds from 2000
_COMMIT = Struct(">xxQQq")
_BEGIN = Struct(">17xI")
_STREAM_COMMIT = Struct(">xIxQQq")
_INT = Struct(">I")
_TWO_INTS = Struct(">xII")
_COLUMN = Struct(">Ii")


@dataclass(frozen=True)
class WireColumn:
    """A column as a Relation message tells of it.

    Attributes:
        name: as PostgreSQL stores it.
        oid: of its type.
        modifier: of its type, -1 if it has none.
        is_key: it is part of the replica identity.
    """

    name: str
    oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True)
class Relation:
    """A table as its rows are sent from here on.

    Attributes:
        oid: of the table.
        schema: its name.
        name: of the table.
        identity: the replica identity: `d`efault, `f`ull, `i`ndex or `n`othing.
        columns: in the order of the values.
    """

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[WireColumn, ...]


@dataclass(frozen=True)
class Commit:
    """The end of a transaction.

    Attributes:
        start: WAL position of the commit record.
        end: WAL position behind it, from which the next transaction is read.
        micros: time of the commit, in microseconds since 1970.
        xid: the number of the transaction; 0 if it is not known.
    """

    start: int
    end: int
    micros: int
    xid: int = field(default=0, compare=False)


def relation(message: bytes) -> Relation:
    """Reads a Relation message."""
    (oid,) = _INT.unpack_from(message, 1)
    schema, at = _text(message, 5)
    name, at = _text(message, at)
    count = int.from_bytes(message[at + 1 : at + 3], "big")
    identity, at = chr(message[at]), at + 3
    columns = []
    for _ in range(count):
        flags = message[at]
        label, at = _text(message, at + 1)
        type, modifier = _COLUMN.unpack_from(message, at)
        columns.append(WireColumn(label, type, modifier, bool(flags & 1)))
        at += _COLUMN.size
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def commit(message: bytes) -> Commit:
    """Reads a Commit message, or a Stream Commit."""
    if message[0] == COMMIT:
        start, end, micros = _COMMIT.unpack_from(message)
    else:
        _, start, end, micros = _STREAM_COMMIT.unpack_from(message)
    return Commit(start, end, micros + _EPOCH)


def begun(message: bytes) -> int:
    """The number of the transaction that a Begin message is of."""
    return int(_BEGIN.unpack_from(message)[0])


def truncated(message: bytes) -> tuple[int, ...]:
    """The tables that a Truncate message empties."""
    (count,) = _INT.unpack_from(message, 1)
    return tuple(_INT.unpack_from(message, 6 + 4 * i)[0] for i in range(count))


def transaction(message: bytes) -> int:
    """The number of the transaction that a Stream Start or Stream Commit is of."""
    return int(_INT.unpack_from(message, 1)[0])


def own_transaction(message: bytes) -> tuple[int, bytes]:
    """Who made a streamed change, a (sub)transaction, and the message as if not streamed."""
    return transaction(message), message[:1] + message[5:]


def aborted(message: bytes) -> tuple[int, int]:
    """The transaction and subtransaction that a Stream Abort ends; the same if all is undone."""
    found: tuple[int, int] = _TWO_INTS.unpack_from(message)
    return found


def lsn_text(lsn: int) -> str:
    """A WAL position as PostgreSQL writes it, `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A WAL position from PostgreSQL's text."""
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1

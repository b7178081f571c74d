"""The messages of PostgreSQL's protocol as bytes: frames are cut and read, answers are written.

Law: a message is a tag of one byte, a length of four that counts itself, and a body; the first one
of a connection has no tag. What does not fit raises `ProtocolError`, and nothing is read twice.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_BEFORE_LOGIN = 10_000
"""Bytes of a message of somebody who is not logged in."""
MOST = 1 << 28
"""Bytes of any message."""

_INT = struct.Struct("!i")
_SHORT = struct.Struct("!h")
_HEAD = struct.Struct("!ci")

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
VERSION_3 = 3 << 16

PARSE_COMPLETE = b"1\0\0\0\x04"
BIND_COMPLETE = b"2\0\0\0\x04"
CLOSE_COMPLETE = b"3\0\0\0\x04"
NO_DATA = b"n\0\0\0\x04"
EMPTY_QUERY = b"I\0\0\0\x04"
PORTAL_SUSPENDED = b"s\0\0\0\x04"
COPY_DONE = b"c\0\0\0\x04"
READY = {state: b"Z\0\0\0\x05" + state.encode() for state in "ITE"}


class ProtocolError(Exception):
    """Bytes that are no message, or a message that is none of the protocol.

    Behind the login what is wrong within a message is an error as others, and the connection goes
    on; else it ends.

    Args:
        message: what is wrong.
        code: its SQLSTATE.
    """

    def __init__(self, message: str, code: str = "08P01") -> None:
        super().__init__(message)
        self.code = code


class Frame(NamedTuple):
    """A message that has come whole; the first of a connection has the tag ""."""

    tag: str
    body: bytes


def next_frame(buffer: bytearray, start: int, *, tagged: bool, most: int) -> tuple[Frame, int]:
    """Cuts a message off a buffer.

    Args:
        buffer: what has come.
        start: where the message begins.
        tagged: whether it has a tag.
        most: bytes that it may have.

    Returns:
        The message and its end; the end is 0 if not all of it has come.

    Raises:
        ProtocolError: its length makes no sense.
    """
    head = start + tagged
    if len(buffer) < head + 4:
        return _NONE, 0
    (length,) = _INT.unpack_from(buffer, head)
    if not 4 <= length <= most:
        raise ProtocolError(f"a message of {length} bytes: from 4 to {most} are allowed")
    end = head + length
    if len(buffer) < end:
        return _NONE, 0
    tag = chr(buffer[start]) if tagged else ""
    return Frame(tag, bytes(buffer[head + 4 : end])), end


_NONE = Frame("", b"")


class Reader:
    """Reads the fields of a message's body.

    Args:
        body: of the message.
    """

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def text(self) -> str:
        """A text that ends with a zero byte."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text without its end")
        found, self._at = self._body[self._at : end], end + 1
        try:
            return found.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a text that is no UTF-8: {error}", "22021") from error

    def byte(self) -> str:
        """One byte as a character."""
        return chr(self.take(1)[0])

    def take(self, count: int) -> bytes:
        """That many bytes."""
        at = self._passed(count)
        return self._body[at : self._at]

    def _passed(self, count: int) -> int:
        """Passes over that many bytes; returns where they begin."""
        at, end = self._at, self._at + count
        if count < 0 or end > len(self._body):
            raise ProtocolError("a message that is too short for its fields")
        self._at = end
        return at

    def short(self) -> int:
        """An integer of two bytes."""
        return int(_SHORT.unpack_from(self._body, self._passed(2))[0])

    def long(self) -> int:
        """An integer of four bytes."""
        return int(_INT.unpack_from(self._body, self._passed(4))[0])

    def shorts(self) -> tuple[int, ...]:
        """A count, and that many integers of two bytes."""
        count = self.short()
        return struct.unpack(f"!{count}h", self.take(2 * count)) if count else ()

    def ints(self) -> tuple[int, ...]:
        """A count, and that many integers of four bytes."""
        count = self.short()
        return struct.unpack(f"!{count}i", self.take(4 * count)) if count else ()

    def values(self) -> list[bytes | None]:
        """A count, and that many values, each with its length; -1 is NULL."""
        found: list[bytes | None] = []
        for _ in range(self.short()):
            length = self.long()
            found.append(None if length == -1 else self.take(length))
        return found

    def rest(self) -> bytes:
        """What is left."""
        return self.take(len(self._body) - self._at)

    def end(self) -> None:
        """Demands that nothing is left."""
        if self._at != len(self._body):
            raise ProtocolError("a message that is too long for its fields")


class Column(NamedTuple):
    """A column of a result, as RowDescription tells it; `binary` is its format."""

    name: str
    oid: int
    size: int
    modifier: int
    binary: bool


def message(tag: bytes, body: bytes = b"") -> bytes:
    """A message to the client."""
    return _HEAD.pack(tag, len(body) + 4) + body


def negotiated(unknown: Sequence[str]) -> bytes:
    """That version 3.0 is spoken, and that options of the protocol are not known."""
    return message(b"v", struct.pack("!ii", 3 << 16, len(unknown)) + b"".join(map(_text, unknown)))


def authentication(kind: int, rest: bytes = b"") -> bytes:
    """What the client is asked for its login; 0: nothing more."""
    return message(b"R", _INT.pack(kind) + rest)


def parameter_status(name: str, value: str) -> bytes:
    """A setting that clients are told."""
    return message(b"S", _text(name) + _text(value))


def key_data(number: int, secret: int) -> bytes:
    """By what the client cancels a statement."""
    return message(b"K", struct.pack("!iI", number, secret))


def row_description(columns: Sequence[Column]) -> bytes:
    """The columns of a result."""
    parts = [_SHORT.pack(len(columns))]
    for name, oid, size, modifier, binary in columns:
        parts.append(_text(name) + struct.pack("!ihihih", 0, 0, oid, size, modifier, binary))
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!h{len(oids)}i", len(oids), *oids))


def command_complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", _text(tag))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """A row."""
    parts = [b""]
    size = 6
    for value in values:
        if value is None:
            parts.append(b"\xff\xff\xff\xff")
            size += 4
        else:
            parts.append(_INT.pack(len(value)))
            parts.append(value)
            size += 4 + len(value)
    parts[0] = struct.pack("!cih", b"D", size, len(values))
    return b"".join(parts)


def fields(tag: bytes, told: Mapping[str, str]) -> bytes:
    """An error (E) or notice (N), by its fields."""
    return message(tag, b"".join(code.encode() + _text(t) for code, t in told.items()) + b"\0")


def copy_response(tag: bytes, columns: int, *, binary: bool) -> bytes:
    """Rows may come by COPY (G), or do (H)."""
    return message(tag, struct.pack(f"!bh{columns}h", binary, columns, *[binary] * columns))


def copy_data(data: bytes) -> bytes:
    """A piece of COPY's rows."""
    return message(b"d", data)


def _text(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace") + b"\0"

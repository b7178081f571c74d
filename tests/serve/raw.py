"""A client of PostgreSQL's protocol that sends the messages it is told to."""

from __future__ import annotations

import socket
import struct
import time
from typing import NamedTuple

from tests.serve.in_process import startup


class Answer(NamedTuple):
    """A message of the server."""

    tag: str
    body: bytes

    @property
    def code(self) -> str:
        """The SQLSTATE of an error."""
        fields = self.body.split(b"\0")
        return next(field[1:].decode() for field in fields if field[:1] == b"C")


class Raw:
    """One connection.

    Args:
        port: of the server on 127.0.0.1.
        user: who logs in, without a password.
    """

    def __init__(self, port: int, user: str = "ann") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.sendall(startup(user))
        self._file = self._socket.makefile("rb")
        self._port = port
        self._key = next(answer.body for answer in self._answers() if answer.tag == "K")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *messages: bytes) -> list[Answer]:
        """Sends messages and a Sync at once; returns the answers up to ReadyForQuery."""
        return self.ask(*messages, message(b"S"))

    def ask(self, *messages: bytes) -> list[Answer]:
        """Sends messages at once; returns the answers up to ReadyForQuery."""
        self._socket.sendall(b"".join(messages))
        return self._answers()

    def ask_and_cancel(self, message: bytes, seconds: float) -> list[Answer]:
        """Sends a message, and cancels what it began after a time in which nothing is read."""
        self._socket.sendall(message)
        time.sleep(seconds)
        with socket.create_connection(("127.0.0.1", self._port), timeout=30) as other:
            other.sendall(struct.pack("!ii", 16, 80877102) + self._key)
            other.recv(1)
        return self._answers()

    def _answers(self) -> list[Answer]:
        found: list[Answer] = []
        while not found or found[-1].tag != "Z":
            head = self._file.read(5)
            size = struct.unpack("!i", head[1:])[0] - 4
            found.append(Answer(head[:1].decode(), self._file.read(size)))
        return found


def message(tag: bytes, *parts: bytes | str | int) -> bytes:
    """A message; texts end with a zero, integers have two bytes."""
    body = b"".join(
        p if isinstance(p, bytes) else f"{p}\0".encode() if isinstance(p, str)
        else struct.pack("!h", p)
        for p in parts
    )  # fmt: skip
    return tag + struct.pack("!i", len(body) + 4) + body


def parse(name: str, sql: str) -> bytes:
    """A Parse without types."""
    return message(b"P", name, sql, 0)


def describe(name: str) -> bytes:
    """A Describe of a prepared statement."""
    return message(b"D", b"S", name)


def bind(name: str) -> bytes:
    """A Bind of a prepared statement without parameters to the portal without a name."""
    return message(b"B", "", name, 0, 0, 0)


DESCRIBE_PORTAL = message(b"D", b"P", "")
EXECUTE = message(b"E", "", b"\0\0\0\0")

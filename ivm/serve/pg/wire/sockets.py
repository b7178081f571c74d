"""Sockets of clients, read and written where that takes no time."""

from __future__ import annotations

import asyncio
import os
import socket


def read_now(descriptor: int, most: int) -> bytes | None:
    """What has come at a socket; None if nothing has, b"" if its other side was closed."""
    try:
        return os.read(descriptor, most)
    except BlockingIOError:
        return None
    except OSError:  # the connection is broken
        return b""


def written_now(descriptor: int, data: bytes) -> int:
    """Writes what the socket takes at once; returns how much that was.

    Raises:
        ConnectionError: its other side was closed.
    """
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Has the system notice clients whose machine is gone, as PostgreSQL does."""
    found = transport.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

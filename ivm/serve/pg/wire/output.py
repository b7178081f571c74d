"""The way back to the client: messages are gathered, and sent when enough have come together."""

from __future__ import annotations

from typing import Protocol

_PIECE = 1 << 18


class Client(Protocol):
    """Who gets them."""

    def send(self, data: bytes) -> None:
        """Sends bytes; may wait until the client has read some.

        Raises:
            ConnectionError: the client has left.
        """


class Output:
    """Messages that are not yet sent.

    Args:
        client: gets them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._data = bytearray()

    def __iadd__(self, data: bytes) -> Output:
        """Adds messages."""
        self._data += data
        return self

    def flush(self) -> None:
        """Sends what there is.

        Raises:
            ConnectionError: the client has left.
        """
        if self._data:
            data, self._data = bytes(self._data), bytearray()
            self._client.send(data)

    def flush_if_large(self) -> None:
        """Sends what there is if it is much; see `flush`."""
        if len(self._data) > _PIECE:
            self.flush()

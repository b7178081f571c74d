"""What has come from a client: bytes, the messages among them, and those that can be answered.

Law: messages are taken once a thread has something to answer: a client may send several before it
waits, and they are answered together. The connection's lock guards all calls.
"""

from __future__ import annotations

from ivm.serve.pg.wire import codec
from ivm.serve.pg.wire.codec import Frame, next_frame

_MOST_WAITING = 1 << 22  # bytes that wait for a thread before the client is held up
_MANY = 1000
_ENDS = frozenset("QFSHXdcfp")  # kinds of messages that a client may wait behind


class Incoming:
    """The bytes and messages of one connection.

    Attributes:
        tagged: messages have tags, as all but the first ones.
    """

    __slots__ = ("_buffer", "_bytes", "_frames", "tagged")

    def __init__(self) -> None:
        self.tagged = False
        self._buffer = bytearray()
        self._frames: list[Frame] = []
        self._bytes = 0  # of the messages

    def add(self, data: bytes | memoryview) -> None:
        """Bytes have come."""
        self._buffer += data

    def first(self) -> tuple[Frame, int] | None:
        """Takes a message without a tag, and tells how many bytes are left; None if none is whole.

        Raises:
            ProtocolError: its length makes no sense.
        """
        frame, end = next_frame(self._buffer, 0, tagged=False, most=codec.MOST_BEFORE_LOGIN)
        if not end:
            return None
        del self._buffer[:end]
        return frame, len(self._buffer)

    def cut(self, *, known: bool) -> None:
        """Cuts off the messages that have come whole.

        Args:
            known: whether the client is logged in, and may send long ones.

        Raises:
            ProtocolError: the length of one makes no sense.
        """
        buffer, start = self._buffer, 0
        most = codec.MOST if known else codec.MOST_BEFORE_LOGIN
        while True:
            frame, end = next_frame(buffer, start, tagged=True, most=most)
            if not end:
                break
            self._frames.append(frame)
            start = end
        if start:
            self._bytes += start
            del buffer[:start]

    def take(self, *, known: bool) -> list[Frame] | None:
        """The messages that are to be answered now; None if more of them must come first."""
        frames = self._frames
        if not frames:
            return None
        few = len(frames) < _MANY and self._bytes <= _MOST_WAITING
        if known and few and frames[-1].tag not in _ENDS:
            return None
        self._frames, self._bytes = [], 0
        return frames

    @property
    def is_much(self) -> bool:
        """Whether so much waits that the client is to be held up."""
        return len(self._buffer) + self._bytes > _MOST_WAITING

    def __len__(self) -> int:
        """The number of messages that wait."""
        return len(self._frames)

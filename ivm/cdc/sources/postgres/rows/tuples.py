"""The rows of many messages cut into columns, all rows of a table at once.

A message is `kind, oid, [K or O, old row], [N, new row]`; a row is the number of its values, and
for each one a kind, and for texts a length and the text. The messages stand in one buffer; where
the next value of each row begins is an array, and the loop is over the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.cdc.sources.postgres.log.messages import UPDATE
from ivm.storage.values.column import Indexes, Mask

_UNCHANGED, _TEXT = b"ut"
_NEW = ord("N")
_ROW = 5  # where the first row begins: behind the kind and the oid
Bytes = npt.NDArray[np.uint8]


class Values(NamedTuple):
    """One column of rows.

    Attributes:
        texts: large strings, NULL where the value is NULL or was not sent.
        unsent: the rows whose value was not sent, as it has not changed (TOAST); None if none.
    """

    texts: pa.Array
    unsent: Mask | None


class Rows(NamedTuple):
    """The rows of messages.

    Attributes:
        kinds: uint8[n], of the messages.
        columns: of the rows that inserts and updates leave, and of those that deletes remove.
        has_old: the updates with a row before the change.
        old: columns of those rows alone, in order.
    """

    kinds: Bytes
    columns: list[Values]
    has_old: Mask
    old: list[Values]


class Messages:
    """Messages of rows in one buffer.

    Attributes:
        kinds: uint8[n], of each one.
        relations: uint32[n], the oid of each one's table.
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        sizes = np.fromiter(map(len, messages), np.int64, len(messages))
        # So many bytes that a length can be read behind the last value.
        self._data = b"".join([*messages, bytes(8)])
        self._starts = sizes.cumsum() - sizes
        self.kinds: Bytes = np.frombuffer(self._data, np.uint8)[self._starts]
        self.relations: npt.NDArray[Any] = self._numbers(">u4")[self._starts + 1]

    def __len__(self) -> int:
        return len(self._starts)

    def _numbers(self, dtype: str) -> npt.NDArray[Any]:
        """The number that begins at each byte."""
        size = len(self._data) - np.dtype(dtype).itemsize + 1
        return np.ndarray((size,), dtype, self._data, 0, (1,))

    def cut(self, chosen: Indexes, count: int) -> Rows:
        """Cuts messages of one table.

        Args:
            chosen: their numbers, ascending.
            count: the number of the table's columns.
        """
        buffer = np.frombuffer(self._data, np.uint8)
        starts = self._starts[chosen]
        kinds, at = self.kinds[chosen], starts + _ROW
        has_old = (kinds == UPDATE) & (buffer[at] != _NEW)
        old, ends = self._columns(buffer, at[has_old], count)
        at[has_old] = ends
        columns, _ = self._columns(buffer, at, count)
        return Rows(kinds, columns, has_old, old)

    def _columns(self, buffer: Bytes, at: Indexes, count: int) -> tuple[list[Values], Indexes]:
        """The columns of rows, and where the rows end."""
        lengths, columns = self._numbers(">i4"), []
        at = at + 3  # behind the kind of row and the number of values
        for _ in range(count):
            kinds = buffer[at]
            sent = kinds == _TEXT
            begin = np.where(sent, at + 5, at + 1)
            end = np.where(sent, begin + lengths[at + 1], begin)
            unsent = kinds == _UNCHANGED
            texts = self._texts(begin, end, sent)
            columns.append(Values(texts, unsent if unsent.any() else None))
            at = end
        return columns, at

    def _texts(self, begin: Indexes, end: Indexes, sent: Mask) -> pa.Array:
        """The texts between these bytes: every second one of those that the offsets cut."""
        count = len(begin)
        offsets = np.empty(2 * count + 1, np.int64)
        offsets[:-1:2], offsets[1::2] = begin, end
        offsets[-1] = len(self._data)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        every = pa.Array.from_buffers(pa.large_string(), 2 * count, buffers)
        taken = np.arange(0, 2 * count, 2)
        return every.take(pa.array(taken, mask=None if sent.all() else ~sent))

"""Rows of COPY's format binary as they come, as tables of texts, of bytes, and of lists of texts.

The texts are those that DuckDB casts to the columns' types.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from ivm.serve.pg.values.parameters import binary_value
from ivm.serve.pg.wire.errors import BAD_BINARY, BAD_COPY, PgError

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEAD = SIGNATURE + struct.pack("!ii", 0, 0)
END = struct.pack("!h", -1)
_ROWS = 50_000
_SHORT, _LONG = struct.Struct("!h"), struct.Struct("!i")


class BinaryRows:
    """Makes tables of the bytes of a COPY.

    Args:
        oids: the columns' types.
        arrow: their types of Arrow.
    """

    def __init__(self, oids: Sequence[int], arrow: Sequence[pa.DataType]) -> None:
        self._oids = oids
        self._arrow = arrow
        self._rows: list[list[Any]] = []
        self._left = bytearray()
        self._begun = self._ended = False

    def feed(self, data: bytes) -> Iterator[pa.Table]:
        """Takes a piece; yields rows that have come whole.

        Raises:
            PgError: they are none, or not those of the table.
        """
        self._left += data
        at = 0 if self._begun else self._begin()
        while self._begun and (end := self._row(at)):
            at = end
        del self._left[:at]
        if self._ended and self._left:
            raise PgError(BAD_COPY, "more came for COPY after the end of its rows")
        if len(self._rows) >= _ROWS:
            yield self._table()

    def end(self) -> Iterator[pa.Table]:
        """Yields the rows that are left; the mark of their end may be missing.

        Raises:
            PgError: the last row has not come whole, or nothing has.
        """
        if self._left or not self._begun:
            raise PgError(BAD_COPY, "the rows of COPY in the format binary are cut off")
        if self._rows:
            yield self._table()

    def _begin(self) -> int:
        """The end of the header; 0 if it has not come whole."""
        data, size = self._left, len(HEAD)
        if not SIGNATURE.startswith(data[: len(SIGNATURE)]):
            raise PgError(BAD_COPY, "what came for COPY has not the format binary")
        if len(data) < size:
            return 0
        flags, more = struct.unpack_from("!ii", data, len(SIGNATURE))
        if flags & 0xFFFF0000 or more < 0:
            raise PgError(BAD_COPY, "the header of COPY's format binary has what is unknown")
        if len(data) < size + more:
            return 0
        self._begun = True
        return size + int(more)

    def _row(self, at: int) -> int:
        """Reads a row, or their end; returns where it ends, 0 if it has not come whole."""
        data, size = self._left, len(self._left)
        if self._ended or at + 2 > size:
            return 0
        (count,) = _SHORT.unpack_from(data, at)
        if count == -1:
            self._ended = True
            return at + 2
        if count != len(self._oids):
            raise PgError(BAD_COPY, f"a row of COPY has {count} values, not {len(self._oids)}")
        at += 2
        row: list[bytes | None] = []
        for _ in range(count):
            if at + 4 > size:
                return 0
            (length,) = _LONG.unpack_from(data, at)
            if length < -1:
                raise PgError(BAD_COPY, f"a value of COPY has {length} bytes")
            at += 4 + max(length, 0)
            if at > size:
                return 0
            row.append(None if length < 0 else bytes(data[at - length : at]))
        self._rows.append([_told(v, oid) for v, oid in zip(row, self._oids, strict=True)])
        return at

    def _table(self) -> pa.Table:
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(c, type) for c, type in zip(columns, self._arrow, strict=True)]
        self._rows = []
        return pa.table(arrays, [str(i) for i in range(len(arrays))])


def _told(value: bytes | None, oid: int) -> Any:
    if value is None:
        return None
    try:
        return _text(binary_value(value, oid))
    except (ValueError, ArithmeticError, struct.error, IndexError, KeyError) as error:
        raise PgError(BAD_BINARY, f"a value of COPY is none of its type: {error}") from error


def _text(value: Any) -> Any:
    """A value as a text that DuckDB casts, bytes as they are, and lists of texts."""
    match value:
        case str() | bytes() | None:
            return value
        case list():
            return [_text(each) for each in value]
        case duckdb.Value():
            return value.object
        case Decimal():
            return format(value, "f")
    return str(value)

"""The payload of a log record: one epoch's table changes as framed column buffers.

Law: `decode(encode(record, tables), tables)` gives back the record bit for bit. Fixed-width
columns are their numpy bytes, strings and binaries are rebased offsets and data, anything nested
is an Arrow IPC batch; types are in the segment's header and not repeated. A column that an update
keeps, which is one object in its removed and its added rows, is there once, and so is each of the
strings of a column where they repeat. A small record costs a few microseconds a column; the buffers
of a big one are passed on without a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ivm.storage.errors import InternalError
from ivm.storage.log.change import Record, TableChange
from ivm.storage.values import dictionary
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, all_ones, empty

Parts: TypeAlias = list[Any]
"""Buffers (bytes or contiguous arrays) that follow one another in the file."""

_HEAD = struct.Struct("<QII")  # epoch, layout, number of changes
_LAYOUT = 1  # 0, of segments with format 1: no columns are kept, and no strings repeat
_CHANGE = struct.Struct("<IHQQ")  # table, removed columns, removed rows, added rows
_SIZE = struct.Struct("<Q")

_PLAIN, _WITH_NULLS, _LABELS = b"\0", b"\1", b"\2"
_REPEATED = 64  # rows from which texts that repeat are written once,
_LOOKED_AT = 16  # and one to so many strings of the process, all of which are looked at


class TableCodes:
    """Numbers for the tables of a segment, in the order of its header."""

    __slots__ = ("names", "numbers", "types")

    def __init__(self, tables: Mapping[str, Schema]) -> None:
        self.names = tuple(tables)
        self.numbers = {name: i for i, name in enumerate(tables)}
        self.types = tuple([tuple([t for _, t in schema]) for schema in tables.values()])


def encode(record: Record, tables: TableCodes) -> Parts:
    """The record's payload as a list of buffers.

    Raises:
        InternalError: a table, or columns, that the current segment's header does not list.
    """
    parts: Parts = [_HEAD.pack(record.epoch, _LAYOUT, len(record.changes))]
    for change in record.changes:
        _put_change(parts, change, tables)
    return parts


def _put_change(parts: Parts, change: TableChange, tables: TableCodes) -> None:
    number = tables.numbers.get(change.table)
    if number is None:
        raise InternalError(
            f"The log's segment does not know the table {change.table}: a new segment must be"
            " started after every change of schema."
        )
    columns = change.removed_columns
    removed, added = len(change.removed.weights), len(change.added.weights)
    parts.append(_CHANGE.pack(number, len(columns), removed, added))
    kept = change.kept
    counted = len(columns), len(kept)
    parts.append(struct.pack("<{}HH{}H".format(*counted), *columns, len(kept), *kept))
    types = tables.types[number]
    if removed:
        _put_batch(
            parts, change.table, change.removed, [types[i] for i in columns if i < len(types)]
        )
    if added:
        _put_batch(parts, change.table, change.added, types, kept)


def _put_batch(
    parts: Parts,
    table: str,
    batch: ZSet,
    types: Sequence[ColumnType],
    kept: Sequence[int] = (),
) -> None:
    """The rows, if their columns have the form of the types that the segment's header lists.

    Args:
        kept: positions of columns that are there already.
    """
    if len(batch.columns) != len(types):
        raise _misfit(table)
    if all_ones(batch.weights):
        parts.append(_PLAIN)
    else:
        parts += (_WITH_NULLS, np.ascontiguousarray(batch.weights))
    for i, (column, type) in enumerate(zip(batch.columns, types, strict=True)):
        if i in kept:
            continue
        if isinstance(column, FixedColumn):
            if column.values.dtype != type.dtype:
                raise _misfit(table)
            if column.valid is None and column.values.flags.c_contiguous:
                parts += (_PLAIN, column.values)
            else:
                _put_fixed(parts, column)
        elif isinstance(column, DictionaryColumn) and type.is_bytes:
            _put_dictionary(parts, column)
        elif type.dtype is not None or column.array.type != type.memory:
            raise _misfit(table)
        elif type.is_bytes:
            _put_strings(parts, column.array)
        else:
            _put_nested(parts, column.array, type)


def _misfit(table: str) -> InternalError:
    return InternalError(
        f"A change of the table {table} has other columns than the log's segment says: it was made"
        " for the table as it was before a change of schema."
    )


def _put_validity(parts: Parts, column: Column) -> None:
    valid = column.valid
    if valid is None:
        parts.append(_PLAIN)
    else:
        parts += (_WITH_NULLS, np.packbits(valid, bitorder="little"))


def _put_fixed(parts: Parts, column: FixedColumn) -> None:
    _put_validity(parts, column)
    values = column.values
    parts.append(values if values.flags.c_contiguous else np.ascontiguousarray(values))


def _put_dictionary(parts: Parts, column: DictionaryColumn) -> None:
    """Writes strings as `_put_strings` does, if they do not repeat; a few need no Arrow."""
    count = len(column.codes)
    enough = max(_REPEATED, dictionary.count() // _LOOKED_AT)
    if count >= enough and _put_labels(parts, column.codes):
        return
    if count < _REPEATED:
        _put_few(parts, dictionary.words(column.codes))
    else:
        _put_strings(parts, column.array)


def _put_few(parts: Parts, texts: Sequence[str | None]) -> None:
    """Writes a few strings, at least one."""
    data = [b"" if text is None else text.encode() for text in texts]
    ends = tuple(accumulate([len(text) for text in data]))
    if None in texts:
        valid = [text is not None for text in texts]
        parts += (_WITH_NULLS, np.packbits(valid, bitorder="little"))
    else:
        parts.append(_PLAIN)
    parts += (struct.pack(f"<{2 + len(ends)}Q", ends[-1], 0, *ends), *data)


def _put_labels(parts: Parts, codes: dictionary.DictionaryCodes) -> bool:
    """Writes each different string once, and their numbers, if they are few enough."""
    different, numbers = dictionary.distinct(codes)
    if len(different) > len(codes) // 4:
        return False
    parts += (_LABELS, _SIZE.pack(len(different)))
    _put_strings(parts, dictionary.decode(different))
    parts.append(numbers.astype(np.min_scalar_type(len(different))))
    return True


def _put_strings(parts: Parts, array: pa.Array) -> None:
    _put_validity(parts, ArrowColumn(array))
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64, len(array) + 1, 8 * array.offset)
    start, stop = int(offsets[0]), int(offsets[-1])
    parts.append(_SIZE.pack(stop - start))
    parts.append(offsets - start if start else offsets)
    if stop > start:
        parts.append(memoryview(data)[start:stop])


def _put_nested(parts: Parts, array: pa.Array, type: ColumnType) -> None:
    batch = pa.RecordBatch.from_arrays([array], schema=_wrapper(type)).serialize()
    parts += (_SIZE.pack(batch.size), memoryview(batch))


def _wrapper(type: ColumnType) -> pa.Schema:
    return pa.schema([("c", type.memory)])


def decode(payload: memoryview, tables: TableCodes) -> Record:
    """The record of a payload whose checksum was found right.

    Args:
        payload: the bytes that `encode` framed; they are copied, not referred to.
        tables: of the header of the segment the payload was read from.
    """
    reader = _Reader(payload)
    epoch, layout, count = reader.unpack(_HEAD)
    return Record(epoch, tuple([_get_change(reader, tables, layout) for _ in range(count)]))


class _Reader:
    """A position in a payload."""

    __slots__ = ("at", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0

    def take(self, size: int) -> bytes:
        """The next bytes, copied so that arrays over them are aligned and own their memory."""
        start = self.at
        self.at = start + size
        return self.view[start : self.at].tobytes()

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def positions(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}H", self.take(2 * count))

    def size(self) -> int:
        return int(self.unpack(_SIZE)[0])

    def flag(self) -> bool:
        return self.take(1) == _WITH_NULLS


def _get_change(reader: _Reader, tables: TableCodes, layout: int) -> TableChange:
    number, width, removed, added = reader.unpack(_CHANGE)
    columns = reader.positions(width)
    kept = reader.positions(reader.positions(1)[0]) if layout else ()
    types = tables.types[number]
    old = _get_batch(reader, removed, [types[i] for i in columns], {})
    there = {i: old.columns[columns.index(i)] for i in kept}
    return TableChange(tables.names[number], old, columns, _get_batch(reader, added, types, there))


def _get_batch(
    reader: _Reader, count: int, types: Sequence[ColumnType], there: Mapping[int, Column]
) -> ZSet:
    """The rows of a batch, whose columns `there` are known."""
    if count == 0:
        return empty(types)
    weights = np.ones(count, np.int64)
    if reader.flag():
        weights = np.frombuffer(reader.take(8 * count), np.int64)
    columns = [
        there[i] if i in there else _get_column(reader, count, type) for i, type in enumerate(types)
    ]
    return ZSet(tuple(columns), weights)


def _get_column(reader: _Reader, count: int, type: ColumnType) -> Column:
    if type.dtype is None and not type.is_bytes:
        return _get_nested(reader, type)
    if type.dtype is None:
        return _get_strings(reader, count, type)
    bits = reader.take((count + 7) // 8) if reader.flag() else None
    values = np.frombuffer(reader.take(count * type.dtype.itemsize), type.dtype)
    if bits is None:
        return FixedColumn(values)
    valid = np.unpackbits(np.frombuffer(bits, np.uint8), count=count, bitorder="little")
    return FixedColumn(values, valid.view(np.bool_))


def _get_strings(reader: _Reader, count: int, type: ColumnType) -> ArrowColumn:
    tag = reader.take(1)
    if tag == _LABELS:
        return _get_labels(reader, count, type)
    validity = pa.py_buffer(reader.take((count + 7) // 8)) if tag == _WITH_NULLS else None
    size = reader.size()
    offsets = pa.py_buffer(reader.take(8 * (count + 1)))
    buffers = [validity, offsets, pa.py_buffer(reader.take(size))]
    return ArrowColumn(pa.Array.from_buffers(type.memory, count, buffers))


def _get_labels(reader: _Reader, count: int, type: ColumnType) -> ArrowColumn:
    size = reader.size()
    different = _get_strings(reader, size, type)
    numbers = np.min_scalar_type(size)
    rows = np.frombuffer(reader.take(count * numbers.itemsize), numbers)
    return ArrowColumn(different.array.take(pa.array(rows)))


def _get_nested(reader: _Reader, type: ColumnType) -> ArrowColumn:
    buffer = pa.py_buffer(reader.take(reader.size()))
    return ArrowColumn(pa.ipc.read_record_batch(buffer, _wrapper(type)).column(0))

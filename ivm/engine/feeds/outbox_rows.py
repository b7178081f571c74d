"""The rows of `_ivm.sinks` and `_ivm.outbox`, and the deltas that they hold.

Law: `unpacked(packed(delta, schema), schema)` is the delta, bit for bit. A payload is an Arrow IPC
stream of the view's columns and, last, of their weights.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.storage.errors import CorruptionError, UnsupportedError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, empty, from_arrow, ones
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

SINKS, OUTBOX = "_ivm.sinks", "_ivm.outbox"
Key = tuple[str, int, int]
"""The sink, epoch and part of a row of the outbox."""
OWED = -1
"""The part of a row that holds what a sink knows of a view that is being filled anew."""

_COMPRESSED = 1 << 16  # bytes from which compression is worth its call
_WEIGHT = "_weight"
_SINK = tuple([type_of(sql) for sql in ("VARCHAR",) * 4 + ("BOOLEAN", "BIGINT")])
_PART = tuple(
    [
        type_of(sql)
        for sql in ("VARCHAR", "BIGINT", "BIGINT", "TIMESTAMP WITH TIME ZONE", "BIGINT", "BLOB")
    ]
)


@dataclass(frozen=True)
class Sink:
    """A sink as it was created.

    Attributes:
        name: in lower case.
        view: canonical name.
        target: the kind of target.
        options: of the target, as texts.
        paused: whether it gets nothing until it is resumed.
        acknowledged: the last epoch that its target has for good.
        identity: of this sink as long as the database is open; another one may get its name.
    """

    name: str
    view: str
    target: str
    options: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False
    acknowledged: int = 0
    identity: object = field(default_factory=object, compare=False, repr=False)


@dataclass(frozen=True)
class Part:
    """One row of the outbox: a view's delta of one epoch, or a part of it.

    Attributes:
        sink: its name.
        epoch: of the delta.
        part: its number in the epoch, from 0.
        time: of the commit, in microseconds since 1970.
        rows: how many the delta has.
        payload: the delta, see `packed`.
    """

    sink: str
    epoch: int
    part: int
    time: int
    rows: int
    payload: bytes


def refuse_outbox(view: str, reads: Iterable[str]) -> None:
    """Refuses a view of the sinks' own tables, which change by the changes of views.

    Raises:
        UnsupportedError: it reads one.
    """
    if {SINKS, OUTBOX}.intersection(reads):
        raise UnsupportedError(
            f"view {view!r} would change whenever a sink takes a change of a view: read "
            f"{SINKS} and {OUTBOX} by queries, or use SHOW SINKS"
        )


def packed(delta: ZSet, schema: Schema) -> bytes:
    """A delta as a payload."""
    table = delta.to_arrow(schema)
    table = table.append_column(pa.field(_WEIGHT, pa.int64()), pa.array(delta.weights))
    large = delta.nbytes >= _COMPRESSED
    options = pa.ipc.IpcWriteOptions(compression="lz4" if large else None)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        writer.write_table(table)
    return stream.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked(payload: bytes, schema: Schema) -> ZSet:
    """The delta that a payload holds.

    Raises:
        CorruptionError: its columns have other types, since another program has altered the view's.
    """
    with pa.ipc.open_stream(payload) as reader:
        table = reader.read_all()
    if not _are_alike(table.schema.types, _packed_types(schema)):
        raise CorruptionError(
            "what waits for a sink has not the columns of its view, which another program has "
            "altered: restore the table that holds the view, or drop the sink"
        )
    weights = table.column(len(schema)).to_numpy()
    return from_arrow(table.select(range(len(schema))), schema, weights)


@functools.lru_cache(256)
def _packed_types(schema: Schema) -> list[pa.DataType]:
    """The types of a payload's columns."""
    with pa.ipc.open_stream(packed(empty([type for _, type in schema]), schema)) as reader:
        return reader.schema.types  # type: ignore[no-any-return]


def _are_alike(found: Sequence[pa.DataType], wanted: Sequence[pa.DataType]) -> bool:
    """Returns whether values are read as values of these types; names within them may be others."""
    pairs = zip(found, wanted, strict=False)
    alike = all(a == b or (a.id == b.id and pa.types.is_nested(a)) for a, b in pairs)
    return alike and len(found) == len(wanted)


def part_of(sink: str, epoch: int, part: int, delta: ZSet, payload: bytes) -> Part:
    """A part of an epoch that is being committed now."""
    return Part(sink, epoch, part, time.time_ns() // 1000, len(delta), payload)


# -- as changes of the tables -----------------------------------------------------------------


def put_sinks(sinks: Sequence[Sink], *, known: bool) -> TableChange:
    """The change that adds sinks, or replaces those of the same names.

    Args:
        known: whether they are stored already.
    """
    texts = [[s.name for s in sinks], [s.view for s in sinks], [s.target for s in sinks]]
    options = [json.dumps(dict(s.options), ensure_ascii=False) for s in sinks]
    columns = [
        *[_column(values, type) for values, type in zip([*texts, options], _SINK, strict=False)],
        _column([s.paused for s in sinks], _SINK[4]),
        _column([s.acknowledged for s in sinks], _SINK[5]),
    ]
    removed = _names([s.name for s in sinks] if known else [])
    return TableChange(SINKS, removed, (0,), ZSet(tuple(columns), ones(len(sinks))))


def remove_sinks(names: Sequence[str]) -> TableChange:
    """The change that removes sinks."""
    return TableChange(SINKS, _names(names), (0,), empty(_SINK))


def sinks_put(change: TableChange) -> Iterator[Sink]:
    """The sinks that a change of `_ivm.sinks` adds."""
    for name, view, target, options, paused, acknowledged in _cells(change.added):
        yield Sink(name, view, target, json.loads(options), bool(paused), acknowledged)


def sinks_stored(cursor: Cursor) -> Iterator[Sink]:
    """The sinks as the file has them."""
    columns = 'name, "view", target, options, paused, acknowledged'
    for name, view, target, options, paused, acknowledged in rows(
        cursor, f"SELECT {columns} FROM {SINKS}"
    ):
        yield Sink(name, view, target, json.loads(options), paused, acknowledged)


def sinks_removed(change: TableChange) -> Iterator[str]:
    """The names of the sinks that a change of `_ivm.sinks` removes, or replaces."""
    for (name,) in _cells(change.removed):
        yield name


def put_parts(parts: Sequence[Part]) -> TableChange:
    """The change that adds rows to the outbox."""
    values: list[list[Any]] = [
        [p.sink for p in parts],
        [p.epoch for p in parts],
        [p.part for p in parts],
        [p.time for p in parts],
        [p.rows for p in parts],
        [p.payload for p in parts],
    ]
    columns = [_column(each, type) for each, type in zip(values, _PART, strict=True)]
    return TableChange(OUTBOX, empty(_PART[:3]), (0, 1, 2), ZSet(tuple(columns), ones(len(parts))))


def remove_parts(keys: Sequence[Key]) -> list[TableChange]:
    """The change that removes rows from the outbox; none without keys."""
    if not keys:
        return []
    columns = tuple([_column([k[i] for k in keys], _PART[i]) for i in range(3)])
    return [TableChange(OUTBOX, ZSet(columns, ones(len(keys))), (0, 1, 2), empty(_PART))]


def parts_put(change: TableChange) -> Iterator[Part]:
    """The rows that a change adds to the outbox."""
    for row in _cells(change.added):
        yield Part(*row)


def parts_removed(change: TableChange) -> Iterator[Key]:
    """The keys of the rows that a change removes from the outbox."""
    yield from _cells(change.removed)


def _names(names: Sequence[str]) -> ZSet:
    return ZSet((_column(names, _SINK[0]),), ones(len(names)))


def _column(values: Sequence[Any], type: ColumnType) -> Column:
    if type.dtype is not None:
        return FixedColumn(np.array(values, type.dtype))
    return ArrowColumn(pa.array(values, type.memory))


def _cells(batch: ZSet) -> Iterator[Any]:
    """The rows; there is one a sink and epoch, so that Python may look at each."""
    for row in range(len(batch)):
        yield tuple([column.cell(row) for column in batch.columns])

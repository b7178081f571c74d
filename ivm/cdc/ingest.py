"""Events into one table: decoded, merged with its rows, and committed together with their position.

Law: the batches of a source for a table are applied once each, in the order of their positions: a
batch whose position has been reached changes nothing. An event that cannot be applied is in
`_ivm.dead_letters` with its reason, and its neighbours are applied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from ivm.cdc import records
from ivm.cdc.formats.debezium import DEBEZIUM, WITH_SCHEMA
from ivm.cdc.formats.json_lines import Decoded, decode
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.maxwell import MAXWELL
from ivm.cdc.formats.plain import APPENDS, CHANGES
from ivm.cdc.keyed import merge_keyed
from ivm.cdc.keyless import merge_keyless
from ivm.cdc.merged import Merged
from ivm.engine.transaction import Transaction
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import empty
from ivm.storage.warehouse.table_info import TableInfo

T = TypeVar("T")

_FORMATS = {
    "debezium": DEBEZIUM,
    "debezium with schema": WITH_SCHEMA,
    "maxwell": MAXWELL,
    "json": CHANGES,
    "json appends": APPENDS,
}
_DIGITS = {"ms": 3, "us": 6, "ns": 9}
_DECIMALS = {"text": False, "base64": True}


@dataclass(frozen=True)
class Ingested:
    """What a batch of events has come to.

    Attributes:
        applied: events that changed the table, or would have if they had not been seen before.
        refused: why events could not be applied, by their number in the batch, from 0.
        ignored: messages that are no changes.
        counts: of applied events by kind; `known_inserts`, `unknown_updates` and `unknown_deletes`
            are those that found, or did not find, the row that they should.
        skipped: the batch's position had been reached before, and nothing was done.
    """

    applied: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    ignored: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    skipped: bool = False


def ingest(
    session: Session,
    table: str,
    events: Sequence[Any] | pa.Array,
    envelope: Envelope,
    source: str,
    position: int | None,
) -> Ingested:
    """See `Database.ingest`."""
    _demand_position(position)
    lines = _lines(events)
    records.create(session)

    def read() -> tuple[TableInfo, Decoded]:
        info = table_info(session, table)
        return info, decode(session.cursor, lines, info, envelope)

    decoded = session.ahead(read)
    with session.writing() as transaction:
        info, found = decoded()
        record = records.Records(session, transaction, source, info.name)
        if position is not None:
            reached = record.position()
            if reached is not None and reached >= position:
                return Ingested(skipped=True)
            record.reach(position)
        merged = _apply(session, transaction, info, found)
        refused = dict(sorted({**found.refused, **merged.refused}.items()))
        payloads = lines.take(pa.array(list(refused), pa.int64())).to_pylist()
        pairs = zip(refused.items(), payloads, strict=True)
        record.bury(position, {line: (why, text) for (line, why), text in pairs})
    applied = len(found.events) + len(found.truncates) - len(merged.refused)
    return Ingested(applied, refused, found.ignored, merged.counts)


def envelope_of(format: str, times: str | None, decimals: str | None) -> Envelope:
    """The envelope of a format, see `Database.ingest`.

    Raises:
        InputError: there is no such format or encoding.
    """
    envelope = _named(_FORMATS, "format", format)
    if times is None and decimals is None:
        return envelope
    if envelope.schema:
        raise InputError("the events' schema tells how times and decimals are written")
    encoding = envelope.encoding
    if times is not None:
        encoding = replace(encoding, digits=_named(_DIGITS, "unit of times", times))
    if decimals is not None:
        encoding = replace(encoding, base64=_named(_DECIMALS, "form of decimals", decimals))
    return replace(envelope, encoding=encoding)


def _named(known: Mapping[str, T], what: str, name: str) -> T:
    if name not in known:
        raise InputError(f"there is no {what} {name!r}; there are: {', '.join(known)}")
    return known[name]


def _demand_position(position: object) -> None:
    if position is None:
        return
    if isinstance(position, bool) or not isinstance(position, int):
        raise InputError(f"a position is an integer that grows from batch to batch: {position!r}")
    if not -(1 << 63) <= position < 1 << 63:
        raise InputError(f"a position has at most 64 bits: {position}")


def _lines(events: Sequence[Any] | pa.Array) -> pa.Array:
    if isinstance(events, (pa.Array, pa.ChunkedArray)):
        array = events.combine_chunks() if isinstance(events, pa.ChunkedArray) else events
        return array.cast(pa.large_string())
    if isinstance(events, (str, bytes)):
        raise InputError("events are a list, one JSON text or dict each, not a single text")
    return pa.array([_line(event) for event in events], pa.large_string())


def _line(event: object) -> str | None:
    if event is None or isinstance(event, str):
        return event
    if isinstance(event, bytes):  # what is no UTF-8 is no JSON then either
        return event.decode(errors="backslashreplace")
    return json.dumps(event, ensure_ascii=False)


def _apply(session: Session, transaction: Transaction, info: TableInfo, found: Decoded) -> Merged:
    """Applies a batch; refused events are numbered by their lines."""
    path = transaction.fast_path(info.name)
    if path is None:
        raise UnsupportedError(
            f"events cannot be ingested into table {info.name!r}: it has generated columns, "
            "foreign keys or further unique constraints, or was changed by DDL in this transaction"
        )
    events, lines = found.events, found.lines
    if found.truncates:
        _empty(session, transaction, info)
        later = (lines > found.truncates[-1]).nonzero()[0]
        events, lines = events.take(later), lines[later]
    if info.primary_key:
        index = transaction.index(info.name, all_columns=bool(events.unknown))
        merged = merge_keyed(path, events, index)
    else:
        merged = merge_keyless(path, events, transaction.index(info.name))
    transaction.add(merged.change)
    counts = {**merged.counts, "truncates": len(found.truncates)}
    return replace(
        merged,
        refused={int(lines[i]): why for i, why in merged.refused.items()},
        counts={kind: count for kind, count in counts.items() if count},
    )


def _empty(session: Session, transaction: Transaction, info: TableInfo) -> None:
    """Takes out all rows of a table."""
    if any(change.table == info.name for change in transaction.changes):
        raise UnsupportedError(
            f"table {info.name!r} was changed in this transaction: COMMIT before a TRUNCATE event"
        )
    session.engine.tables.flush([info.name])
    rows = session.engine.tables.content(info.name)
    types = [type for _, type in info.schema]
    transaction.add(TableChange(info.name, rows, tuple(range(len(types))), empty(types)))

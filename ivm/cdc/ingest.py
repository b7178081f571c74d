"""Events into one table: decoded, merged with its rows, and committed together with their position.

Law: the batches of a source are applied once each, in the order of their positions: a batch whose
position has been reached changes nothing. An event that cannot be applied is in `_ivm.dead_letters`
with its reason, and its neighbours are applied.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.cdc import records
from ivm.cdc.formats.debezium import debezium
from ivm.cdc.formats.events import Events
from ivm.cdc.formats.json_lines import Decoded, decode
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.maxwell import MAXWELL
from ivm.cdc.formats.plain import APPENDS, changes
from ivm.cdc.merge import Merged, merge
from ivm.cdc.rows import merge_rows
from ivm.engine.transaction import Transaction
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import empty
from ivm.storage.warehouse.table_info import TableInfo

FORMATS: dict[str, Envelope] = {
    "debezium": debezium(),
    "debezium with schema": debezium(schema=True),
    "maxwell": MAXWELL,
    "json": changes(),
    "json appends": APPENDS,
}


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
    if position is not None and (isinstance(position, bool) or not isinstance(position, int)):
        raise InputError(f"a position is an integer that grows from batch to batch: {position!r}")
    lines = _lines(events)
    records.create(session)

    def read() -> tuple[TableInfo, Decoded]:
        info = table_info(session, table)
        return info, decode(session.cursor, lines, info, envelope)

    decoded = session.ahead(read)
    with session.writing() as transaction:
        if position is not None and _reached(transaction, source, position):
            return Ingested(skipped=True)
        info, found = decoded()
        counts, refused = _apply(session, transaction, info, found)
        refused = dict(sorted({**found.refused, **refused}.items()))
        begin = f"after epoch {session.engine.epoch}" if position is None else str(position)
        _bury(transaction, info, lines, refused, source, begin)
        if position is not None:
            records.reach(transaction, source, position)
    applied = len(found.events) + len(found.truncates) + len(found.refused) - len(refused)
    return Ingested(applied, refused, found.ignored, counts)


def envelope_of(format: str) -> Envelope:
    """The envelope of a format by its name.

    Raises:
        InputError: there is no such format.
    """
    found = FORMATS.get(format)
    if found is None:
        raise InputError(f"there is no format {format!r}; there are: {', '.join(FORMATS)}")
    return found


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


def _reached(transaction: Transaction, source: str, position: int) -> bool:
    known = records.position_of(transaction, source)
    return known is not None and known >= position


def _apply(
    session: Session, transaction: Transaction, info: TableInfo, found: Decoded
) -> tuple[dict[str, int], dict[int, str]]:
    """Applies a batch; counts, and why events are refused by the number of their line."""
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
    merged = _merged(transaction, info, events)
    transaction.add(merged.change)
    counts = Counter(merged.counts)
    counts["truncates"] = len(found.truncates)
    return dict(+counts), {int(lines[i]): why for i, why in merged.refused.items()}


def _merged(transaction: Transaction, info: TableInfo, events: Events) -> Merged:
    path = transaction.fast_path(info.name)
    assert path is not None
    if not info.primary_key:
        return merge_rows(path, events, transaction.index(info.name))
    index = transaction.index(info.name, all_columns=bool(events.unknown))
    return merge(path, events, index)


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


def _bury(
    transaction: Transaction,
    info: TableInfo,
    lines: pa.Array,
    refused: dict[int, str],
    source: str,
    begin: str,
) -> None:
    texts = lines.take(pa.array(np.array(list(refused), np.int64))).to_pylist()
    pairs = zip(refused.items(), texts, strict=True)
    letters = {f"{begin}, event {line}": (why, text or "") for (line, why), text in pairs}
    records.bury(transaction, source, info.name, letters)

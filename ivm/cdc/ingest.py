"""Events that a program has in hand, applied to one table.

Contract: see `apply`; the position of a batch is the program's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any

import pyarrow as pa

from ivm.cdc import records
from ivm.cdc.apply import Ingested, apply_parts, prepare
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.texts import texts_of
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.source import Position
from ivm.ingest.values.python_parts import is_missing
from ivm.session.ddl.stream_positions import SOURCES
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import InputError


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
    _demand_program(session, source)
    stream = table_info(session, table).name
    part = JsonPart(table, lines, envelope, stream, positions=[position] * len(lines))
    positions = {} if position is None else {stream: Position(position)}
    prepared = session.ahead(lambda: prepare(session, part))
    [done] = apply_parts(session, source, [prepared], positions).parts
    return done


def _demand_program(session: Session, source: str) -> None:
    """Refuses the name of a created source, whose positions and dead letters are its own."""
    changes = session.transaction.changes if session.transaction else ()
    if session.engine.small.find(SOURCES, (source,), changes) is not None:
        raise InputError(
            f"{source!r} is a source that was created: name the stream of your events otherwise"
        )


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
        try:
            return array.cast(pa.large_string())
        except pa.ArrowException as error:
            raise InputError(f"an Arrow array of events has JSON texts: {error}") from error
    is_one = isinstance(events, (str, bytes, Mapping)) or not isinstance(events, Iterable)
    if is_one or hasattr(events, "columns"):  # a frame, whose elements are columns
        what = "text" if isinstance(events, (str, bytes)) else type(events).__name__
        raise InputError(f"events are a list, one JSON text or dict each, not a single {what}")
    return _texts([_line(event) for event in events])


def _texts(lines: list[str | None]) -> pa.Array:
    try:
        return pa.array(lines, pa.large_string())
    except UnicodeEncodeError:  # half of a character that takes two is no text
        as_bytes = [None if line is None else line.encode(errors="surrogatepass") for line in lines]
        return texts_of(pa.array(as_bytes, pa.large_binary()))


def _line(event: object) -> str | None:
    if isinstance(event, str):
        return event
    if event is None or is_missing(event) or (isinstance(event, float) and isnan(event)):
        return None
    if isinstance(event, bytes):  # what is no UTF-8 is no JSON then either
        return event.decode(errors="backslashreplace")
    try:
        return json.dumps(event, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"an event has a value that JSON has not ({error}): give a date, a time, a Decimal and "
            "their like as its text"
        ) from error

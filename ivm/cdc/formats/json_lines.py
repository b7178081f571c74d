"""Events that are JSON texts, decoded in columns by one DuckDB statement a batch.

Law: a value is what DuckDB's cast of the JSON value to the column's type gives, see `json_values`
for those that formats encode. A line that is no JSON, or has a value that does not fit, is refused
with its reason; the others are decoded as if it was not there. A key that a line lacks is a value
that was not sent.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import (
    DELETE,
    INSERT,
    Decoded,
    Events,
    Operations,
    UnlikeLinesError,
    interleaved,
)
from ivm.cdc.formats.json_doubts import doubts
from ivm.cdc.formats.json_statement import (
    DOUBTFUL,
    IGNORED,
    LINES,
    TRUNCATE,
    UNKNOWN,
    Envelope,
    Survey,
    TypedLines,
    json_path,
    statement,
)
from ivm.cdc.formats.json_survey import extended, groups, survey
from ivm.cdc.formats.key_changes import with_key_changes
from ivm.cdc.formats.line_reader import READERS, LineReader, Settings, settings_of
from ivm.storage.values.column import Indexes, Mask, column_from_arrow, concat
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

_MOST = 100  # streams that are remembered


@dataclass(frozen=True)
class _Known:
    """What is known of a stream from its batches so far.

    Attributes:
        survey: of their lines.
        statement: that decodes lines.
        doubts: the statement for doubtful lines.
        columns: of which there are keys.
    """

    survey: Survey
    statement: str
    doubts: str
    columns: tuple[int, ...]


def _learnt(seen: Survey, info: TableInfo, envelope: Envelope) -> _Known:
    columns = tuple(TypedLines(info, envelope, seen).keys)
    sql = statement(info, envelope, seen), doubts(info, envelope, seen)
    return _Known(seen, *sql, columns)


_known: dict[Hashable, _Known] = {}


def decode(cursor: Cursor, lines: pa.Array, info: TableInfo, envelope: Envelope) -> Decoded:
    """Decodes a batch of lines as events of one table.

    Args:
        cursor: of the session whose settings say how times are read.
        lines: large strings; NULL for a message without a value, which is ignored.
        info: the table.
        envelope: of the format.
    """
    return decode_by(settings_for(cursor, info), lines, info, envelope)


def decode_before(
    cursor: Cursor, lines: pa.Array, info: TableInfo, envelope: Envelope
) -> Decoded | None:
    """The rows before the events of lines, as inserts; None if the format has none.

    The arguments as for `decode`.
    """
    if envelope.before is None:
        return None
    told = decode(cursor, lines, info, envelope.of_before())
    if not envelope.old_is_partial:
        return told
    return _overlaid(decode(cursor, lines, info, envelope.of_before(envelope.after)), told)


def _overlaid(rows: Decoded, told: Decoded) -> Decoded:
    """Rows with the values that others of the same lines tell."""
    at, own = (np.flatnonzero(np.isin(a.lines, b.lines)) for a, b in ((rows, told), (told, rows)))
    columns, unknown = dict(rows.events.columns), dict(rows.events.unknown)
    for i, column in columns.items():
        knows = ~told.events.unknown.get(i, np.zeros(len(told.events), np.bool_))[own]
        source = np.arange(len(rows.lines))
        source[at[knows]] = len(rows.lines) + own[knows]
        columns[i] = concat([column, told.events.columns[i]]).take(source)
        if i in unknown:
            unknown[i] = unknown[i] & (source < len(rows.lines))
    return replace(rows, events=replace(rows.events, columns=columns, unknown=unknown))


def settings_for(cursor: Cursor, info: TableInfo) -> Settings | None:
    """The session's settings, if a column of the table is read by them."""
    zoned = any("TIME ZONE" in type.sql for _, type in info.schema)
    return settings_of(cursor) if zoned else None


def decode_by(
    settings: Settings | None, lines: pa.Array, info: TableInfo, envelope: Envelope
) -> Decoded:
    """Decodes as `decode` does, by the settings that `settings_for` has given."""

    def decoded(some: pa.Array) -> Decoded:
        return _decoded(reader, some, info, envelope, settings)

    with READERS.lend() as reader:
        try:
            return decoded(lines)
        except UnlikeLinesError:
            parts, refused = groups(reader, lines, info, envelope)
            found = [(numbers, decoded(lines.take(pa.array(numbers)))) for numbers in parts]
            return interleaved(found, refused)


def _decoded(
    reader: LineReader,
    lines: pa.Array,
    info: TableInfo,
    envelope: Envelope,
    settings: Settings | None,
) -> Decoded:
    known, found = _read(reader, lines, info, envelope, settings)
    doubtful = (found["verdict"].to_numpy() == DOUBTFUL).nonzero()[0]
    asked = None
    if len(doubtful):
        asked = reader.table(known.doubts, lines.take(pa.array(doubtful)), settings)
    reasons = _reasons(doubtful, asked)
    operations = found["op"].to_numpy()
    if asked is not None:
        ignored = asked["ignored"].to_numpy() == 1
        operations = operations.copy()
        operations[doubtful[ignored]] = IGNORED
    sound = np.ones(len(operations), np.bool_)
    sound[list(reasons)] = False
    changes = (sound & (operations >= INSERT) & (operations <= DELETE)).nonzero()[0]
    unknown = _unsent(operations, known, doubtful, asked, info, envelope)
    unchanged = _unchanged(len(operations), known, doubtful, asked)
    decoded = Decoded(
        _events(found, info, changes, unknown, unchanged),
        changes,
        reasons,
        (sound & (operations == TRUNCATE)).nonzero()[0].tolist(),
        int((sound & (operations == IGNORED)).sum()),
        origins=_texts(found, "origin"),
        transactions=_texts(found, "transaction"),
    )
    if not unchanged or not envelope.place:
        return decoded
    places = functools.partial(_places, reader, lines, envelope)
    return with_key_changes(decoded, info.primary_key, places)


def _places(reader: LineReader, lines: pa.Array, envelope: Envelope, numbers: Indexes) -> pa.Array:
    """Where upstream the changes of some lines stand, as JSON."""
    place = f"system.main.json_extract_string(raw, {json_path(envelope.place)})"
    asked = lines.take(pa.array(numbers))
    return reader.table(f"SELECT {place} AS place FROM {LINES}", asked, None)[0].combine_chunks()


def _texts(found: pa.Table, name: str) -> pa.Array | None:
    """A column of texts; None if there is none, or no line has one."""
    if name not in found.column_names or found[name].null_count == len(found):
        return None
    return pa.concat_arrays(found[name].cast(pa.large_string()).chunks)


def _read(
    reader: LineReader,
    lines: pa.Array,
    info: TableInfo,
    envelope: Envelope,
    settings: Settings | None,
) -> tuple[_Known, pa.Table]:
    """The lines by the survey of batches before them, if it has all keys and schemas.

    In a table without a key, a column that no line of a batch has does not tell rows apart: so
    their rows before changes are always read by the batch's own survey.
    """
    own = frozenset(info.defaults) if envelope.whole_inserts else None
    stream = (info.name, info.schema, info.primary_key, own, repr(envelope))
    known = _known.get(stream)
    if known is not None and (info.primary_key or not envelope.before):
        found = reader.table(known.statement, lines, settings)
        if not (found["verdict"].to_numpy() == UNKNOWN).any():
            return known, found
    seen = survey(reader, lines, info, envelope)
    if info.primary_key or not envelope.before:
        seen = extended(known.survey if known else None, seen, info, envelope)
    known = _learnt(seen, info, envelope)
    found = reader.table(known.statement, lines, settings)
    if len(_known) >= _MOST:
        _known.clear()
    _known[stream] = known
    return known, found


def _reasons(doubtful: Indexes, asked: pa.Table | None) -> dict[int, str]:
    if asked is None:
        return {}
    texts = zip(doubtful.tolist(), asked["refused"].to_pylist(), strict=True)
    return {line: why for line, why in texts if why is not None}


def _unsent(
    operations: Operations,
    known: _Known,
    doubtful: Indexes,
    asked: pa.Table | None,
    info: TableInfo,
    envelope: Envelope,
) -> dict[int, Mask]:
    """The lines that do not carry a column's value, by the column."""
    unsent: dict[int, Mask] = {}
    for i in range(len(info.schema)):
        if i not in known.columns:
            unsent[i] = np.isin(operations, envelope.may_lack(info, i))
        elif asked is not None:
            unsent[i] = np.zeros(len(operations), np.bool_)
            unsent[i][doubtful] = asked[f"u{i}"].to_numpy()
    return unsent


def _unchanged(
    count: int, known: _Known, doubtful: Indexes, asked: pa.Table | None
) -> dict[int, Mask]:
    """See `Events`; of all lines, by the column."""
    unchanged: dict[int, Mask] = {}
    if asked is None:
        return unchanged
    for i in known.columns:
        found = asked[f"p{i}"].to_numpy()
        if found.any():
            unchanged[i] = np.zeros(count, np.bool_)
            unchanged[i][doubtful] = found
    return unchanged


def _events(
    found: pa.Table,
    info: TableInfo,
    changes: Indexes,
    unknown: Mapping[int, Mask],
    unchanged: Mapping[int, Mask],
) -> Events:
    rows = found if len(changes) == len(found) else found.take(pa.array(changes))
    types = [type for _, type in info.schema]
    old = [i for i in range(len(types)) if f"o{i}" in found.column_names]
    return Events(
        rows["op"].to_numpy().astype(np.uint8),
        {i: column_from_arrow(rows[f"c{i}"], type) for i, type in enumerate(types)},
        {i: mask[changes] for i, mask in unknown.items() if mask[changes].any()},
        {i: column_from_arrow(rows[f"o{i}"], types[i]) for i in old} or None,
        {i: mask[changes] for i, mask in unchanged.items() if mask[changes].any()},
    )

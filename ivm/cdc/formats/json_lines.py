"""Events that are JSON texts, decoded in columns by one DuckDB statement a batch.

Law: a value is what DuckDB's cast of the JSON value to the column's type gives, see `json_values`
for those that formats encode. A line that is no JSON, or has a value that does not fit, is refused
with its reason; the others are decoded as if it was not there. A key that a line lacks is a value
that was not sent.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.connect_schema import encodings
from ivm.cdc.formats.events import DELETE, INSERT, Decoded, Events
from ivm.cdc.formats.json_statement import (
    IGNORED,
    LINES,
    TRUNCATE,
    UNAVAILABLE,
    Envelope,
    Survey,
    json_path,
    statement,
)
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.values.column import ArrowColumn, FixedColumn, Mask, column_from_arrow
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.duck import Cursor, registered, table
from ivm.storage.warehouse.table_info import TableInfo

_LINES: Schema = (("number", type_of("BIGINT")), ("raw", type_of("VARCHAR")))


def decode(cursor: Cursor, lines: pa.Array, info: TableInfo, envelope: Envelope) -> Decoded:
    """Decodes a batch of lines as events of one table.

    Args:
        cursor: runs the statement; it must be in no transaction that an error could abort.
        lines: strings; NULL for a message without a value, which is ignored.
        info: the table.
        envelope: of the format.

    Raises:
        InputError: a column has keys of two spellings, or two encodings.
    """
    numbered = FixedColumn(np.arange(len(lines))), ArrowColumn(lines)
    with registered(cursor, {LINES: (ZSet(numbered, ones(len(lines))), _LINES)}):
        found = table(cursor, statement(info, envelope, _survey(cursor, envelope, info)))
    return _decoded(found, info)


def _survey(cursor: Cursor, envelope: Envelope, info: TableInfo) -> Survey:
    paths = [envelope.after, *([envelope.before] if envelope.before else [])]
    listed = f"system.main.json_keys(raw, [{', '.join(map(json_path, paths))}])"
    schema = "NULL"
    if envelope.schema:
        schema = f"system.main.json_extract_string(raw, {json_path(envelope.schema)})"
    sql = (
        f"SELECT DISTINCT {listed} AS keys, system.main.contains(raw, '{UNAVAILABLE}') AS unsent,"
        f" {schema} AS schema FROM {LINES} WHERE system.main.json_valid(raw)"
    )
    found = table(cursor, sql)
    lists = [names for row in found["keys"].to_pylist() for names in row if names]
    schemas = [text for text in found["schema"].unique().to_pylist() if text]
    return Survey(
        _spelling({key for names in lists for key in names}, info),
        any(found["unsent"].to_pylist()),
        encodings(schemas, envelope.after[-1]) if schemas else {},
    )


def _spelling(keys: Iterable[str], info: TableInfo) -> dict[str, str]:
    """The keys of the table's columns by their folded names."""
    columns = {fold(name) for name, _ in info.schema}
    spelled: dict[str, str] = {}
    for key in sorted(keys):
        if fold(key) in columns and spelled.setdefault(fold(key), key) != key:
            raise InputError(
                f"the events have two keys for one column of table {info.name!r}: "
                f"{spelled[fold(key)]!r} and {key!r}; ingest them in batches of one spelling"
            )
    return spelled


def _decoded(found: pa.Table, info: TableInfo) -> Decoded:
    operations, numbers = found["op"].to_numpy(), found["number"].to_numpy()
    bad = found["refused"].is_valid().to_numpy()
    reasons = found["refused"].filter(pa.array(bad)).to_pylist()
    changes = (~bad & (operations >= INSERT) & (operations <= DELETE)).nonzero()[0]
    rows = found if len(changes) == len(found) else found.take(pa.array(changes))
    columns = [(i, type) for i, (_, type) in enumerate(info.schema)]
    unknown = {i: _mask(rows[f"u{i}"]) for i, _ in columns}
    old = [(i, type) for i, type in columns if f"o{i}" in rows.column_names]
    events = Events(
        operations[changes].astype(np.uint8),
        {i: column_from_arrow(rows[f"c{i}"], type) for i, type in columns},
        {i: mask for i, mask in unknown.items() if mask.any()},
        {i: column_from_arrow(rows[f"o{i}"], type) for i, type in old} or None,
    )
    return Decoded(
        events,
        numbers[changes],
        dict(zip(numbers[bad].tolist(), reasons, strict=True)),
        numbers[~bad & (operations == TRUNCATE)].tolist(),
        int((~bad & (operations == IGNORED)).sum()),
    )


def _mask(column: pa.ChunkedArray) -> Mask:
    return np.asarray(column.to_numpy(), np.bool_)  # DuckDB exports bytes

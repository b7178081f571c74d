"""Events that are JSON texts, decoded in columns by one DuckDB statement a batch.

Law: a value is what DuckDB's cast of the JSON value to the column's type gives. A line that is no
JSON, or holds a value that cannot be cast, is refused with its reason; the others are decoded as if
it was not there. A key that a line lacks is a value that was not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import DELETE, INSERT, Events
from ivm.cdc.formats.json_statement import (
    LINES,
    TRUNCATE,
    UNAVAILABLE,
    Envelope,
    json_path,
    statement,
)
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.values.column import (
    ArrowColumn,
    FixedColumn,
    Indexes,
    Mask,
    column_from_arrow,
)
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.duck import Cursor, registered, table
from ivm.storage.warehouse.table_info import TableInfo

_LINES: Schema = (("number", type_of("BIGINT")), ("raw", type_of("VARCHAR")))


@dataclass(frozen=True)
class Decoded:
    """The events of a batch of lines.

    Attributes:
        events: in the order of the lines.
        lines: int64[n], the number of each event's line in the batch.
        refused: by the number of the line, why it cannot be decoded.
        truncates: the numbers of the lines that empty the table.
        ignored: how many lines are no changes.
    """

    events: Events
    lines: Indexes
    refused: dict[int, str]
    truncates: list[int]
    ignored: int


def decode(cursor: Cursor, lines: pa.Array, info: TableInfo, envelope: Envelope) -> Decoded:
    """Decodes a batch of lines as events of one table.

    Args:
        cursor: runs the statement; it must be in no transaction that an error could abort.
        lines: strings; NULL for a message without a value, which is ignored.
        info: the table.
        envelope: of the format.

    Raises:
        InputError: a column has keys of two spellings.
    """
    numbered = FixedColumn(np.arange(len(lines))), ArrowColumn(lines)
    with registered(cursor, {LINES: (ZSet(numbered, ones(len(lines))), _LINES)}):
        keys, placeholders = _looked_at(cursor, envelope, info)
        found = table(cursor, statement(info, envelope, keys, placeholders=placeholders))
    return _decoded(found, info)


def _looked_at(cursor: Cursor, envelope: Envelope, info: TableInfo) -> tuple[dict[str, str], bool]:
    """The spelling of the columns' keys by their folded names, and whether placeholders occur."""
    paths = [envelope.after, *([envelope.before] if envelope.before else [])]
    listed = f"system.main.json_keys(raw, [{', '.join(map(json_path, paths))}])"
    sql = (
        f"SELECT DISTINCT {listed}, system.main.contains(raw, '{UNAVAILABLE}') FROM {LINES}"
        " WHERE system.main.json_valid(raw)"
    )
    found = table(cursor, sql)
    columns = {fold(name) for name, _ in info.schema}
    keys: dict[str, str] = {}
    for key in {key for row in found.column(0).to_pylist() for names in row for key in names or ()}:
        if fold(key) in columns and keys.setdefault(fold(key), key) != key:
            raise InputError(
                f"the events have two keys for one column of table {info.name!r}: {key!r} and "
                f"{keys[fold(key)]!r}; ingest them in batches of one spelling"
            )
    return keys, any(found.column(1).to_pylist())


def _decoded(found: pa.Table, info: TableInfo) -> Decoded:
    operations = found.column("op").to_numpy()
    numbers = found.column("number").to_numpy()
    reasons = found.column("refused")
    bad = reasons.is_valid().to_numpy()
    pairs = zip(numbers[bad].tolist(), reasons.filter(pa.array(bad)).to_pylist(), strict=True)
    changes = (~bad & (operations <= DELETE) & (operations >= INSERT)).nonzero()[0]
    empties = numbers[~bad & (operations == TRUNCATE)].tolist()
    rows = found.take(pa.array(changes))
    events = Events(
        operations[changes].astype(np.uint8),
        {i: column_from_arrow(rows[f"c{i}"], t) for i, (_, t) in enumerate(info.schema)},
        {i: mask for i in range(len(info.schema)) if (mask := _mask(rows, f"u{i}")).any()},
        {i: column_from_arrow(rows[f"o{i}"], t) for i, t in _old(rows, info)} or None,
    )
    ignored = len(found) - len(changes) - len(empties) - int(bad.sum())
    return Decoded(events, numbers[changes], dict(pairs), empties, ignored)


def _mask(rows: pa.Table, name: str) -> Mask:
    if name not in rows.column_names:
        return np.zeros(len(rows), np.bool_)
    mask: Mask = rows[name].to_numpy()
    return mask


def _old(rows: pa.Table, info: TableInfo) -> Iterable[tuple[int, ColumnType]]:
    for i, (_, type) in enumerate(info.schema):
        if f"o{i}" in rows.column_names:
            yield i, type

"""The dead letters of late events: rows of `_ivm.dead_letters` beside those of sources.

Law: a letter has one event in Debezium's form, an update with both its rows, and the values as
DuckDB writes them in JSON.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from ivm.engine.tables.row_times import spelled
from ivm.engine.tables.watermark_rows import Watermark
from ivm.engine.transactions.late_events import numbered
from ivm.storage.identifiers import fold
from ivm.storage.log.change import TableChange
from ivm.storage.scratch import Scratch
from ivm.storage.values.column import Indexes
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import empty, from_arrow
from ivm.storage.warehouse.duckdb.duck import registered, table
from ivm.storage.warehouse.tables.table_info import TableInfo

LETTERS = "_ivm.dead_letters"
SOURCE = "late rows"
"""The name under which they are listed and discarded, as letters of sources are under theirs."""

_SCRATCH = Scratch.of()
_EVENTS = {
    "c": "SELECT to_json({{op: 'c', before: NULL, after: {new}}}) FROM _ivm_added AS {new}",
    "d": "SELECT to_json({{op: 'd', before: {old}, after: NULL}}) FROM _ivm_removed AS {old}",
    "u": "SELECT to_json({{op: 'u', before: {old}, after: {new}}})"
    " FROM _ivm_removed AS {old} POSITIONAL JOIN _ivm_added AS {new}",
}
"""What gives the letters, with names for the rows that no column has, which would hide them."""


def letters(info: TableInfo, late: TableChange, mark: Watermark, schema: Schema) -> TableChange:
    """The change by which late events become dead letters.

    Args:
        info: the table.
        late: its late events; of an update both rows.
        mark: its watermark.
        schema: of `_ivm.dead_letters`.
    """
    assert mark.at is not None
    payloads = pa.concat_arrays([_payloads(info, op, part) for op, part in _by_kind(info, late)])
    same = {
        "source": SOURCE,
        "table": info.name,
        "stream": info.name,
        "position": None,
        "time": datetime.now(UTC),
        "reason": f"late: before the watermark of {info.name!r}, {spelled(mark.at)}",
    }
    types, count = {name: type.arrow for name, type in schema}, len(payloads)
    columns = {n: pa.repeat(pa.scalar(value, types[n]), count) for n, value in same.items()}
    columns |= {"event": pa.array(np.arange(count)), "payload": payloads}
    rows = from_arrow(pa.table([columns[name] for name in types], list(types)), schema)
    return TableChange(LETTERS, empty([t for _, t in schema]), tuple(range(len(schema))), rows)


def _by_kind(info: TableInfo, late: TableChange) -> list[tuple[str, TableChange]]:
    """Late events by their kinds; the two rows of an update stand at one place."""
    if not len(late.removed):
        return [("c", late)]
    if not len(late.added):
        return [("d", late)]
    new, old = numbered(info, late)
    _, after, before = np.intersect1d(new, old, assume_unique=True, return_indices=True)
    comes, goes = np.delete(np.arange(len(new)), after), np.delete(np.arange(len(old)), before)
    none = np.zeros(0, np.int64)
    parts = {
        "u": _taken(late, before, after),
        "c": _taken(late, none, comes),
        "d": _taken(late, goes, none),
    }
    return [(op, part) for op, part in parts.items() if len(part)]


def _taken(late: TableChange, removed: Indexes, added: Indexes) -> TableChange:
    rows = late.removed.take(removed), late.removed_columns, late.added.take(added)
    return TableChange(late.table, *rows)


def _payloads(info: TableInfo, op: str, late: TableChange) -> pa.Array:
    """The letters of events of one kind, as many as the rows' weights say."""
    old = tuple([info.schema[i] for i in late.removed_columns])
    given = {
        "_ivm_added": (late.added.one_by_one(), info.schema),
        "_ivm_removed": (late.removed.one_by_one(), old),
    }
    taken = {fold(name) for name, _ in info.schema}
    event = _EVENTS[op].format(new=_free("new", taken), old=_free("old", taken))
    with _SCRATCH.borrow() as cursor, registered(cursor, given):
        found = table(cursor, event)
    return found.column(0).cast(pa.string()).combine_chunks()


def _free(name: str, taken: Collection[str]) -> str:
    """A name that is not taken."""
    while name in taken:
        name += "_"
    return name

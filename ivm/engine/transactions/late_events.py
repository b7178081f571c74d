"""Late events of statements that become dead letters, where that is the policy of their table.

Law: an event is a new row, a row that goes, or both under one key; it is applied whole or buried
whole. What cannot be told apart (an update without a key, or of one) is refused. A letter has the
event in Debezium's form, with values as DuckDB writes them in JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ivm.engine.tables.row_times import before, spelled, time_column
from ivm.engine.tables.watermark_rows import Watermark
from ivm.ingest.fast_path_rules import has_trigger
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import literal
from ivm.storage.log.change import TableChange
from ivm.storage.scratch import Scratch
from ivm.storage.values.column import Mask, concat
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, empty, from_arrow, ones
from ivm.storage.warehouse.duckdb.duck import Cursor, registered, table
from ivm.storage.warehouse.tables.table_info import TableInfo

LETTERS = "_ivm.dead_letters"
SOURCE = "late rows"
"""The name under which they are listed and discarded, as letters of sources are under theirs."""

_SCRATCH = Scratch.of()
_EVENTS = {
    "c": "SELECT to_json({op: 'c', before: NULL, after: _ivm_new}) FROM _ivm_added AS _ivm_new",
    "d": "SELECT to_json({op: 'd', before: _ivm_old, after: NULL}) FROM _ivm_removed AS _ivm_old",
    "u": "SELECT to_json({op: 'u', before: _ivm_old, after: _ivm_new})"
    " FROM _ivm_removed AS _ivm_old POSITIONAL JOIN _ivm_added AS _ivm_new",
}


class Parted(NamedTuple):
    """A change without its late events.

    Attributes:
        kept: what is applied.
        late: what is not.
    """

    kept: TableChange
    late: TableChange


def parted(info: TableInfo, at: int, change: TableChange, mark: Watermark) -> Parted | None:
    """A change parted by its late events; None if it has none.

    Args:
        info: the table.
        at: the position of its time.
        change: which has all columns that tell its events.
        mark: of the table.

    Raises:
        ConstraintError: it cannot be told which rows are of one event.
    """
    added = _late(change.added, at, None, mark)
    removed = _late(change.removed, at, change.removed_columns, mark)
    if not added.any() and not removed.any():
        return None
    if len(change.added) and len(change.removed):
        if len(change.removed_columns) == len(info.schema):
            new, old = _stays(info, change)
            added, removed = added & ~new, removed & ~old
            if not added.any() and not removed.any():
                return None
        added, removed = _by_key(info, change, mark, added, removed)
    kept = _chosen(change, ~added, ~removed)
    return Parted(kept, _chosen(change, added, removed))


def _stays(info: TableInfo, change: TableChange) -> tuple[Mask, Mask]:
    """Which new rows, and which of those that go, a change with all columns leaves as they are."""
    both = zip(change.added.columns, change.removed.columns, strict=True)
    types = [type for _, type in info.schema]
    numbers = distinct_rows([concat(pair) for pair in both], types).inverse
    new, old = np.split(numbers, [len(change.added.weights)])
    return np.isin(new, old), np.isin(old, new)


def _late(rows: ZSet, at: int, columns: Sequence[int] | None, mark: Watermark) -> Mask:
    column = time_column(rows, at, columns)
    if column is None or mark.at is None:
        return np.zeros(len(rows.weights), np.bool_)
    return before(column, mark.at)


def _chosen(change: TableChange, added: Mask, removed: Mask) -> TableChange:
    return TableChange(
        change.table,
        change.removed.filter(removed),
        change.removed_columns,
        change.added.filter(added),
    )


def _by_key(
    info: TableInfo, change: TableChange, mark: Watermark, added: Mask, removed: Mask
) -> tuple[Mask, Mask]:
    """The rows of late events among new ones and those that go, if one of the two is late."""
    if info.uniques:
        raise ConstraintError(
            f"a statement changes late rows of table {info.name!r}, whose UNIQUE constraint may "
            f"refuse what would stay: leave them out: WHERE {_not_late(mark)}"
        )
    if not info.primary_key:
        raise _untold(info, mark)
    new, old = _numbered(info, change)
    late = np.concatenate([new[added], old[removed]])
    alone = ~np.isin(new, old), ~np.isin(old, new)
    untold = np.concatenate([new[alone[0]], old[alone[1]]])  # a key may have become another one
    if alone[0].any() and alone[1].any() and np.isin(late, untold).any():
        raise _untold(info, mark)
    return np.isin(new, late), np.isin(old, late)


def _numbered(info: TableInfo, change: TableChange) -> tuple[np.ndarray, np.ndarray]:
    """A number for the key of each new row, and of each that goes."""
    new = change.added.project(info.primary_key).columns
    places = [change.removed_columns.index(i) for i in info.primary_key]
    old = change.removed.project(places).columns
    keys = [concat(pair) for pair in zip(new, old, strict=True)]
    numbers = distinct_rows(keys, [info.schema[i][1] for i in info.primary_key]).inverse
    count = len(change.added.weights)
    return numbers[:count], numbers[count:]


def _untold(info: TableInfo, mark: Watermark) -> ConstraintError:
    return ConstraintError(
        f"a statement changes late rows of table {info.name!r} so that they cannot become dead "
        "letters one by one: change rows by their primary key, and not that, or leave late ones "
        f"out: WHERE {_not_late(mark)}"
    )


def _not_late(mark: Watermark) -> str:
    return f"{mark.column} >= watermark({literal(mark.table)})"


def refuse_triggers(info: TableInfo, cursor: Cursor) -> None:
    """Refuses late events where triggers have seen them, too.

    Raises:
        ConstraintError: the table has triggers.
    """
    if has_trigger(info, cursor):
        raise ConstraintError(
            f"a statement has late rows, and table {info.name!r} has triggers, which have run for "
            "them: leave them out"
        )


def undone(late: TableChange) -> TableChange:
    """The change that takes late events back, which DuckDB has made with all columns."""
    return TableChange(late.table, late.added, late.removed_columns, late.removed)


def letters(info: TableInfo, late: TableChange, mark: Watermark, schema: Schema) -> TableChange:
    """The change by which late events become dead letters.

    Args:
        info: the table.
        late: its late events; of an update both rows.
        mark: its watermark.
        schema: of `_ivm.dead_letters`.
    """
    assert mark.at is not None
    late = TableChange(late.table, _each(late.removed), late.removed_columns, _each(late.added))
    payloads = pa.concat_arrays([_payloads(info, part) for part in _alike(info, late)])
    count = len(payloads)
    same = {
        "source": SOURCE,
        "table": info.name,
        "stream": info.name,
        "time": datetime.now(UTC),
        "reason": f"late: before the watermark of {info.name!r}, {spelled(mark.at)}",
    }
    types = {name: type.arrow for name, type in schema}
    columns = {
        name: pa.repeat(pa.scalar(value, types[name]), count) for name, value in same.items()
    }
    columns["position"] = pa.nulls(count, types["position"])
    columns["event"] = pa.array(np.arange(count))
    columns["payload"] = payloads
    rows = from_arrow(
        pa.table([columns[name] for name, _ in schema], [n for n, _ in schema]), schema
    )
    return TableChange(LETTERS, empty([t for _, t in schema]), tuple(range(len(schema))), rows)


def _each(rows: ZSet) -> ZSet:
    """Rows as often as their weights say."""
    if (rows.weights == 1).all():
        return rows
    found = rows.take(np.repeat(np.arange(len(rows.weights)), rows.weights))
    return ZSet(found.columns, ones(len(found.weights)))


def _alike(info: TableInfo, late: TableChange) -> list[tuple[str, TableChange]]:
    """Late events by their kinds; the two rows of an update stand at one place."""
    if not len(late.removed):
        return [("c", late)]
    if not len(late.added):
        return [("d", late)]
    new, old = _numbered(info, late)
    comes, goes = ~np.isin(new, old), ~np.isin(old, new)
    both = _chosen(late, ~comes, ~goes)
    places = np.argsort(new[~comes], kind="stable"), np.argsort(old[~goes], kind="stable")
    both = TableChange(
        late.table, both.removed.take(places[1]), late.removed_columns, both.added.take(places[0])
    )
    none = np.zeros(len(new), np.bool_), np.zeros(len(old), np.bool_)
    parts = [("u", both), ("c", _chosen(late, comes, none[1])), ("d", _chosen(late, none[0], goes))]
    return [(op, part) for op, part in parts if len(part)]


def _payloads(info: TableInfo, events: tuple[str, TableChange]) -> pa.Array:
    op, change = events
    old = tuple([info.schema[i] for i in change.removed_columns])
    given = {"_ivm_added": (change.added, info.schema), "_ivm_removed": (change.removed, old)}
    with _SCRATCH.borrow() as cursor, registered(cursor, given):
        found = table(cursor, _EVENTS[op])
    return found.column(0).cast(pa.string()).combine_chunks()

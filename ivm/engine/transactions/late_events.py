"""Late events: what a change does to rows whose time is before the watermark of their table.

Law: an event is a new row, a row that goes, or both under one key; a row that a change leaves as it
is is none. Where late events become dead letters, each is applied whole or not at all: what cannot
be told apart (an update without a key, or one whose row may break a UNIQUE constraint) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.engine.tables.row_times import before, time_column
from ivm.engine.tables.watermark_rows import Watermark
from ivm.ingest.fast_path_rules import has_trigger
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import literal
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.consolidate import consolidate, distinct_rows
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


def is_whole(change: TableChange, info: TableInfo) -> bool:
    """Whether all columns are known of the rows that a change removes."""
    return len(change.removed_columns) == len(info.schema)


def late_events(info: TableInfo, change: TableChange, mark: Watermark) -> TableChange | None:
    """The late events of a change; None if it has none.

    Args:
        info: the table.
        change: where it has not all columns of a row that goes, the row counts as changed.
        mark: of the table.
    """
    new, old = _late(info, change, mark)
    if new is None and old is None:
        return None
    come, gone = _chosen(change.added, new), _chosen(change.removed, old)
    if len(come) and len(gone) and is_whole(change, info):
        rest = consolidate(add([come, gone.negate()]), [type for _, type in info.schema])
        come, gone = rest.filter(rest.weights > 0), rest.filter(rest.weights < 0).negate()
    found = TableChange(change.table, gone, change.removed_columns, come)
    return found if len(found) else None


def _late(info: TableInfo, change: TableChange, mark: Watermark) -> tuple[Mask | None, Mask | None]:
    """Which new rows are late, and which of those that go; None where none is."""
    at, found = mark.position(info), list[Mask | None]()
    for rows, columns in ((change.added, None), (change.removed, change.removed_columns)):
        times = None if at is None else time_column(rows, at, columns)
        late = None if times is None or mark.at is None else before(times, mark.at)
        found.append(late if late is not None and late.any() else None)
    new, old = found
    return new, old


def _chosen(rows: ZSet, mask: Mask | None) -> ZSet:
    return rows.slice(0, 0) if mask is None else rows.filter(mask)


def count(info: TableInfo, events: TableChange) -> int:
    """How many late events there are."""
    if not len(events.added) or not len(events.removed) or not info.primary_key:
        return int(max(events.added.weights.sum(), events.removed.weights.sum()))
    return len(np.unique(np.concatenate(numbered(info, events))))


def entries(info: TableInfo, given: Mapping[int, Column], late: Sequence[TableChange]) -> int:
    """How many of some rows are of late events: by their keys, or by all that is given of them.

    Args:
        info: the table.
        given: columns of the rows by their position.
        late: the events.
    """
    if not late:
        return 0
    key = info.primary_key
    places = key if key and given.keys() >= set(key) else tuple(given)
    columns = []
    for place in places:
        known = [each.removed.columns[each.removed_columns.index(place)] for each in late]
        columns.append(concat([given[place], *[e.added.columns[place] for e in late], *known]))
    numbers = distinct_rows(columns, [info.schema[i][1] for i in places]).inverse
    of_late = len(columns[0]) - sum([len(each.added) + len(each.removed) for each in late])
    return int(np.isin(numbers[:of_late], numbers[of_late:]).sum())


def numbered(info: TableInfo, *changes: TableChange) -> list[Indexes]:
    """Numbers for the keys of the new rows, and of those that go, of changes of one table."""
    types = [info.schema[i][1] for i in info.primary_key]
    parts = []
    for each in changes:
        places = [each.removed_columns.index(i) for i in info.primary_key]
        parts += [each.added.project(info.primary_key), each.removed.project(places)]
    columns = [concat(pieces) for pieces in zip(*[part.columns for part in parts], strict=True)]
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return np.split(distinct_rows(columns, types).inverse, ends)


class Parted(NamedTuple):
    """A change without its late events.

    Attributes:
        kept: what is applied.
        late: what is not.
    """

    kept: TableChange
    late: TableChange


def parted(info: TableInfo, change: TableChange, events: TableChange, mark: Watermark) -> Parted:
    """A change parted by its late events.

    Args:
        info: the table.
        change: of it.
        events: the late ones, see `late_events`.
        mark: of the table.

    Raises:
        ConstraintError: it cannot be told which rows are of one event.
    """
    new, old = _late(info, change, mark)
    if len(change.added) and len(change.removed):
        new, old = _of_late_keys(info, change, events, mark)
    new = np.zeros(len(change.added), np.bool_) if new is None else new
    old = np.zeros(len(change.removed), np.bool_) if old is None else old
    return Parted(_chosen_of(change, ~new, ~old), _chosen_of(change, new, old))


def _chosen_of(change: TableChange, new: Mask, old: Mask) -> TableChange:
    chosen = change.removed.filter(old), change.removed_columns, change.added.filter(new)
    return TableChange(change.table, *chosen)


def _of_late_keys(
    info: TableInfo, change: TableChange, events: TableChange, mark: Watermark
) -> tuple[Mask, Mask]:
    """Which new rows are of late events by their keys, and which of those that go."""
    if info.uniques:
        raise _error(info, mark, f"and its UNIQUE constraint ({_uniques(info)}) may refuse them")
    if not info.primary_key:
        raise _error(info, mark, "and it has no primary key")
    new, old, come, gone = numbered(info, change, events)
    late = np.concatenate([come, gone])
    lone_new, lone_old = ~np.isin(new, old), ~np.isin(old, new)
    lone = np.concatenate([new[lone_new], old[lone_old]])
    if lone_new.any() and lone_old.any() and np.isin(late, lone).any():
        raise _error(info, mark, "whose primary key may have changed")
    return np.isin(new, late), np.isin(old, late)


def _uniques(info: TableInfo) -> str:
    return "; ".join([", ".join([info.schema[i][0] for i in key]) for key in info.uniques])


def _error(info: TableInfo, mark: Watermark, why: str) -> ConstraintError:
    return ConstraintError(
        f"a statement changes late rows of table {info.name!r}, {why}, so they cannot become dead "
        "letters one by one: leave them out, "
        f"WHERE {mark.column} >= watermark({literal(info.name)})"
    )


def undone(late: TableChange) -> TableChange:
    """The change that takes late events back, which DuckDB has made with all columns."""
    return TableChange(late.table, late.added, late.removed_columns, late.removed)


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

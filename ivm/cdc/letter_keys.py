"""The keys of dead letters: which letters are overtaken by later events of their rows.

Law: a letter is overtaken when an event that came after it, and has its key, is applied, or one
that empties the table; of a table without a key when a row is not found that was to go, since it
may be that of the letter. An overtaken letter says so, and is not retried: its event is older than
what the table has. An update that moves a row and cannot be applied takes the row away under its
old key all the same, as it is gone there; its letter has the new key.

So `_ivm.letter_keys` has a row for each letter of a source that can be retried and is not
overtaken; its key is NULL where the event does not tell it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import DELETE, Decoded, Events, chained
from ivm.cdc.merge.moves import moved_rows
from ivm.cdc.merge.versions import version_column
from ivm.cdc.sources.source import Part
from ivm.session.session import Session
from ivm.storage.scratch import Scratch
from ivm.storage.values.column import (
    Column,
    Indexes,
    Mask,
    column_from_arrow,
    concat,
    not_null,
    null_column,
)
from ivm.storage.values.consolidate import group
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.tables.table_info import TableInfo

OVERTAKEN = "; a later event of its row was applied, so it is not retried"
"""At the end of the reason of a letter that is overtaken."""
_scratch = Scratch()


@dataclass(frozen=True)
class Refused:
    """Events of one table that cannot be applied, with their keys.

    Attributes:
        lines: of the events that tell their keys.
        keys: of these, the columns of the key.
        gone: the rows that they take away under other keys, as deletes.
        gone_lines: the lines of these.
    """

    lines: Indexes
    keys: Sequence[Column]
    gone: Events
    gone_lines: Indexes


def refused_of(session: Session, part: Part, info: TableInfo, lines: Sequence[int]) -> Refused:
    """The keys of events that cannot be applied.

    Args:
        session: of this thread.
        part: of the events.
        info: their table, which has a key.
        lines: of the events.
    """
    events, numbers = _read(session, part, info, info.primary_key, lines)
    keys = [events.columns[i] for i in range(len(info.primary_key))]
    told = np.logical_and.reduce([not_null(key) for key in keys])
    moved = told & _moved(info, events)
    places, events = info.primary_key, events.take(moved.nonzero()[0])
    gone_lines = numbers[moved]
    if part.version and len(gone_lines):  # by which a row that is taken away must be older
        places = tuple(dict.fromkeys([*places, version_column(info, part.version)]))
        events, gone_lines = _read(session, part, info, places, gone_lines.tolist())
    gone = _gone(info, places, events)
    return Refused(numbers[told], [key.filter(told) for key in keys], gone, gone_lines)


def _read(
    session: Session, part: Part, info: TableInfo, places: Sequence[int], lines: Sequence[int]
) -> tuple[Events, Indexes]:
    """Events by some columns of their table, the key first, and their lines."""
    schema, key = tuple([info.schema[i] for i in places]), tuple(range(len(info.primary_key)))
    found = part.keyed(session.cursor, replace(info, schema=schema, primary_key=key), lines)
    return found.events, np.array(lines, np.int64)[found.lines]


def _moved(info: TableInfo, events: Events) -> Mask:
    """The events of columns of the key alone that move rows."""
    schema = tuple([info.schema[i] for i in info.primary_key])
    return moved_rows(events, range(len(schema)), schema)


def _gone(info: TableInfo, places: Sequence[int], moves: Events) -> Events:
    """The rows that updates take away under their old keys, as deletes.

    Args:
        info: their table.
        places: of the events' columns in the table, the key first.
        moves: the updates.
    """
    old = moves.old or {}
    told = {
        place: old[i] if i in old and place in info.primary_key else moves.columns[i]
        for i, place in enumerate(places)
    }
    columns = {
        i: told[i] if i in told else null_column(type, len(moves))
        for i, (_, type) in enumerate(info.schema)
    }
    return Events(np.full(len(moves), DELETE, np.uint8), columns)


def with_gone(found: Decoded, refused: Refused) -> Decoded:
    """The events of a batch with the deletes of rows that refused ones take away."""
    if not len(refused.gone):
        return found
    lines = np.concatenate([found.lines, refused.gone_lines])
    order = lines.argsort(kind="stable")
    events = chained([found.events, refused.gone]).take(order)
    return replace(found, events=events, lines=lines[order])


def texts_of(info: TableInfo, keys: Sequence[Column]) -> list[str]:
    """Keys as JSON lists of the texts of their values."""
    types = [info.schema[i][1] for i in info.primary_key]
    given = {f"k{i}": c.to_arrow(t) for i, (c, t) in enumerate(zip(keys, types, strict=True))}
    texts = _selected(given, {name: f"CAST({name} AS VARCHAR)" for name in given})
    rows = zip(*[texts[name].to_pylist() for name in given], strict=True)
    return [json.dumps(row, ensure_ascii=False) for row in rows]


@lru_cache(maxsize=16)
def _columns_of(texts: tuple[str, ...], types: tuple[ColumnType, ...]) -> list[Column]:
    """The columns of keys; NULL where one does not fit any more."""
    rows = [json.loads(text) for text in texts]
    fit = [row if len(row) == len(types) else [None] * len(types) for row in rows]
    given = {
        f"k{i}": pa.array([row[i] for row in fit], pa.large_string()) for i in range(len(types))
    }
    casts = {f"k{i}": f"TRY_CAST(k{i} AS {type.sql})" for i, type in enumerate(types)}
    found = _selected(given, casts)
    return [column_from_arrow(found[f"k{i}"], type) for i, type in enumerate(types)]


def _selected(given: Mapping[str, pa.Array], expressions: Mapping[str, str]) -> pa.Table:
    parts = ", ".join([f"{sql} AS {name}" for name, sql in expressions.items()])
    with _scratch.borrow() as cursor:
        cursor.register("given", pa.table(dict(given)))
        try:
            return cursor.sql(f"SELECT {parts} FROM given").to_arrow_table()
        finally:
            cursor.unregister("given")


def overtaken(
    info: TableInfo,
    letters: Sequence[tuple[int, str | None]],
    truncates: Sequence[int],
    events: Events,
    lines: Indexes,
) -> list[bool]:
    """Which letters are overtaken by a batch.

    Args:
        info: the table.
        letters: the line of each one, -1 if it is older than the batch, and its key, if known.
        truncates: the lines that empty the table.
        events: that were applied.
        lines: of these events.
    """
    last_truncate = max(truncates, default=-2)
    gone = [line <= last_truncate for line, _ in letters]
    known = [n for n, (_, key) in enumerate(letters) if key is not None]
    if not known or not info.primary_key:
        return gone
    types = tuple([info.schema[i][1] for i in info.primary_key])
    own = _columns_of(tuple([str(letters[n][1]) for n in known]), types)
    new = [events.columns[i] for i in info.primary_key]
    old = [(events.old or {}).get(i, events.columns[i]) for i in info.primary_key]
    _, number = group([concat([a, b, c]) for a, b, c in zip(own, new, old, strict=True)], types)
    last = np.full(int(number.max(initial=-1)) + 1, -2)
    np.maximum.at(last, number[len(known) :], np.tile(lines, 2))
    for n, code in zip(known, number.tolist(), strict=False):
        gone[n] |= letters[n][0] < int(last[code])
    return gone

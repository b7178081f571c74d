"""Deltas as JSON lines, by one DuckDB statement for the deltas of many epochs.

Law: an epoch's lines are a function of its delta and its time. Debezium's events of a view applied
in their order, each as often as it comes, turn the view's rows before the epoch into those after.
An update is a pair of rows with one key, where the view is known to have one; without, a deletion
and an insertion, deletions first.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.engine.feeds.changefeed import WEIGHT
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import fold, literal
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, add, ones
from ivm.storage.warehouse.duckdb.duck import Cursor, registered, table
from ivm.storage.warehouse.duckdb.json_text import json_text

EPOCH = "_epoch"
_DELTA = "_ivm_delta"
_COUNT = type_of("BIGINT")
_NUMBERS = ("epoch", "ms", "n")
_DOCUMENTS = re.compile(r"JSON(\[\d*\])*")
_TEXTUAL = ("BIT", "BIGNUM", "VARIANT", "BLOB", "GEOMETRY")  # which JSON has no form for


@dataclass(frozen=True)
class Lines:
    """A format of lines.

    Attributes:
        statement: SQL of the lines of a delta, and of their keys or NULLs.
        epoch_of: the epoch of a line.
    """

    statement: Callable[[Shape], str]
    epoch_of: Callable[[Any], int]


@dataclass(frozen=True)
class Shape:
    """What the lines of a view have in common.

    Attributes:
        view: its name.
        schema: its columns.
        key: positions of columns that are unique in it, None if none are known.
        keyed: whether the lines come with their keys, which are known.
    """

    view: str
    schema: Schema
    key: tuple[int, ...] | None
    keyed: bool = False


@dataclass(frozen=True)
class Delta:
    """The delta of one epoch, or a part of it; it has every row once.

    Attributes:
        epoch: its number.
        time: of its commit, in microseconds since 1970.
    """

    epoch: int
    time: int
    rows: ZSet


def encoded(
    cursor: Cursor, format: str, shape: Shape, deltas: Sequence[Delta]
) -> Iterator[tuple[int, pa.Array, pa.Array | None]]:
    """The lines of deltas and their keys, epoch by epoch.

    Args:
        cursor: whose time zone is UTC.
        format: one of `FORMATS`.
        shape: of the view.
        deltas: in the order of their epochs.
    """
    total, counts = add([delta.rows for delta in deltas]), [len(delta.rows) for delta in deltas]
    epochs = np.repeat(np.array([delta.epoch for delta in deltas]), counts)
    times = np.repeat(np.array([delta.time // 1000 for delta in deltas]), counts)
    more = (total.weights, epochs, times, np.arange(len(total)))
    names = (*[f"c{i}" for i in range(len(shape.schema))], "w", "epoch", "ms", "n")
    types = (*[type for _, type in shape.schema], *[_COUNT] * len(more))
    rows = ZSet((*total.columns, *map(FixedColumn, more)), ones(len(total)))
    with registered(cursor, {_DELTA: (rows, tuple(zip(names, types, strict=True)))}):
        found = table(cursor, FORMATS[format].statement(shape)).combine_chunks()
    of, lines = found["epoch"].to_numpy(), found["line"].combine_chunks()
    keys = found["key"].combine_chunks() if shape.keyed else None
    ends = [*(np.flatnonzero(np.diff(of)) + 1).tolist(), len(of)]
    for begin, end in itertools.pairwise([0, *ends]):
        keys_of = None if keys is None else keys.slice(begin, end - begin)
        yield int(of[begin]), lines.slice(begin, end - begin), keys_of


def refuse_names(format: str, view: str, schema: Schema) -> None:
    """Refuses columns whose names the lines of a format have for themselves.

    Raises:
        UnsupportedError: there is one.
    """
    taken = {fold(name) for name, _ in schema} & {EPOCH, WEIGHT} if format == "jsonl" else set()
    if taken:
        raise UnsupportedError(
            f"view {view!r} has a column {taken.pop()!r}, which is a key of each line of format "
            "'jsonl': give the column another name, or use format 'debezium'"
        )


def _object(
    schema: Schema, value: Callable[[str, ColumnType], str], columns: Sequence[int] | None = None
) -> str:
    """SQL of a row, or of some of its columns, as the text of a JSON object."""
    chosen = range(len(schema)) if columns is None else columns
    pairs = [f"{literal(schema[i][0])}, {value(f'c{i}', schema[i][1])}" for i in chosen]
    made = f"CAST(system.main.json_object({', '.join(pairs)}) AS VARCHAR)"
    return json_text(made, [schema[i][1].sql for i in chosen])


def _key(shape: Shape, value: Callable[[str, ColumnType], str]) -> str:
    """SQL of a row's key, NULL where it is not wanted."""
    return _object(shape.schema, value, shape.key) if shape.keyed else "NULL"


def _jsonl(shape: Shape) -> str:
    head = f"'{{\"{EPOCH}\":' || epoch || ',\"{WEIGHT}\":' || w || ','"
    row = f"system.main.substr({_object(shape.schema, json_value)}, 2)"
    line = f"{head} || {row} AS line, {_key(shape, json_value)} AS key"
    return f"SELECT epoch, {line} FROM {_DELTA} ORDER BY epoch, w > 0, n"


def _debezium(shape: Shape) -> str:
    row, key = _object(shape.schema, _event_value), _key(shape, _event_value)
    rows = f"(SELECT *, {row} AS o, {key} AS key FROM {_DELTA})"
    if shape.key is None:
        old, new = "CASE WHEN w < 0 THEN o END", "CASE WHEN w > 0 THEN o END"
        repeats = "(SELECT system.main.unnest(system.main.range(system.main.abs(w))))"
        listed = f"{old} AS old, {new} AS new, epoch, ms, n, key"
        found = f"SELECT {listed} FROM {rows}, LATERAL {repeats}"
    else:
        same = ["a.epoch = b.epoch", *[f"a.c{i} IS NOT DISTINCT FROM b.c{i}" for i in shape.key]]
        minus, plus = (f"(SELECT * FROM {rows} WHERE w {sign} 0)" for sign in "<>")
        either = ", ".join(f"coalesce(b.{name}, a.{name}) AS {name}" for name in (*_NUMBERS, "key"))
        found = (
            f"SELECT a.o AS old, b.o AS new, {either}"
            f" FROM {minus} AS a FULL JOIN {plus} AS b ON {' AND '.join(same)}"
        )
    op = "CASE WHEN old IS NULL THEN 'c' WHEN new IS NULL THEN 'd' ELSE 'u' END"
    view = literal(f',"view":{json.dumps(shape.view, ensure_ascii=False)}}},"ts_ms":')
    line = (
        f"'{{\"op\":\"' || {op} || '\",\"before\":' || coalesce(old, 'null') || ',\"after\":'"
        f" || coalesce(new, 'null') || ',\"source\":{{\"epoch\":' || epoch || {view} || ms || '}}'"
    )
    order = "epoch, new IS NOT NULL, old IS NULL, n"
    return f"SELECT epoch, {line} AS line, key FROM ({found}) ORDER BY {order}"


def json_value(column: str, type: ColumnType) -> str:
    """SQL of a value that `json_object` takes for `json_text`: a number, a text, or nested."""
    if type.is_float:
        text = f"system.main.to_json(CAST({column} AS VARCHAR))"
        number = f"system.main.to_json({column})"
        return f"CASE WHEN system.main.isfinite({column}) THEN {number} ELSE {text} END"
    if type.sql == "BLOB":
        return f"system.main.to_base64({column})"
    if any(name in type.sql for name in _TEXTUAL):
        return f"CAST({column} AS VARCHAR)"
    return column


def _event_value(column: str, type: ColumnType) -> str:
    """The same, but decimals are texts, and so are documents, alone and in lists.

    Many readers of JSON keep 15 digits of a number. A string alone would not tell whether it is a
    document's text, as Debezium writes it, or the document; nor does null tell what it is of.
    """
    if type.is_decimal:
        return json_text(f"CAST({column} AS VARCHAR)", [type.sql])
    if _DOCUMENTS.fullmatch(type.sql):
        return f"CAST({column} AS {type.sql.replace('JSON', 'VARCHAR')})"
    return json_value(column, type)


FORMATS = {
    "debezium": Lines(_debezium, lambda line: int(line["source"]["epoch"])),
    "jsonl": Lines(_jsonl, lambda line: int(line[EPOCH])),
}
"""The formats by name."""


def demand_format(name: str) -> str:
    """The name of a format.

    Raises:
        InputError: there is none of that name.
    """
    if name not in FORMATS:
        raise InputError(f"there is no format {name!r} of lines; there are: {', '.join(FORMATS)}")
    return name

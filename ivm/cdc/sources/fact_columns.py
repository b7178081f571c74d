"""Facts of events as columns of a table's types.

Law: a value is the fact, cast to the column's type as an event's value is, times in UTC. Of bytes
only a text is cast; a BLOB has them as they are. An event with a fact that does not fit has the
reason, and nothing is known of its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.row_columns import decode_rows, rows_type
from ivm.cdc.formats.texts import text_of
from ivm.cdc.sources.metadata import BYTES, COUNT, SMALL, TEXT, TIME
from ivm.storage.values.column import Column, column_from_arrow, null_column
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

_ZONED = pa.timestamp("us", "UTC")
_TYPES = {
    TIME: "TIMESTAMP",
    _ZONED: "TIMESTAMP WITH TIME ZONE",
    COUNT: "BIGINT",
    SMALL: "INTEGER",
    TEXT: "VARCHAR",
    BYTES: "BLOB",
}
"""The types of columns that have the facts as they are: DuckDB need not be asked."""

Values = tuple[dict[int, Column], dict[int, str]]
"""The columns by their positions, with a value for each event, and why events do not fit."""


def fact_columns(
    cursor: Cursor, info: TableInfo, facts: Mapping[int, str], arrays: Mapping[str, pa.Array]
) -> Values:
    """The columns of facts.

    Args:
        cursor: may run statements; it is in no transaction that an error could abort.
        info: the table.
        facts: of its columns, by their positions.
        arrays: the facts by name, of each event.
    """
    columns: dict[int, Column] = {}
    others: dict[int, pa.Array] = {}
    why: dict[int, str] = {}
    for i, fact in facts.items():
        type = info.schema[i][1]
        given, unfit = _given(arrays[fact], type)
        why |= {n: f"its {fact} is no UTF-8: {text}" for n, text in unfit.items()}
        if _TYPES[given.type] == type.sql:
            columns[i] = column_from_arrow(given, type)
        else:
            others[i] = given
    if not others:
        return columns, why
    cast, misfits = _cast(cursor, info, others)
    return columns | cast, misfits | why


def _given(array: pa.Array, type: ColumnType) -> tuple[pa.Array, dict[int, str]]:
    """A fact as it is cast to a column's type, and what is no text by the numbers of events."""
    if array.type == TIME and type.sql == _TYPES[_ZONED]:
        return array.cast(_ZONED), {}
    if array.type != BYTES or type.sql == _TYPES[BYTES]:
        return array, {}
    try:
        return array.cast(TEXT), {}
    except pa.ArrowInvalid:
        return _texts(array.to_pylist())


def _texts(values: Sequence[bytes | None]) -> tuple[pa.Array, dict[int, str]]:
    """Bytes as texts one by one, since some are none."""
    texts: list[str | None] = []
    unfit: dict[int, str] = {}
    for n, value in enumerate(values):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            unfit[n] = str(text_of(value))
    return pa.array(texts, TEXT), unfit


def _cast(cursor: Cursor, info: TableInfo, given: Mapping[int, pa.Array]) -> Values:
    """Facts as DuckDB casts them."""
    schema = tuple([info.schema[i] for i in given])
    row = pa.StructArray.from_arrays([*given.values()], [name for name, _ in schema])
    own = replace(info, schema=schema, primary_key=(), defaults={}, generated={})
    found = decode_rows(cursor, _rows(row), own, None)
    if not len(found.lines):
        return {i: null_column(info.schema[i][1], len(row)) for i in given}, found.refused
    at = np.minimum(found.lines.searchsorted(np.arange(len(row))), len(found.lines) - 1)
    columns = found.events.columns
    return {i: columns[n].take(at) for n, i in enumerate(given)}, found.refused


def _rows(row: pa.StructArray) -> pa.StructArray:
    """Rows as `decode_rows` takes them."""
    type = rows_type(row.type)
    none = [pa.nulls(len(row), field.type) for field in list(type)[1:]]
    return pa.StructArray.from_arrays([row, *none], fields=list(type))

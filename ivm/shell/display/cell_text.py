"""Turns Arrow rows into text, as DuckDB itself writes each type.

Law: a cell's text is DuckDB's `CAST(… AS VARCHAR)` (in JSON: `to_json`), so the shell never has a
spelling of its own for a date, a decimal or a nested value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ivm.storage.identifiers import literal
from ivm.storage.scratch import Scratch
from ivm.storage.values.types import importable
from ivm.storage.warehouse.duckdb.duck import run
from ivm.storage.warehouse.duckdb.json_text import mended

Texts = list[str | None]
"""One column's cells; None is NULL."""

_CHUNK = 50_000
_scratch = Scratch("SET arrow_lossless_conversion = true")


def _project(table: pa.Table, expressions: Sequence[str], zone: str | None) -> pa.Table:
    """Evaluates expressions over the table's columns, named c0, c1, …; rows keep their order."""
    positional = table.rename_columns([f"c{i}" for i in range(table.num_columns)])
    with _scratch.borrow() as connection:
        if zone is not None:
            run(connection, f"SET TimeZone = {literal(zone)}")
        connection.register("shown", importable(positional))
        try:
            return connection.sql(f"SELECT {', '.join(expressions)} FROM shown").to_arrow_table()
        finally:
            connection.unregister("shown")


def texts(table: pa.Table, types: Sequence[str], zone: str | None = None) -> list[Texts]:
    """Returns the cells of every column as text.

    Args:
        table: rows as `Result.arrow` gives them.
        types: of the columns in DuckDB.
        zone: the session's time zone, needed for TIMESTAMP WITH TIME ZONE columns alone.
    """
    if not table.num_columns:
        return []
    casts = [f"{_text(i, type)} AS c{i}" for i, type in enumerate(types)]
    shown = _project(table, casts, zone)
    return [shown.column(i).to_pylist() for i in range(shown.num_columns)]


def _text(position: int, type: str) -> str:
    """A cell's text in SQL; Arrow has structs in the place of tuples."""
    value = f"CAST(c{position} AS {type})" if "TUPLE(" in type else f"c{position}"
    return f"CAST({value} AS VARCHAR)"


def csv_lines(
    names: Sequence[str], table: pa.Table, types: Sequence[str], zone: str | None = None
) -> Iterator[str]:
    """Yields a table as CSV: a header, a line a row; NULL is empty, an empty string is `""`."""
    yield ",".join(_csv_name(name) for name in names)
    cells = [_csv_cell(i, type) for i, type in enumerate(types)]
    yield from _joined(table, " || ',' || ".join(cells), zone)


def _csv_name(name: str) -> str:
    plain = name and not any(sign in name for sign in ',"\r\n')
    return name if plain else '"' + name.replace('"', '""') + '"'


def _csv_cell(position: int, type: str) -> str:
    text = _text(position, type)
    return (
        f"CASE WHEN c{position} IS NULL THEN '' "
        f"WHEN {text} = '' OR regexp_matches({text}, '[,\"\\r\\n]') "
        f"THEN '\"' || replace({text}, '\"', '\"\"') || '\"' ELSE {text} END"
    )


def json_lines(names: Sequence[str], table: pa.Table, zone: str | None = None) -> Iterator[str]:
    """Yields the table as one JSON array, an object a line."""
    if not table.num_rows:
        yield "[]"
        return
    members = [
        f"{literal(_json_text(name) + ':')} || {_json_cell(i, table.schema.field(i).type)}"
        for i, name in enumerate(names)
    ]
    last = table.num_rows - 1
    for row, line in enumerate(_joined(table, " || ',' || ".join(members), zone)):
        opening = "[" if row == 0 else " "
        yield f"{opening}{{{line}}}" + ("]" if row == last else ",")


def _json_cell(position: int, arrow: pa.DataType) -> str:
    """A JSON value; NaN and infinities, which JSON does not have, become strings."""
    column = f"c{position}"
    value = mended(f"CAST(to_json({column}) AS VARCHAR)")
    if pa.types.is_floating(arrow):
        value = f"CASE WHEN isfinite({column}) THEN {value} ELSE '\"' || {column} || '\"' END"
    return f"coalesce({value}, 'null')"


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _joined(table: pa.Table, expression: str, zone: str | None) -> Iterator[str]:
    """Yields one text a row, a chunk at a time so that the first lines come at once."""
    for start in range(0, table.num_rows, _CHUNK):
        chunk = _project(table.slice(start, _CHUNK), [f"{expression} AS line"], zone)
        yield from chunk.column(0).to_pylist()

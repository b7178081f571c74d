"""The forms of a result over HTTP: JSON, JSON lines, CSV and Arrow, batch by batch.

Law: values in JSON are those of `jsonl` lines of sinks, in CSV those of CAST(… AS VARCHAR), NULL
nothing and "" an empty text. Columns become text by one DuckDB statement a batch.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from ivm.cdc.sinks.encode import json_value
from ivm.engine.feeds.plain_arrow import plain
from ivm.serve.batch_sql import BATCH, computed, without_rows
from ivm.serve.batches import Batches
from ivm.session.results.result import Result
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import literal
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.json_text import json_text

JSON, LINES = "application/json", "application/x-ndjson"
CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"
LOSSLESS = "lossless"
"""The parameter `types` of ARROW for DuckDB's own types, as programs of this package want them."""
TYPES = "ivm.types"
"""The metadata of a lossless stream's schema with the DuckDB types of its columns."""
_BARE = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"))
"""The types whose values need no quotes in CSV, and look there as DuckDB writes them."""
_WILD = {"*/*": JSON, "application/*": JSON, "text/*": CSV}


class Form(NamedTuple):
    """A form that a client wants.

    Attributes:
        media_type: one of those above.
        lossless: whether Arrow's columns have DuckDB's own types.
    """

    media_type: str
    lossless: bool = False


def wanted(accept: str) -> Form:
    """The form that an Accept header asks for; JSON if it asks for nothing.

    Raises:
        InputError: none that there is.
    """
    ranked: list[tuple[float, Form]] = []
    for part in accept.split(",") if accept else ["*/*"]:
        name, *options = [piece.strip() for piece in part.split(";")]
        given = dict(option.partition("=")[::2] for option in options)
        media_type = _WILD.get(name.lower(), name.lower())
        if media_type in (JSON, LINES, CSV, ARROW):
            quality = _number(given.get("q", "1"))
            ranked.append((quality, Form(media_type, given.get("types") == LOSSLESS)))
    best = max(ranked, key=lambda each: each[0], default=(0.0, Form(JSON)))
    if best[0] <= 0:
        raise InputError(f"no form of {accept!r}: there are {JSON}, {LINES}, {CSV} and {ARROW}")
    return best[1]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class Rows(NamedTuple):
    """Columns and batches of their rows.

    Attributes:
        names: of the columns.
        types: their DuckDB types.
        batches: of rows in lossless Arrow types.
    """

    names: list[str]
    types: list[str]
    batches: Iterator[pa.RecordBatch]


def rows_of(result: Result) -> Rows:
    """The rows of a result; the count of a change is one."""
    return Rows(list(result.columns), list(result.types), _batches(result))


def _batches(result: Result) -> Iterator[pa.RecordBatch]:
    batches = Batches(result)
    while (table := batches.next()) is not None:
        yield from table.to_batches()


def encoded(
    rows: Rows, form: Form, head: Mapping[str, object], as_objects: bool
) -> Iterator[bytes]:
    """The bytes of rows, a chunk a batch.

    Args:
        rows: to be read once.
        form: of the bytes.
        head: members of the JSON object before the rows.
        as_objects: whether rows are JSON objects, not arrays.
    """
    if form.media_type == ARROW:
        return _arrow(rows, lossless_types=form.lossless)
    if form.media_type == CSV:
        return _csv(rows)
    if form.media_type == LINES:
        return _lines(rows)
    return _json(rows, head, as_objects)


def _json(rows: Rows, head: Mapping[str, object], as_objects: bool) -> Iterator[bytes]:
    columns = [
        {"name": name, "type": type} for name, type in zip(rows.names, rows.types, strict=True)
    ]
    begin = json.dumps({**head, "columns": columns}, ensure_ascii=False)
    text, between = begin[:-1] + ', "rows": [', ""
    for part in _texts(rows, _object if as_objects else _array):
        if len(part):
            yield (text + between + joined(part, ",\n")).encode()
            text, between = "", ",\n"
    yield (text + "]}\n").encode()


def _lines(rows: Rows) -> Iterator[bytes]:
    for part in _texts(rows, _object):
        if len(part):
            yield (joined(part, "\n") + "\n").encode()


def joined(texts: pa.Array, separator: str) -> str:
    """The texts of an array as one."""
    ends = pa.array([0, len(texts)], pa.int32())
    listed = pa.ListArray.from_arrays(ends, texts.cast(pa.string()))
    return str(pc.binary_join(listed, separator)[0].as_py())


def _texts(rows: Rows, form: Callable[[list[str], list[str]], str]) -> Iterator[pa.Array]:
    """A text for each row, by the SQL that `form` gives for columns of these names and values."""
    columns = [f"c{i}" for i in range(len(rows.names))]
    types = [type_of(sql) for sql in rows.types]
    values = [json_value(column, type) for column, type in zip(columns, types, strict=True)]
    line = json_text(f"CAST({form(rows.names, values)} AS VARCHAR)", rows.types)
    sql = f"SELECT {line} AS line FROM {BATCH}"
    for batch in rows.batches:
        yield computed(sql, pa.Table.from_batches([batch]))["line"].combine_chunks()


def _object(names: list[str], values: list[str]) -> str:
    pairs = [f"{literal(name)}, {value}" for name, value in zip(names, values, strict=True)]
    return f"system.main.json_object({', '.join(pairs)})"


def _array(names: list[str], values: list[str]) -> str:
    return f"system.main.json_array({', '.join(values)})"


def _csv(rows: Rows) -> Iterator[bytes]:
    yield (",".join(_quoted(name) for name in rows.names) + "\n").encode()
    columns = [f"c{i}" for i in range(len(rows.names))]
    listed = ", ".join(
        column if type in _BARE else f"CAST({column} AS VARCHAR) AS {column}"
        for column, type in zip(columns, rows.types, strict=True)
    )
    sql, options = f"SELECT {listed} FROM {BATCH}", csv.WriteOptions(include_header=False)
    for batch in rows.batches:
        out = io.BytesIO()
        csv.write_csv(computed(sql, pa.Table.from_batches([batch])), out, options)
        yield out.getvalue()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _arrow(rows: Rows, *, lossless_types: bool) -> Iterator[bytes]:
    out, writer = io.BytesIO(), None
    for batch in _with_one_at_least(rows):
        table = pa.Table.from_batches([batch])
        if lossless_types:
            table = table.replace_schema_metadata({TYPES: json.dumps(rows.types)})
        else:
            table = _decimals(table)
        if writer is None:
            writer = pa.ipc.new_stream(out, table.schema)
        writer.write_table(table)
        yield _taken(out)
    if writer is not None:
        writer.close()
    yield _taken(out)


def _with_one_at_least(rows: Rows) -> Iterator[pa.RecordBatch]:
    """The batches; of no rows one without rows, which has the columns' types."""
    none = True
    for batch in rows.batches:
        none = False
        yield batch
    if none and rows.names:
        empty = without_rows(rows.types)
        batch = empty.combine_chunks().to_batches() or [no_rows(empty.schema)]
        yield batch[0].rename_columns(rows.names)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows; of a union Arrow makes no array of a list."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _decimals(table: pa.Table) -> pa.Table:
    """The table with its HUGEINTs as decimals, as sums of integers are wanted elsewhere."""
    found = plain(table)
    for field in found.schema:
        if isinstance(field.type, pa.OpaqueType) and field.type.type_name == "hugeint":
            raise UnsupportedError(
                f"column {field.name!r} has a number of 39 digits, which no decimal of Arrow's "
                "holds: CAST it to VARCHAR"
            )
    return found


def _taken(out: io.BytesIO) -> bytes:
    """What was written since the last call."""
    found = out.getvalue()
    out.seek(0)
    out.truncate()
    return found

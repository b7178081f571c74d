"""Rows of CSV as columns of texts.

Law: a row that has not as many values as there are columns, or is no UTF-8, is refused, and its
neighbours are read. An empty row is no event.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from ivm.cdc.formats.row_columns import rows_type
from ivm.cdc.sources.files.csv_dialect import Dialect
from ivm.cdc.sources.files.cutter import Offsets

_BLANK = 2  # bytes; a blank row is not longer
_Mask = npt.NDArray[np.bool_]


def parse(data: bytes, offsets: Offsets, names: Sequence[str], dialect: Dialect) -> pa.StructArray:
    """Rows of `rows_type`.

    Args:
        data: has the rows.
        offsets: where they begin, and the last one ends.
        names: of the columns.
        dialect: how they are written.
    """
    refused = _not_utf8(data, offsets)
    readable = ~_blank(data, offsets)
    readable[list(refused)] = False
    numbers = readable.nonzero()[0]
    table, wrong = _columns(data, offsets, numbers, len(names), dialect)
    refused.update({int(numbers[i]): why for i, why in wrong.items()})
    readable[list(refused)] = False
    columns = [column.combine_chunks() for column in table.columns]
    fields = [pa.field(name, pa.large_string()) for name in names]
    row = pa.StructArray.from_arrays(columns, fields=fields)
    if not readable.all():
        row = row.take(pa.array(np.cumsum(readable) - 1, pa.int64(), mask=~readable))
    raws = {i: _raw(data[offsets[i] : offsets[i + 1]]) for i in refused}
    count = len(row)
    own = [_sparse(refused, count), _sparse(raws, count), pa.nulls(count, pa.list_(pa.string()))]
    return pa.StructArray.from_arrays([row, *own], fields=list(rows_type(row.type)))


def _blank(data: bytes, offsets: Offsets) -> _Mask:
    blank = np.diff(offsets) <= _BLANK
    short = blank.nonzero()[0]
    blank[short] = [not data[offsets[i] : offsets[i + 1]].strip(b"\r\n") for i in short]
    return blank


def _not_utf8(data: bytes, offsets: Offsets) -> dict[int, str]:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    try:
        texts.validate(full=True)
        return {}
    except pa.ArrowInvalid:
        raw = texts.view(pa.large_binary()).to_pylist()
    return {i: "it is no UTF-8" for i, row in enumerate(raw) if not _is_utf8(row)}


def _is_utf8(row: bytes) -> bool:
    try:
        row.decode()
    except UnicodeDecodeError:
        return False
    return True


def _columns(
    data: bytes, offsets: Offsets, numbers: Offsets, width: int, dialect: Dialect
) -> tuple[pa.Table, dict[int, str]]:
    """The values of rows, and by their place among them why some are left out."""
    rows = [data[offsets[0] : offsets[-1]]]
    if len(numbers) < len(offsets) - 1:
        rows = [data[offsets[i] : offsets[i + 1]] for i in numbers]
    whole = b"".join(rows)
    if whole.count(b"\r") == whole.count(b"\r\n"):
        return _read(whole, width, dialect)
    # A lone carriage return ends a row for this reader, so each row must be read alone.
    wrong: dict[int, str] = {}
    tables = [_read(b"", width, dialect)[0]]
    for place, number in enumerate(numbers):
        table, reasons = _read(data[offsets[number] : offsets[number + 1]], width, dialect)
        if len(table) + len(reasons) != 1:
            table, reasons = table[:0], {0: "it has a carriage return outside of quotes"}
        tables.append(table)
        if reasons:
            wrong[place] = reasons[0]
    return pa.concat_tables(tables), wrong


def _read(data: bytes, width: int, dialect: Dialect) -> tuple[pa.Table, dict[int, str]]:
    wrong: dict[int, str] = {}

    def refuse(row: csv.InvalidRow) -> str:
        wrong[row.number - 1] = f"it has {row.actual_columns} values for {width} columns"
        return "skip"

    names = [f"f{i}" for i in range(width)]
    if not data:
        return pa.table({name: pa.array([], pa.large_string()) for name in names}), wrong
    table = csv.read_csv(
        io.BytesIO(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            newlines_in_values=True,
            invalid_row_handler=refuse,
        ),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()),
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table, wrong


def _raw(row: bytes) -> str:
    return row.decode(errors="backslashreplace").rstrip("\r\n")


def _sparse(values: dict[int, str], count: int) -> pa.Array:
    if not values:
        return pa.nulls(count, pa.large_string())
    return pa.array([values.get(i) for i in range(count)], pa.large_string())

"""Small Parquet files, read by Arrow: DuckDB takes longer to plan a query over one than to read it.

Law: the rows are those that DuckDB reads. So each column of the file has a form that DuckDB reads
as one type of ours; other forms are left to it, and all that Arrow refuses or takes for another
type.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.changes.rows.few_rows import cast_rows
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, from_arrow

MOST_BYTES, MOST_ROWS = 1 << 18, 1 << 11
"""Of a file that is small."""
_NONE = '{"Type":"None"}'
_TYPES = {
    ("BOOLEAN", _NONE): "BOOLEAN",
    ("FLOAT", _NONE): "FLOAT",
    ("DOUBLE", _NONE): "DOUBLE",
    ("BYTE_ARRAY", '{"Type":"String"}'): "VARCHAR",
    ("INT32", '{"Type":"Date"}'): "DATE",
    ("INT32", '{"Type":"Int","bitWidth":8,"isSigned":true}'): "TINYINT",
    ("INT32", '{"Type":"Int","bitWidth":16,"isSigned":true}'): "SMALLINT",
    ("INT32", '{"Type":"Int","bitWidth":32,"isSigned":true}'): "INTEGER",
    ("INT64", '{"Type":"Int","bitWidth":64,"isSigned":true}'): "BIGINT",
    ("INT32", _NONE): "INTEGER",
    ("INT64", _NONE): "BIGINT",
    (
        "INT64",
        '{"Type":"Timestamp","isAdjustedToUTC":false,"timeUnit":"microseconds",'
        '"is_from_converted_type":false,"force_set_converted_type":false}',
    ): "TIMESTAMP",
}
"""The types that DuckDB reads columns of these physical and logical types as."""
_READ_AS = {"BOOLEAN": pa.bool_(), "VARCHAR": pa.string()}
"""The types in which Arrow reads some of these, if the file says nothing else of them."""


def small_rows(file: str, wanted: Schema) -> ZSet | None:
    """The rows of a Parquet file that may be read.

    Args:
        file: its path.
        wanted: columns with the types that the values are cast to, by position.

    Returns:
        None if DuckDB has to read it, or to say why it does not.
    """
    try:
        if os.path.getsize(file) > MOST_BYTES:
            return None
        data = pa.BufferReader(Path(file).read_bytes())
        found = pq.ParquetFile(data, pre_buffer=False)  # no thread: it takes longer than to read
        schema = _schema(found.schema)
        if schema is None or found.metadata.num_rows > MOST_ROWS:
            return None
        table = found.read(use_threads=False)
        table.validate(full=True)
    except (OSError, pa.ArrowException):
        return None
    fields = zip(table.schema, schema, strict=True)
    if not all(_is_of(field.type, type) for field, (_, type) in fields):
        return None
    return cast_rows(from_arrow(table, schema), schema, wanted)


def _schema(found: pq.ParquetSchema) -> Schema | None:
    """The columns as DuckDB reads them; None if one is nested, or of another type."""
    columns = [found.column(i) for i in range(len(found))]
    types = [_type(column) for column in columns]
    if any(column.max_repetition_level or column.path != column.name for column in columns):
        return None
    if not all(types):
        return None
    return tuple(
        [(column.name, type_of(str(type))) for column, type in zip(columns, types, strict=True)]
    )


def _type(column: pq.ColumnSchema) -> str | None:
    logical = column.logical_type
    if logical.type == "DECIMAL":
        return f"DECIMAL({column.precision},{column.scale})"
    return _TYPES.get((column.physical_type, logical.to_json()))


def _is_of(found: pa.DataType, type: ColumnType) -> bool:
    """Returns whether Arrow has read a column as its type, which the file may say to be another."""
    return bool(found == _READ_AS.get(type.sql, type.arrow))

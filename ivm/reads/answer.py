"""The rows of an answer from memory, as Python objects or as an Arrow table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ivm.reads.python_objects import has_python_values, python_rows
from ivm.storage.values.column import Column, DictionaryColumn
from ivm.storage.values.dictionary import words
from ivm.storage.values.types import ColumnType, Schema, cast_in_place
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor, table

_STRING = pa.string()
_FEW = 64
"""Strings that cost less as Python objects than a decoding and a cast."""


@dataclass(frozen=True)
class Shape:
    """Names and types of an answer's columns.

    Attributes:
        arrow: as DuckDB exports them.
        arrow_types: those of `arrow`.
    """

    names: tuple[str, ...]
    types: tuple[ColumnType, ...]
    arrow: pa.Schema
    arrow_types: tuple[pa.DataType, ...]

    @staticmethod
    def of(schema: Schema, cursor: Cursor) -> Shape | None:
        """The shape of columns; None if there is a type whose values DuckDB must convert.

        Args:
            schema: names and types.
            cursor: exports NULLs of types that have not come yet.
        """
        names, types = tuple([n for n, _ in schema]), tuple([t for _, t in schema])
        if not all(has_python_values(t) for t in types):
            return None
        exported = [_exported(type, cursor).with_name(name) for name, type in schema]
        return Shape(names, types, pa.schema(exported), tuple([f.type for f in exported]))


_fields: dict[ColumnType, pa.Field] = {}


def _exported(type: ColumnType, cursor: Cursor) -> pa.Field:
    """A column of the type as DuckDB exports it, which is always the same."""
    if type not in _fields:
        _fields[type] = table(cursor, f"SELECT NULL::{type.sql} AS value").schema.field(0)
    return _fields[type]


class Answer:
    """The rows of one answer; they never change.

    Args:
        batch: the rows in order, each with weight 1.
        shape: of its columns.
    """

    __slots__ = ("_batch", "shape")

    def __init__(self, batch: ZSet, shape: Shape) -> None:
        self._batch = batch
        self.shape = shape

    @property
    def content(self) -> tuple[Schema, ZSet]:
        """The columns and the rows."""
        return tuple(zip(self.shape.names, self.shape.types, strict=True)), self._batch

    def rows(self) -> list[tuple[Any, ...]] | None:
        """The rows as tuples of Python values; None if DuckDB must make them of `arrow`."""
        return python_rows(self._batch.columns, self.shape.types)

    def arrow(self, start: int = 0) -> pa.Table:
        """The rows from a number on, with DuckDB's Arrow types."""
        columns, shape = self._batch.columns, self.shape
        each = zip(columns, shape.types, shape.arrow_types, strict=True)
        table = pa.Table.from_arrays([_array(*column) for column in each], schema=shape.arrow)
        return table.slice(start) if start else table


def _array(column: Column, type: ColumnType, wanted: pa.DataType) -> pa.Array:
    if wanted == _STRING and isinstance(column, DictionaryColumn) and len(column) <= _FEW:
        return pa.array(words(column.codes), wanted)
    array = column.to_arrow(type)
    return array if array.type == wanted else cast_in_place(array, wanted)

"""Column types: DuckDB's type name, its Arrow form, and the numpy form we compute with.

Law: a value's in-memory form is its exact representation; two values are the same row content
if and only if their forms are bitwise equal (so 0.0 and -0.0 differ, and so do '1 month' and
'30 days'). SQL's coarser grouping equality is `same_key`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ivm.storage.scratch import Scratch

MOST_DIGITS = 38
"""Digits of the widest DECIMAL."""

# HUGEINT, UUID, DECIMAL beyond 18 digits and INTERVAL travel as two 64-bit words.
WIDE = np.dtype([("lo", "<u8"), ("hi", "<i8")])

_FIXED: dict[str, str] = {
    "BOOLEAN": "?",
    "TINYINT": "i1",
    "SMALLINT": "i2",
    "INTEGER": "i4",
    "BIGINT": "i8",
    "UTINYINT": "u1",
    "USMALLINT": "u2",
    "UINTEGER": "u4",
    "UBIGINT": "u8",
    "FLOAT": "f4",
    "DOUBLE": "f8",
    "DATE": "i4",
    "TIME": "i8",
    "TIME_NS": "i8",
    "TIMESTAMP": "i8",
    "TIMESTAMP_S": "i8",
    "TIMESTAMP_MS": "i8",
    "TIMESTAMP_NS": "i8",
    "TIMESTAMP WITH TIME ZONE": "i8",
    "TIMESTAMPTZ_NS": "i8",
    "TIME WITH TIME ZONE": "u8",
}
# Byte strings, which DuckDB exports under names of their own; in memory they are large binaries.
_BYTES = {"BLOB", "BIT", "BIGNUM", "GEOMETRY"}
_WIDE = {"HUGEINT", "UHUGEINT", "UUID", "INTERVAL"}
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
INTEGER_NAMES = frozenset(_INTEGERS) | frozenset("U" + name for name in _INTEGERS)


def _without_dictionaries(type: pa.DataType) -> pa.DataType:
    """The type with ENUMs inside it as strings.

    It does not show DuckDB's fault `empty_enum_lists`, DuckDB's fault `enum_arrays`, nor
    DuckDB's fault `null_enum_maps`.
    """
    if pa.types.is_dictionary(type):
        return type.value_type
    if pa.types.is_map(type):
        inner = _without_dictionaries(type.key_type), _without_dictionaries(type.item_type)
        # The map of `MAP {}` has keys of type null, which Arrow imports but does not make.
        return type if inner == (type.key_type, type.item_type) else pa.map_(*inner)
    if pa.types.is_struct(type):
        return pa.struct([f.with_type(_without_dictionaries(f.type)) for f in type])
    if pa.types.is_fixed_size_list(type):
        element = type.value_field
        return pa.list_(element.with_type(_without_dictionaries(element.type)), type.list_size)
    if pa.types.is_list(type):
        element = type.value_field
        return pa.list_(element.with_type(_without_dictionaries(element.type)))
    return type


def importable(table: pa.Table) -> pa.Table:
    """An Arrow table that DuckDB has exported, as DuckDB imports it without a fault.

    ENUMs inside of other values become strings, `_without_dictionaries`; the names and metadata of
    fields stay.
    """
    for i, one in enumerate(table.schema):
        plain = _without_dictionaries(one.type)
        if plain != one.type and not pa.types.is_dictionary(one.type):
            table = table.set_column(i, one.with_type(plain), table.column(i).cast(plain))
    return table


def cast_in_place(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Casts; the fields of structs are those at the same place, as `type` spells them.

    Arrow looks for fields by their exact names, and finds NULL where it has none. DuckDB's types
    ignore the case of letters, so what it exports may have another case than it was asked for.
    """
    named = _with_names(array.type, type)
    return (array if array.type == named else array.view(named)).cast(type)


def _with_names(given: pa.DataType, names: pa.DataType) -> pa.DataType:
    """The type with the names of the fields of structs that the other one has at their places."""
    if pa.types.is_struct(given) and pa.types.is_struct(names):
        pairs = zip(given, names, strict=True)
        return pa.struct([pa.field(n.name, _with_names(g.type, n.type)) for g, n in pairs])
    if pa.types.is_map(given) and pa.types.is_map(names):
        key = _with_names(given.key_type, names.key_type)
        value = _with_names(given.item_type, names.item_type)
        return given if (key, value) == (given.key_type, given.item_type) else pa.map_(key, value)
    if pa.types.is_fixed_size_list(given) and pa.types.is_fixed_size_list(names):
        return pa.list_(_with_names(given.value_type, names.value_type), given.list_size)
    if pa.types.is_list(given) and pa.types.is_list(names):
        return pa.list_(_with_names(given.value_type, names.value_type))
    return given


@dataclass(frozen=True)
class ColumnType:
    """One DuckDB type and its two in-memory forms.

    Attributes:
        sql: DuckDB's name as DESCRIBE prints it, e.g. ``DECIMAL(18,2)``; types are equal by it.
        arrow: the Arrow type DuckDB exports with ``arrow_lossless_conversion``.
        dtype: numpy dtype of a `FixedColumn`, or None for an `ArrowColumn`.
        metadata: of an Arrow field by which DuckDB knows the type (VARIANT, GEOMETRY).
        memory: the Arrow type of an `ArrowColumn`'s array: 64-bit offsets, ENUMs as strings.
        is_bytes: an `ArrowColumn` of strings or binaries, 64-bit offsets.
        is_word: a `FixedColumn` of at most 64 bits.
        is_ordered_word: one whose numbers ascend as DuckDB sorts the values, which those of TIME
            WITH TIME ZONE do not.
        is_interval: INTERVAL.
        is_enum: an ENUM, held as the strings of its labels.
        is_date_or_timestamp: one of those, with a zone or without; they may be infinite.
    """

    sql: str
    arrow: pa.DataType = field(compare=False)
    dtype: np.dtype[Any] | None = field(compare=False)
    metadata: dict[bytes, bytes] | None = field(default=None, compare=False)
    memory: pa.DataType = field(init=False, compare=False)
    is_bytes: bool = field(init=False, compare=False)
    is_word: bool = field(init=False, compare=False)
    is_ordered_word: bool = field(init=False, compare=False)
    is_interval: bool = field(init=False, compare=False)
    is_enum: bool = field(init=False, compare=False)
    is_date_or_timestamp: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        memory = pa.large_binary() if self.sql in _BYTES else _without_dictionaries(self.arrow)
        large = pa.types.is_large_string(memory) or pa.types.is_large_binary(memory)
        object.__setattr__(self, "memory", memory)
        object.__setattr__(self, "is_bytes", large)
        is_word = self.dtype is not None and self.dtype.itemsize <= 8
        ordered = is_word and self.sql != "TIME WITH TIME ZONE"
        object.__setattr__(self, "is_word", is_word)
        object.__setattr__(self, "is_ordered_word", ordered)
        object.__setattr__(self, "is_interval", self.sql == "INTERVAL")
        object.__setattr__(self, "is_enum", self.base == "ENUM")
        is_time = self.base == "DATE" or self.base.startswith("TIMESTAMP")
        object.__setattr__(self, "is_date_or_timestamp", is_time)

    @property
    def base(self) -> str:
        """The name without parameters: ``DECIMAL`` of ``DECIMAL(18,2)``; arrays keep ``[]``."""
        if self.sql.endswith("]"):
            return "LIST"
        return self.sql.split("(")[0]

    @property
    def is_integer(self) -> bool:
        return self.sql in INTEGER_NAMES

    @property
    def is_float(self) -> bool:
        return self.sql in ("FLOAT", "DOUBLE")

    @property
    def is_decimal(self) -> bool:
        return self.base == "DECIMAL"

    @property
    def is_string(self) -> bool:
        """Returns whether it is VARCHAR or JSON; an ENUM is not, since it sorts by its position."""
        return self.sql in ("VARCHAR", "JSON")

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of an ENUM in their order."""
        with _scratch.borrow() as scratch:
            ((labels,),) = scratch.execute(
                f"SELECT system.main.enum_range(NULL::{self.sql})"
            ).fetchall()
        return tuple(labels)

    @property
    def scale(self) -> int:
        """Digits after the point of a DECIMAL, 0 of any other type."""
        return int(self.arrow.scale) if self.is_decimal else 0

    @property
    def precision(self) -> int:
        """Digits of a DECIMAL; raises AttributeError for any other type."""
        return int(self.arrow.precision)

    def __str__(self) -> str:
        return self.sql


Schema = tuple[tuple[str, ColumnType], ...]
"""Ordered (name, type) pairs of a relation."""

_scratch = Scratch.of("SET arrow_lossless_conversion = true")


_UNREAD = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.InvalidInputException,
    duckdb.ParserException,
)


def _exported(sql: str) -> pa.Field:
    try:
        with _scratch.borrow() as scratch:
            return scratch.sql(f"SELECT NULL::{sql} AS v").to_arrow_table().schema.field(0)
    except _UNREAD as error:
        raise duckdb.NotImplementedException(
            f"columns of the type {sql} cannot be kept in tables and materialized views: DuckDB "
            "does not read the name that it gives the type; cast them to another type (the state "
            "of an aggregate: finalize() it, or cast it to a STRUCT)"
        ) from error


@functools.lru_cache(maxsize=4096)
def type_of(sql: str) -> ColumnType:
    """The `ColumnType` of a DuckDB type name.

    Args:
        sql: a type name as DuckDB's DESCRIBE prints it (named ENUMs already spelled out).

    Returns:
        The type, cached by name.

    Raises:
        duckdb.NotImplementedException: DuckDB's fault `unread_type_names`.
    """
    if sql in ('"NULL"', "NULL"):  # of a bare NULL, which becomes any other type that it meets
        return ColumnType('"NULL"', pa.int32(), np.dtype("i4"))
    exported = _exported(sql)
    arrow = exported.type
    if sql in _FIXED:
        return ColumnType(sql, arrow, np.dtype(_FIXED[sql]))
    if sql in _WIDE:
        return ColumnType(sql, arrow, WIDE)
    if sql.startswith("DECIMAL(") and not sql.endswith("]"):
        return ColumnType(sql, arrow, np.dtype("i8") if arrow.precision <= 18 else WIDE)
    if sql in ("VARCHAR", "JSON") or (sql.startswith("ENUM(") and not sql.endswith("]")):
        return ColumnType(sql, pa.large_string(), None)
    if sql == "BLOB":
        return ColumnType(sql, pa.large_binary(), None)
    return ColumnType(sql, arrow, None, exported.metadata)


@functools.lru_cache(maxsize=4096)
def named_type(name: str) -> ColumnType:
    """The type behind any name that DuckDB reads: ``int8``, ``varchar(20)``, ``numeric(10, 2)``.

    Raises:
        duckdb.Error: there is no such type.
    """
    with _scratch.borrow() as scratch:
        ((_, sql, *_),) = scratch.execute(f"DESCRIBE SELECT NULL::{name} AS v").fetchall()
    return type_of(sql)

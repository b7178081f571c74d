"""DuckDB's order of lists, maps, structs and arrays, as ranks of a column.

Law: lists compare by their first different elements, and a list comes before those that begin with
it; maps are lists of entries, and structs compare by their first different field. A NULL inside is
greater than all values. Types whose Arrow form does not sort as DuckDB's values have no order here.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.values.column import Codes
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.types import ColumnType, type_of

_FLOATS = {4: "FLOAT", 8: "DOUBLE"}
_UNLIKE = ("ENUM", "INTERVAL", "UNION", "VARIANT", "TIME WITH TIME ZONE", "TIMETZ")


@functools.cache
def has_nested_order(type: ColumnType) -> bool:
    """Returns whether values of a nested type can be sorted here as DuckDB sorts them."""
    if type.dtype is not None or any(name in type.sql.upper() for name in _UNLIKE):
        return False
    kind = type.memory
    return isinstance(kind, pa.DataType) and _is_nested(kind) and _sorts(kind)


def has_floats(type: ColumnType) -> bool:
    """Returns whether equal values of an ordered nested type may differ in their bits."""
    return has_nested_order(type) and any(name in type.sql for name in ("DOUBLE", "FLOAT"))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _sorts(kind: pa.DataType) -> bool:
    if _is_nested(kind):
        children = [kind.field(i).type for i in range(kind.num_fields)]
        return bool(children) and all(_sorts(child) for child in children)
    if isinstance(kind, (pa.Bool8Type, pa.JsonType)):
        return True
    known = (
        pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary,
        pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal128, pa.types.is_float32,
        pa.types.is_float64,
    )  # fmt: skip
    return any(test(kind) for test in known)


def nested_ranks(array: pa.Array, *, bits: bool = False) -> Codes:
    """Ranks ascending, equal for equal values; that of NULL is the greatest.

    Args:
        bits: floats are distinguished by their bits.
    """
    kind = array.type
    if pa.types.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        return nested_ranks(array.cast(pa.list_(entry)), bits=bits)
    if pa.types.is_struct(kind):
        return _nulls_last(_struct_ranks(array, bits), array)
    if _is_nested(kind):
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        elements = nested_ranks(pc.list_flatten(array), bits=bits)
        return _nulls_last(_list_ranks(lengths.astype(np.int64), elements), array)
    if isinstance(kind, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_floating(kind):
        array = _float_codes(array, bits)
    ranks: pa.Array = pc.rank(array, "ascending", tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False), np.int64)


def _nulls_last(ranks: Codes, array: pa.Array) -> Codes:
    if not array.null_count:
        return ranks
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, ranks, len(ranks))


def _float_codes(array: pa.Array, bits: bool) -> pa.Array:
    """The integers in the order of the floats; of their bits, if asked."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    words = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    codes = words if bits else word_codes(values, type_of(_FLOATS[values.dtype.itemsize]))
    return pa.array(codes, mask=array.is_null().to_numpy(zero_copy_only=False))


def _struct_ranks(array: pa.Array, bits: bool) -> Codes:
    ranks = np.zeros(len(array), np.int64)
    every = np.arange(len(array))
    for field in array.flatten():
        _refine(ranks, every, nested_ranks(field, bits=bits))
    return ranks


def _list_ranks(lengths: Codes, elements: Codes) -> Codes:
    """Ranks of lists, given as consecutive segments of their elements' ranks."""
    ranks = np.zeros(len(lengths), np.int64)
    starts = np.cumsum(lengths) - lengths
    tied, position = np.arange(len(lengths)), 0
    while len(tied):
        there = lengths[tied] > position
        keys = np.full(len(tied), -1, np.int64)
        keys[there] = elements[starts[tied[there]] + position]
        alone = _refine(ranks, tied, keys)
        tied, position = tied[there & ~alone], position + 1
    return ranks


def _refine(ranks: Codes, rows: Codes, keys: Codes) -> npt.NDArray[np.bool_]:
    """Splits rows of equal rank by a key; returns a mask of those that are alone with their rank.

    A rank is the number of rows before those that share it, so a split changes no other rank.
    """
    order = np.lexsort((keys, ranks[rows]))
    old, sorted_keys = ranks[rows][order], keys[order]
    groups = np.ones(len(rows), np.bool_)
    groups[1:] = old[1:] != old[:-1]
    parts = groups.copy()
    parts[1:] |= sorted_keys[1:] != sorted_keys[:-1]
    positions = np.arange(len(rows))
    begins = np.maximum.accumulate(np.where(parts, positions, 0))
    within = begins - np.maximum.accumulate(np.where(groups, positions, 0))
    ranks[rows[order]] = old + within
    alone = np.empty(len(rows), np.bool_)
    ends = np.ones(len(rows), np.bool_)
    ends[:-1] = parts[1:]
    alone[order] = parts & ends
    return alone


def nested_cell(value: pa.Scalar, bits: bool) -> Any:
    """A Python object that compares as DuckDB orders the value; None for NULL."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return tuple([_inner(field, bits) for field in value.values()])
    if _is_nested(kind):
        return tuple([_inner(element, bits) for element in value.values])
    if isinstance(kind, pa.BaseExtensionType):
        return value.value.as_py()
    if pa.types.is_floating(kind):
        return int(_float_codes(pa.array([value.as_py()], kind), bits)[0].as_py())
    # Infinite dates and times are no Python values.
    return value.value if pa.types.is_temporal(kind) else value.as_py()


def _inner(value: pa.Scalar, bits: bool) -> tuple[Any, ...]:
    """A sort key inside of another, where NULL is the greatest."""
    cell = nested_cell(value, bits)
    return (2,) if cell is None else (1, cell)

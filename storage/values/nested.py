"""Arrow arrays of any type taken apart for kernels: fixed, bytes, list, struct or union.

Invariant: the parts of an array describe its own rows (offsets of slices applied), NULLs are in
`valid` alone, and list ranges and child values under them count as empty. Maps are lists of
structs, ENUMs their labels, extension types their storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.values.canonical import canonical_floats, canonical_intervals
from ivm.storage.values.column import Indexes, Mask
from ivm.storage.values.types import WIDE


@dataclass(slots=True)
class FixedParts:
    """Values of one width; `interval` marks those with several forms of one value."""

    values: npt.NDArray[Any]
    valid: Mask | None
    interval: bool = False

    def canonical(self) -> npt.NDArray[Any]:
        if self.interval:
            return canonical_intervals(self.values)
        return canonical_floats(self.values) if self.values.dtype.kind == "f" else self.values

    def take(self, rows: Indexes) -> FixedParts:
        return FixedParts(self.values[rows], _take(self.valid, rows), self.interval)


@dataclass(slots=True)
class ByteParts:
    """Strings and binaries: row i is data[starts[i] : starts[i] + lengths[i]]."""

    data: npt.NDArray[np.uint8]
    starts: Indexes
    lengths: Indexes
    valid: Mask | None

    @property
    def count(self) -> int:
        return len(self.starts)

    def take(self, rows: Indexes) -> ByteParts:
        return ByteParts(self.data, self.starts[rows], self.lengths[rows], _take(self.valid, rows))


@dataclass(slots=True)
class ListParts:
    """Lists: row i is child[starts[i] : starts[i] + lengths[i]]."""

    child: Parts
    starts: Indexes
    lengths: Indexes
    valid: Mask | None

    def expand(self) -> tuple[Indexes, Indexes, Indexes]:
        """The row, the position in its list and the index in the child of every element."""
        rows = np.repeat(np.arange(len(self.lengths)), self.lengths)
        begins = np.cumsum(self.lengths) - self.lengths
        positions = np.arange(len(rows)) - begins[rows]
        return rows, positions, self.starts[rows] + positions

    def take(self, rows: Indexes) -> ListParts:
        starts, lengths = self.starts[rows], self.lengths[rows]
        return ListParts(self.child, starts, lengths, _take(self.valid, rows))


@dataclass(slots=True)
class StructParts:
    """Structs: one child a field, row by row."""

    children: list[Parts]
    count: int
    valid: Mask | None

    def take(self, rows: Indexes) -> StructParts:
        children = [child.take(rows) for child in self.children]
        return StructParts(children, len(rows), _take(self.valid, rows))


@dataclass(slots=True)
class UnionParts:
    """Unions: row i is row i of the child whose code is tags[i]; NULL where that one is."""

    children: list[Parts]
    codes: list[int]
    tags: npt.NDArray[np.int8]
    valid: Mask | None = None

    @property
    def count(self) -> int:
        return len(self.tags)

    def take(self, rows: Indexes) -> UnionParts:
        children = [child.take(rows) for child in self.children]
        return UnionParts(children, self.codes, self.tags[rows])


Parts: TypeAlias = FixedParts | ByteParts | ListParts | StructParts | UnionParts


def parts(array: pa.Array) -> Parts:
    """The parts of an array of any type that DuckDB exports."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return parts(array.dictionary_decode())
    valid = _validity(array)
    if pa.types.is_union(kind):
        return _union(array)
    if pa.types.is_struct(kind):
        return _struct(array, valid)
    if pa.types.is_map(kind):
        return _list(array, _entries(array), valid)
    if pa.types.is_fixed_size_list(kind):
        return _fixed_list(array, valid)
    if pa.types.is_nested(kind):
        return _list(array, array.values, valid)
    return _leaf(array, valid)


def _take(valid: Mask | None, rows: Indexes) -> Mask | None:
    return None if valid is None else valid[rows]


def _validity(array: pa.Array) -> Mask | None:
    if array.null_count == 0:
        return None
    return array.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _leaf(array: pa.Array, valid: Mask | None) -> Parts:
    kind, count = array.type, len(array)
    if pa.types.is_null(kind):
        return FixedParts(np.zeros(count, np.int8), np.zeros(count, np.bool_))
    if pa.types.is_boolean(kind):
        array = pc.cast(array, pa.int8())
        return FixedParts(
            _clear(np.frombuffer(array.buffers()[1], np.int8, count, array.offset), valid), valid
        )
    if (
        pa.types.is_fixed_size_binary(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_primitive(kind)
    ):
        return _fixed(array, valid)
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    ends = _offsets(array, wide)
    data = array.buffers()[2]
    flat = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    lengths = np.diff(ends)
    return ByteParts(flat, ends[:-1], lengths if valid is None else lengths * valid, valid)


def _fixed(array: pa.Array, valid: Mask | None) -> FixedParts:
    kind = array.type
    size = kind.bit_width // 8
    if size == 16:
        dtype = WIDE
    elif pa.types.is_floating(kind):
        dtype = np.dtype(f"f{size}")
    else:
        dtype = np.dtype(f"i{size}")
    data = array.buffers()[1]
    values = (
        np.zeros(0, dtype)
        if data is None
        else np.frombuffer(data, dtype, len(array), array.offset * size)
    )
    return FixedParts(_clear(values, valid), valid, kind == pa.month_day_nano_interval())


def _clear(values: npt.NDArray[Any], valid: Mask | None) -> npt.NDArray[Any]:
    return values if valid is None else np.where(valid, values, np.zeros(1, values.dtype))


def _offsets(array: pa.Array, wide: bool) -> Indexes:
    count, offset = len(array), array.offset
    data = array.buffers()[1]
    if count == 0 or data is None:
        return np.zeros(1, np.int64)
    if wide:
        return np.frombuffer(data, np.int64, count + 1, offset * 8)
    return np.frombuffer(data, np.int32, count + 1, offset * 4).astype(np.int64)


def _list(array: pa.Array, child: pa.Array, valid: Mask | None) -> ListParts:
    ends = _offsets(array, pa.types.is_large_list(array.type))
    lengths = np.diff(ends)
    return ListParts(parts(child), ends[:-1], lengths if valid is None else lengths * valid, valid)


def list_elements(array: pa.Array) -> tuple[pa.Array, Indexes, Indexes]:
    """The values below a list or array column; by row, the first's index and their count."""
    valid = _validity(array)
    if pa.types.is_fixed_size_list(array.type):
        starts = (np.arange(len(array)) + array.offset) * array.type.list_size
        lengths = np.full(len(array), array.type.list_size, np.int64)
    else:
        ends = _offsets(array, pa.types.is_large_list(array.type))
        starts, lengths = ends[:-1], np.diff(ends)
    return array.values, starts, lengths if valid is None else lengths * valid


def _entries(array: pa.MapArray) -> pa.Array:
    return pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])


def _fixed_list(array: pa.Array, valid: Mask | None) -> ListParts:
    size, count = array.type.list_size, len(array)
    starts = (np.arange(count) + array.offset) * size
    lengths = np.full(count, size, np.int64)
    return ListParts(
        parts(array.values), starts, lengths if valid is None else lengths * valid, valid
    )


def _struct(array: pa.StructArray, valid: Mask | None) -> StructParts:
    children = [parts(array.field(i)) for i in range(array.type.num_fields)]
    return StructParts(children, len(array), valid)


def _union(array: pa.UnionArray) -> UnionParts:
    tags = np.frombuffer(array.buffers()[1], np.int8, len(array), array.offset)
    children = [parts(array.field(i)) for i in range(array.type.num_fields)]
    return UnionParts(children, list(array.type.type_codes), tags)

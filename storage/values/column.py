"""A column: numpy values for fixed-width types, an Arrow array for the rest.

Invariant: a `FixedColumn`'s values under NULL are all-zero bits, so equality and hashing need
not look at the mask twice; `valid` is None when no value is NULL. Columns are immutable and have
no names and types; callers keep a `ColumnType` for each position.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.errors import InternalError
from ivm.storage.values import dictionary, thresholds
from ivm.storage.values.types import WIDE, ColumnType, cast_in_place

Indexes: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.int64]
"""Numbers that stand for values: equal, or in order, where these are."""
AnyCodes: TypeAlias = npt.NDArray[Any]
"""Codes of keys in any type of number: the values themselves, ranks or hashes."""

_STRING = pa.large_string()
_LONG = 1 << 16  # values from which on joining arrays must not hold the interpreter lock


def taken(values: npt.NDArray[Any], indexes: Indexes) -> npt.NDArray[Any]:
    """The values at positions (int64, non-negative)."""
    return values.take(indexes) if len(indexes) >= thresholds.TAKEN_ROWS else values[indexes]


class FixedColumn:
    """Fixed-width values (also 16-byte ones) with an optional validity mask."""

    __slots__ = ("valid", "values")

    def __init__(self, values: npt.NDArray[Any], valid: Mask | None = None) -> None:
        self.values = values
        self.valid = valid

    def __len__(self) -> int:
        return len(self.values)

    def take(self, indexes: Indexes) -> FixedColumn:
        """The rows at `indexes` (int64, non-negative)."""
        valid = self.valid
        return FixedColumn(
            taken(self.values, indexes), None if valid is None else taken(valid, indexes)
        )

    def filter(self, mask: Mask) -> FixedColumn:
        return self.take(mask.nonzero()[0])  # by a mask numpy takes several times as long

    def slice(self, start: int, stop: int) -> FixedColumn:
        valid = self.valid
        return FixedColumn(self.values[start:stop], None if valid is None else valid[start:stop])

    def cell(self, row: int) -> Any:
        """One value as a number, None if it is NULL."""
        if self.valid is not None and not self.valid[row]:
            return None
        return self.values.item(row)

    def to_arrow(self, type: ColumnType) -> pa.Array:
        """The column in the Arrow form that DuckDB imports as `type`."""
        return _fixed_to_arrow(self, type)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)


class ArrowColumn:
    """Strings, binaries and nested values as one contiguous Arrow array."""

    __slots__ = ("array", "dictionary_encoded")

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        # The result of `dictionary_encoded`; None before, False where encoding does not pay.
        # Never the column itself: only the garbage collector frees a circle, long after its rows.
        self.dictionary_encoded: DictionaryColumn | Literal[False] | None = None

    def __getstate__(self) -> pa.Array:
        return self.array

    def __setstate__(self, array: pa.Array) -> None:
        self.array, self.dictionary_encoded = array, None

    def __len__(self) -> int:
        return len(self.array)

    @property
    def valid(self) -> Mask | None:
        if self.array.null_count == 0 and not pa.types.is_union(self.array.type):
            return None
        return self.array.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def take(self, indexes: Indexes) -> ArrowColumn:
        """The rows at `indexes` (int64, non-negative)."""
        return ArrowColumn(self.array.take(pa.array(indexes)))

    def filter(self, mask: Mask) -> ArrowColumn:
        return ArrowColumn(self.array.take(pa.array(np.flatnonzero(mask))))

    def slice(self, start: int, stop: int) -> ArrowColumn:
        return ArrowColumn(self.array.slice(start, stop - start))

    def cell(self, row: int) -> Any:
        """One value as a Python object, None if it is NULL."""
        return self.array[row].as_py()

    def to_arrow(self, type: ColumnType) -> pa.Array:
        """The array; BIT and BIGNUM under the extension type by which DuckDB knows them."""
        if self.array.offset and pa.types.is_nested(self.array.type):
            # DuckDB's fault `slices_from_arrow`
            return self.array.take(pa.array(np.arange(len(self))))
        if not isinstance(type.arrow, pa.BaseExtensionType):
            return self.array
        storage = self.array.cast(type.arrow.storage_type)
        return pa.ExtensionArray.from_storage(type.arrow, storage)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)


class DictionaryColumn(ArrowColumn):
    """Strings that repeat, as numbers of the process's dictionary (see `dictionary`)."""

    __slots__ = ("_decoded", "codes")

    def __init__(self, codes: dictionary.DictionaryCodes, decoded: pa.Array | None = None) -> None:
        self.codes = codes
        self._decoded = decoded

    @property
    def array(self) -> pa.Array:
        """The strings themselves, decoded at first use."""
        if self._decoded is None:
            self._decoded = dictionary.decode(self.codes)
        return self._decoded

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def valid(self) -> Mask | None:
        codes = self.codes
        return None if np.count_nonzero(codes) == len(codes) else codes != 0

    def take(self, indexes: Indexes) -> DictionaryColumn:
        return DictionaryColumn(taken(self.codes, indexes))

    def cell(self, row: int) -> str | None:
        return dictionary.words(self.codes[row : row + 1])[0]

    def filter(self, mask: Mask) -> DictionaryColumn:
        return DictionaryColumn(self.codes[mask])

    def slice(self, start: int, stop: int) -> DictionaryColumn:
        return DictionaryColumn(self.codes[start:stop])

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes


Column: TypeAlias = FixedColumn | ArrowColumn


def dictionary_encoded(column: Column) -> Column:
    """The column in dictionary encoding where its strings repeat, else itself."""
    if not isinstance(column, ArrowColumn) or isinstance(column, DictionaryColumn):
        return column
    if column.array.type != _STRING or len(column.array) == 0:
        return column
    if column.dictionary_encoded is None:
        codes = dictionary.encode(column.array)
        column.dictionary_encoded = (
            False if codes is None else DictionaryColumn(codes, column.array)
        )
    return column.dictionary_encoded or column


def _concat_dictionaries(columns: Sequence[Column]) -> DictionaryColumn | None:
    """Columns that are mostly dictionary-encoded as one such column; None if it does not pay."""
    known = [c.codes for c in columns if isinstance(c, DictionaryColumn)]
    if len(known) == len(columns):
        return DictionaryColumn(join_arrays(known))
    numbered = sum([len(codes) for codes in known])
    total = sum(len(c) for c in columns)
    if numbered < total and (numbered < thresholds.JOINED_LABELS or 2 * numbered < total):
        return None
    parts = []
    for encoded, run in itertools.groupby(columns, lambda c: isinstance(c, DictionaryColumn)):
        if encoded:
            parts.extend([c.codes for c in run])  # type: ignore[union-attr]
            continue
        texts = pa.concat_arrays([c.array for c in run])  # type: ignore[union-attr]
        codes = dictionary.encode(texts, force=True)
        if codes is None:
            return None
        parts.append(codes)
    return DictionaryColumn(join_arrays(parts))


def join_arrays(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenates as `np.concatenate` does, but long arrays let other threads run meanwhile.

    Merges in the background join arrays of 10⁷ values, and numpy holds the interpreter lock in
    `concatenate`, not in assignments.
    """
    total = sum([len(array) for array in arrays])
    dtype = arrays[0].dtype
    if total < _LONG:
        if dtype.names is None:
            return np.concatenate(arrays)
        parts: list[Any] = [np.ascontiguousarray(a) for a in arrays]
        return np.frombuffer(bytearray().join(parts), dtype)  # sooner than value by value
    joined, stop = np.empty(total, dtype), 0
    for array in arrays:
        start, stop = stop, stop + len(array)
        _copy(array, joined[start:stop])
    return joined


def _copy(values: npt.NDArray[Any], to: npt.NDArray[Any]) -> None:
    if values.dtype.names is None:
        to[:] = values
    else:  # by words: numpy copies structured values field by field, ten times as slowly
        to.view(np.uint64)[:] = np.ascontiguousarray(values).view(np.uint64)


def concat(columns: Sequence[Column]) -> Column:
    """One column of the given ones, all of one type, in their order (at least one)."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if isinstance(first, ArrowColumn):
        if any(isinstance(c, DictionaryColumn) for c in columns):
            joined = _concat_dictionaries(columns)
            if joined is not None:
                return joined
        return ArrowColumn(pa.concat_arrays([c.array for c in columns]))  # type: ignore[union-attr]
    values = join_arrays([c.values for c in columns])  # type: ignore[union-attr]
    for column in columns:
        if column.valid is not None:
            return FixedColumn(values, join_arrays([not_null(c) for c in columns]))
    return FixedColumn(values)


def join_released(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenates arrays of a list that is emptied: each is released once it is copied.

    Memory that is not yet written to is not there, so no more than one array is there twice.
    """
    joined, stop = np.empty(sum([len(array) for array in arrays]), arrays[0].dtype), 0
    arrays.reverse()
    while arrays:
        array = arrays.pop()
        start, stop = stop, stop + len(array)
        _copy(array, joined[start:stop])
    return joined


def concat_released(columns: list[Column]) -> Column:
    """As `concat`, of a list that is emptied: fixed-width pieces are released one by one."""
    if len(columns) == 1:
        return columns.pop()
    if all(isinstance(c, DictionaryColumn) for c in columns):
        codes = [c.codes for c in columns]  # type: ignore[union-attr]
        columns.clear()
        return DictionaryColumn(join_released(codes))
    if isinstance(columns[0], FixedColumn):
        valid = [not_null(c) for c in columns] if any(c.valid is not None for c in columns) else []
        values = [c.values for c in columns]  # type: ignore[union-attr]
        columns.clear()
        return FixedColumn(join_released(values), join_released(valid) if valid else None)
    joined = concat(columns)
    columns.clear()
    return joined


def concat_ranges(ranges: Sequence[tuple[Column, int, int]]) -> Column:
    """One column of ranges of rows of the given ones, all of one type (at least one)."""
    first, begin, end = ranges[0]
    if len(ranges) == 1:
        return first.slice(begin, end)
    if isinstance(first, ArrowColumn):
        return concat([column.slice(a, b) for column, a, b in ranges])
    parts = []
    for column, a, b in ranges:
        if column.valid is not None:
            return concat([column.slice(a, b) for column, a, b in ranges])
        parts.append(column.values[a:b])  # type: ignore[union-attr]
    return FixedColumn(join_arrays(parts))


def not_null(column: Column) -> Mask:
    """A mask of the values that are not NULL."""
    valid = column.valid
    return np.ones(len(column), np.bool_) if valid is None else valid


def empty_column(type: ColumnType) -> Column:
    """A column of `type` with no rows."""
    return null_column(type, 0)


def null_column(type: ColumnType, count: int) -> Column:
    """A column of `count` NULLs."""
    if type.dtype is None:
        return ArrowColumn(pa.nulls(count, type.memory))
    return FixedColumn(np.zeros(count, type.dtype), np.zeros(count, np.bool_) if count else None)


def owned(column: Column) -> Column:
    """The column in memory of its own: a program may write into the arrays that it has given."""
    if isinstance(column, FixedColumn):
        values = column.values
        return column if values.flags.owndata else FixedColumn(values.copy(), column.valid)
    if isinstance(column, DictionaryColumn):
        return column
    return ArrowColumn(pa.concat_arrays([column.array]))  # which copies one, too


def column_from_arrow(array: pa.Array | pa.ChunkedArray, type: ColumnType) -> Column:
    """The in-memory form of an Arrow array whose logical type is `type`.

    Args:
        array: as DuckDB exports it (extension types included), or the plain Arrow type.
        type: the DuckDB type the values have; no value conversion is done here.

    Returns:
        A `FixedColumn` or `ArrowColumn` by `type.dtype`.
    """
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks == 0:
            return empty_column(type)
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    if type.dtype is None:
        return ArrowColumn(_var_from_arrow(array, type))
    return _fixed_from_arrow(array, type)


def _var_from_arrow(array: pa.Array, type: ColumnType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == type.memory else cast_in_place(array, type.memory)


def _bits(buffer: pa.Buffer, offset: int, count: int) -> Mask:
    first, skipped = divmod(offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (skipped + count + 7) // 8, first)
    bits = np.unpackbits(packed, count=skipped + count, bitorder="little")
    return bits[skipped:].view(np.bool_)


def _bit_width(type: ColumnType) -> int:
    arrow = type.arrow.storage_type if isinstance(type.arrow, pa.BaseExtensionType) else type.arrow
    return int(arrow.bit_width)


def _fixed_from_arrow(array: pa.Array, type: ColumnType) -> FixedColumn:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    count, offset = len(array), array.offset
    assert type.dtype is not None
    if array.null_count == count:  # also pa.null() and zero rows
        return FixedColumn(
            np.zeros(count, type.dtype), np.zeros(count, np.bool_) if count else None
        )
    validity, data = array.buffers()[:2]
    valid = _bits(validity, offset, count) if array.null_count else None
    values: npt.NDArray[Any]
    if pa.types.is_boolean(array.type):
        values = _bits(data, offset, count)
    elif array.type.bit_width != _bit_width(type):
        raise InternalError(
            f"An Arrow array of {array.type} was taken for a column of {type.sql}, which has "
            "another width. Please report this with the statement that led to it."
        )
    elif type.is_decimal and type.dtype != WIDE:
        values = np.frombuffer(data, np.int64)[2 * offset : 2 * (offset + count) : 2].copy()
    else:
        values = np.frombuffer(data, type.dtype, count, offset * type.dtype.itemsize)
    if valid is not None:
        values = np.where(valid, values, np.zeros(1, type.dtype))
    return FixedColumn(values, valid)


def _fixed_to_arrow(column: FixedColumn, type: ColumnType) -> pa.Array:
    values, valid, count = column.values, column.valid, len(column.values)
    validity = None
    if valid is not None:
        validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if type.sql == "BOOLEAN":
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), count, [validity, data])
    if type.is_decimal and type.dtype != WIDE:
        words = np.empty((count, 2), np.int64)
        words[:, 0] = values
        words[:, 1] = values >> 63
        return pa.Array.from_buffers(type.arrow, count, [validity, pa.py_buffer(words)])
    arrow = type.arrow
    data = pa.py_buffer(np.ascontiguousarray(values))
    if isinstance(arrow, pa.BaseExtensionType):
        storage = pa.Array.from_buffers(arrow.storage_type, count, [validity, data])
        return pa.ExtensionArray.from_storage(arrow, storage)
    return pa.Array.from_buffers(arrow, count, [validity, data])

"""Consolidation of Z-sets, and dense numbers of equal rows.

Law: consolidate(z) and z are the same function from rows to weights; group(c).inverse[i] =
group(c).inverse[j] ⇔ rows i and j are equal under SQL's grouping equality.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.values import thresholds
from ivm.storage.values.canonical import row_tuples
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, Indexes, Mask
from ivm.storage.values.equality import equal_pairs
from ivm.storage.values.group_numbers import Groups, has_repeats, number_exact, number_hashed
from ivm.storage.values.hashing import MULTIPLIER, scatter
from ivm.storage.values.key_codes import is_exact, key_codes, row_codes, same_key, same_row
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add

_DIGITS_LIMIT = 1 << 62
_LABELLED = 3  # columns: the products of more numbers are too large to be counted by
_PLACES = 3  # bits: with eight buckets a row few rows meet by chance


def consolidate(zset: ZSet, types: Sequence[ColumnType]) -> ZSet:
    """The same Z-set with every row once and no weight zero (in no promised order)."""
    count = len(zset)
    if count <= 1:
        return zset if count == 0 or zset.weights[0] != 0 else zset.slice(0, 0)
    if not types:
        total = zset.weights.sum(keepdims=True)
        return ZSet((), total[total != 0])
    tuples = row_tuples(zset.columns, types, False)
    if tuples is not None:
        return _consolidate_small(zset, tuples)
    first, inverse = distinct_rows(zset.columns, types)
    if len(first) == count:
        return zset if np.count_nonzero(zset.weights) == count else zset.filter(zset.weights != 0)
    weights = np.zeros(len(first), np.int64)
    np.add.at(weights, inverse, zset.weights)
    live = np.flatnonzero(weights)
    return ZSet(tuple([c.take(first[live]) for c in zset.columns]), weights[live])


def cancel(zset: ZSet, types: Sequence[ColumnType]) -> ZSet:
    """The same Z-set, in which no row has weights of both signs.

    Only rows that meet one of the other sign by a hash are compared; there may be none.
    """
    if len(zset) <= thresholds.TUPLE_ROWS:
        return consolidate(zset, types)
    suspects = opposed(zset.columns, zset.weights < 0)
    if not suspects.any():
        return zset
    return add([zset.filter(~suspects), consolidate(zset.filter(suspects), types)])


def without_pairs(zset: ZSet, types: Sequence[ColumnType], count: int) -> ZSet:
    """The same Z-set without the rows i and `count` + i, i < `count`, that cancel each other.

    So does −old and +new of an update in the columns that it does not set.
    """
    if not types or not count:
        return cancel(zset, types)
    old, new = zset.slice(0, count), zset.slice(count, 2 * count)
    same = equal_pairs(old.columns, new.columns, types)
    same &= old.weights == -new.weights
    if not same.any():
        return zset
    kept = np.ones(len(zset), np.bool_)
    kept[:count] = kept[count : 2 * count] = ~same
    return zset.filter(kept)


def opposed(columns: Sequence[Column], minus: Mask) -> Mask:
    """Rows that may be equal to one of the other sign: all that are, and few others.

    Args:
        columns: at least one; those whose bits are not in memory as numbers are not read.
        minus: the rows of negative weight.
    """
    if minus.all() or not minus.any():
        return np.zeros(len(minus), np.bool_)
    words = [word for column in columns for word in _words(column)]
    if not words:
        return np.ones(len(minus), np.bool_)
    mixed = words[0].astype(np.uint64)
    for word in words[1:]:
        mixed *= np.uint64(MULTIPLIER)
        mixed += word
    # A row is suspect if a row of the other sign is scattered to the same bucket; equal rows are.
    bits = len(minus).bit_length() + _PLACES
    where = scatter(mixed, np.uint64(64 - bits))
    gone, come = minus.nonzero()[0], (~minus).nonzero()[0]
    come = _among(where, come, gone, bits)
    # The added rows were narrowed first, so that the removed ones meet fewer buckets.
    suspects = np.zeros(len(minus), np.bool_)
    suspects[come] = True
    suspects[_among(where, gone, come, bits)] = True
    return suspects


def _words(column: Column) -> list[npt.NDArray[Any]]:
    """The bits of the values as unsigned numbers, where they are in memory as such."""
    if isinstance(column, DictionaryColumn):
        return [column.codes.view(np.uint32)]
    if isinstance(column, ArrowColumn):
        return []
    values = column.values
    parts = [values] if values.dtype.names is None else [values[n] for n in values.dtype.names]
    return [part.view(f"u{part.dtype.itemsize}") for part in parts]


def _among(buckets: Indexes, rows: Indexes, others: Indexes, bits: int) -> Indexes:
    """The rows that share a bucket with one of the others."""
    if not len(others):
        return others
    marks = np.zeros(1 << bits, np.bool_)
    marks[buckets[others]] = True
    return rows[marks[buckets[rows]]]


def _cheap(columns: Sequence[Column], types: Sequence[ColumnType]) -> list[int]:
    """Positions of the columns whose values need not be read to be hashed."""
    pairs = enumerate(zip(columns, types, strict=True))
    return [i for i, (c, t) in pairs if t.dtype is not None or isinstance(c, DictionaryColumn)]


def _consolidate_small(zset: ZSet, rows: list[tuple[object, ...]]) -> ZSet:
    weights = zset.weights.tolist()
    if len(set(rows)) == len(rows) and 0 not in weights:
        return zset
    at: dict[tuple[object, ...], int] = {}
    for i, row in enumerate(rows):
        leader = at.setdefault(row, i)
        if leader != i:
            weights[leader] += weights[i]
            weights[i] = 0
    live = [i for i, weight in enumerate(weights) if weight]
    return ZSet(zset.take(np.array(live, np.int64)).columns, np.array(weights, np.int64)[live])


def distinct_rows(columns: Sequence[Column], types: Sequence[ColumnType]) -> Groups:
    """Groups of exactly equal rows."""
    tuples = row_tuples(columns, types, False)
    if tuples is not None:
        return _group_small(tuples)
    if _has_digits(columns, types):
        return group(columns, types)
    some = _cheap(columns, types)
    if not some or len(some) == len(types):
        return _by_row_hash(columns, types)
    groups = number_exact(row_codes([columns[i] for i in some], [types[i] for i in some]))
    return _refined(groups, columns, types)


def _has_digits(columns: Sequence[Column], types: Sequence[ColumnType]) -> bool:
    """Returns whether `group` finds exactly equal rows, and sooner than by hashes of the rows."""
    if len(columns) == 1 and types[0].is_ordered_word:
        return not types[0].is_float
    return len(columns) <= _LABELLED and all(isinstance(c, DictionaryColumn) for c in columns)


def _refined(groups: Groups, columns: Sequence[Column], types: Sequence[ColumnType]) -> Groups:
    """Groups by whole rows, given coarser ones by some columns: most rows are alone already."""
    first, inverse = groups
    shared = np.bincount(inverse, minlength=len(first)) > 1
    rows = np.flatnonzero(shared[inverse])
    if len(rows) == 0:
        return groups
    if len(rows) == len(inverse):
        return _by_row_hash(columns, types)
    part = _by_row_hash([c.take(rows) for c in columns], types)
    alone = np.flatnonzero(~shared)
    numbers = np.empty(len(first), np.int64)
    numbers[alone] = np.arange(len(alone))
    result = numbers[inverse]
    result[rows] = part.inverse + len(alone)
    return Groups(np.concatenate((first[alone], rows[part.first])), result)


def _by_row_hash(columns: Sequence[Column], types: Sequence[ColumnType]) -> Groups:
    def same(a: Indexes, b: Indexes) -> Mask:
        return same_row(columns, a, columns, b, types)

    return number_hashed(row_codes(columns, types), same)


def all_distinct(columns: Sequence[Column], types: Sequence[ColumnType]) -> bool:
    """Returns whether no two rows are equal under SQL's grouping equality."""
    few = len(columns[0]) <= thresholds.TUPLE_ROWS
    if few or not is_exact(types) or columns[0].valid is not None:
        return len(group(columns, types).first) == len(columns[0])
    return not has_repeats(key_codes(columns, types).codes)


def group(columns: Sequence[Column], types: Sequence[ColumnType]) -> Groups:
    """Groups of rows equal under SQL's grouping equality (NULL = NULL).

    Args:
        columns: at least one, of equal length.
        types: their types.

    Returns:
        Numbers that depend on the rows and their order alone.
    """
    tuples = row_tuples(columns, types, True)
    if tuples is not None:
        return _group_small(tuples)
    codes, limit = _digits(columns[0], types[0])
    for column, type in zip(columns[1:], types[1:], strict=True):
        digits, base = _digits(column, type)
        if limit * base >= _DIGITS_LIMIT:
            codes, limit = _dense(codes)
        if limit * base >= _DIGITS_LIMIT:
            digits, base = _dense(digits)
        codes = codes * base + digits
        limit *= base
    return number_exact(codes, limit)


def _group_small(rows: list[tuple[object, ...]]) -> Groups:
    numbers: dict[tuple[object, ...], int] = {}
    inverse = [numbers.setdefault(row, len(numbers)) for row in rows]
    first = [inverse.index(i) for i in range(len(numbers))]
    return Groups(np.array(first, np.int64), np.array(inverse, np.int64))


def _digits(column: Column, type: ColumnType) -> tuple[npt.NDArray[np.int64], int]:
    """Numbers that are equal for equal values only, and a limit above all of them."""
    if isinstance(column, DictionaryColumn):
        return column.codes.astype(np.int64), int(column.codes.max(initial=0)) + 1
    if isinstance(column, ArrowColumn) and type.is_bytes:
        return _labels(column.array)
    keys = key_codes([column], [type])
    if not keys.exact:

        def same(a: Indexes, b: Indexes) -> Mask:
            return same_key([column], a, [column], b, [type])

        groups = number_hashed(keys.codes, same)
        return groups.inverse, len(groups.first)
    codes = keys.codes
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if high - low >= _DIGITS_LIMIT:
        codes, base = _dense(codes)
    else:
        codes, base = codes - low, high - low + 1
    if keys.null is not None:
        codes = np.where(keys.null, base, codes)
        base += 1
    return codes, base


def _labels(array: pa.Array) -> tuple[npt.NDArray[np.int64], int]:
    encoded = array.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _dense(codes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    first, inverse = number_exact(codes)
    return inverse, len(first)

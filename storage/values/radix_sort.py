"""Sorting integers by their digits: numpy sorts 16-bit numbers by counting, ten times as fast.

Law: `order_of(a, b, …)` is the stable order of the rows by a, then b, and so on: the least digit of
the last key is sorted first, and each pass keeps the order of the passes before it among equals.
Very many rows are first dealt to buckets by their highest bits: then only the order itself is as
long as the rows, and each bucket fits the cache. Rows that come in a few ascending pieces are
merged instead, and of rows that come twice over one half is sorted: so an update comes, its old
rows and then its new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import Indexes

_BITS = 16
_MANY = 1 << 21  # rows from which they are dealt to buckets
_BUCKET_BITS = 12
_DEALT = 1 << 18  # rows dealt at a time
_PIECES = 8  # ascending pieces up to which rows are merged


def order_of(*keys: npt.NDArray[Any]) -> Indexes:
    """The stable order of rows by integer keys.

    Args:
        keys: at least one, of equal length; the first is the most significant.
    """
    count = len(keys[0])
    if count < thresholds.RADIX_ROWS:
        return np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    if len(keys) > 1:
        return _order_by_digits(keys)
    (key,) = keys
    if np.count_nonzero(key[1:] < key[:-1]) < _PIECES:
        return np.argsort(key, kind="stable")  # which finds the pieces and merges them
    if count % 2 == 0 and key[0] == key[count // 2] and _repeats_itself(key):
        return _order_of_halves(key)
    return _order_by_buckets(key) if count >= _MANY else _order_by_digits(keys)


def _repeats_itself(key: npt.NDArray[Any]) -> bool:
    half = len(key) // 2
    return bool((key[:half] == key[half:]).all())


def _order_of_halves(key: npt.NDArray[Any]) -> Indexes:
    """The stable order by a key whose second half is the first one again: one half is sorted."""
    half = len(key) // 2
    once = order_of(key[:half])
    ordered, twice = key[once], np.concatenate([once, once + half])
    if bool((ordered[1:] != ordered[:-1]).all()):  # every value is there twice
        return twice.reshape(2, half).T.ravel()
    return twice[np.argsort(np.concatenate([ordered, ordered]), kind="stable")]  # merges two pieces


def _order_by_digits(keys: Sequence[npt.NDArray[Any]]) -> Indexes:
    order: Indexes | None = None
    for key in reversed(keys):
        words = _words(key, key.min())
        for shift in range(0, int(words.max()).bit_length(), _BITS):
            digits = (words >> np.uint64(shift)).astype(np.uint16)
            if order is None:
                order = np.argsort(digits, kind="stable")
            else:
                order = order[np.argsort(digits[order], kind="stable")]
    return np.arange(len(keys[0])) if order is None else order


def _order_by_buckets(key: npt.NDArray[Any]) -> Indexes:
    low, high = key.min(), key.max()
    bits = int(_words(np.array([high]), low)[0]).bit_length()
    shift = np.uint64(max(bits - _BUCKET_BITS, 0))

    def buckets() -> Iterator[tuple[int, npt.NDArray[np.uint16]]]:
        for start in range(0, len(key), _DEALT):
            words = _words(key[start : start + _DEALT], low)
            yield start, (words >> shift).astype(np.uint16)

    counts = np.zeros(1 << _BUCKET_BITS, np.int64)
    for _, numbers in buckets():
        counts += np.bincount(numbers, minlength=len(counts))
    ends = np.cumsum(counts)
    free, order = ends - counts, np.empty(len(key), np.int64)
    for start, numbers in buckets():
        rows = np.argsort(numbers, kind="stable")
        mine = np.bincount(numbers, minlength=len(counts))
        # The i-th of these rows, less those of earlier buckets, is so far behind its bucket's end.
        order[np.repeat(free - np.cumsum(mine) + mine, mine) + np.arange(len(rows))] = start + rows
        free += mine
    if shift:
        for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
            if end - start > 1:
                rows = order[start:end]
                order[start:end] = rows[_order_of_few(key[rows])]
    return order


def _order_of_few(key: npt.NDArray[Any]) -> Indexes:
    """The stable order by one key, without buckets."""
    if len(key) < thresholds.RADIX_ROWS:
        return np.argsort(key, kind="stable")
    return _order_by_digits((key,))


def _words(key: npt.NDArray[Any], low: Any) -> npt.NDArray[np.uint64]:
    """The distances from the least key, which sort as the keys do."""
    if key.dtype.itemsize == 8:
        return key.view(np.uint64) - low.view(np.uint64)  # type: ignore[no-any-return]
    return key.astype(np.uint64) - low.astype(np.uint64)  # type: ignore[no-any-return]

"""A 64-bit hash of rows, the same in every process and for 1 or 10⁷ rows.

Law: rows that are equal (exactly, or under SQL's grouping equality with `grouping=True`) have equal
hashes; the converse is checked by `equality`, never assumed. A byte string is read as little-endian
64-bit words w₀, w₁, … (zero padded) of which each is mixed with its position and summed, so long
strings need no loop: H = mix(len·K + Σⱼ mix(wⱼ + (j+1)·P)). A row is the polynomial Σᵢ hᵢ·Cⁿ⁻ⁱ⁻¹.
Nested values: a list is the sum of its elements' hashes mixed with their positions, a struct a row,
a map a list of structs, a union its tag and member, an ENUM the string of its label.

Law: `scatter` puts a word w into the bucket w·K mod 2⁶⁴ without its last `shift` bits, K being
2⁶⁴/φ made odd: equal words share a bucket, neighbours lie far apart. Source: Knuth, The Art of
Computer Programming 3, §6.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.storage.values import dictionary, thresholds
from ivm.storage.values.canonical import canonical_values, word_bits
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Indexes,
)
from ivm.storage.values.nested import (
    ByteParts,
    FixedParts,
    ListParts,
    Parts,
    StructParts,
    UnionParts,
    parts,
)
from ivm.storage.values.types import ColumnType

Hashes: TypeAlias = npt.NDArray[np.uint64]

MULTIPLIER = 0x9E3779B97F4A7C15
"""K."""

_MASK = (1 << 64) - 1
_K2 = 0xD6E8FEB86659FD93
_POSITION, _LENGTH, _COMBINE = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3
_NULL = 0x589965CC75374CC3
_U1, _U2 = np.uint64(MULTIPLIER), np.uint64(_K2)
_S32, _S29 = np.uint64(32), np.uint64(29)

_MEMO_LIMIT = 1 << 16
_MEMO_LENGTH = 256
_CHUNK = 1 << 15  # rows hashed at a time, so that the passes stay in the cache
_LOOP_WORDS = 8  # words of a string hashed one pass each; the rest all at once

_memo: dict[str | bytes, int] = {}


def scatter(words: Hashes, shift: np.uint64) -> Indexes:
    """The bucket of each word, below 2 to the (64 − shift)."""
    return ((words * _U1) >> shift).view(np.int64)


def scatter_one(word: int, shift: int) -> int:
    """The bucket of one word, the same as of `scatter`."""
    return ((word * MULTIPLIER) & _MASK) >> shift


def hash_rows(
    columns: Sequence[Column], types: Sequence[ColumnType], grouping: bool
) -> npt.NDArray[np.int64]:
    """Hashes of the rows.

    Args:
        columns: at least one, of equal length.
        types: the columns' types.
        grouping: equal under SQL's grouping equality ⇒ equal hash; else exact equality.

    Returns:
        int64[n].
    """
    count = len(columns[0])
    if count <= thresholds.HASHED_ROWS:
        return _hash_small(columns, types, grouping, count)
    total = hash_column(columns[0], types[0], grouping)
    for column, type in zip(columns[1:], types[1:], strict=True):
        total *= np.uint64(_COMBINE)
        total += hash_column(column, type, grouping)
    return total.view(np.int64)


def hash_column(column: Column, type: ColumnType, grouping: bool) -> Hashes:
    """Hashes of one column's values, NULL among them (uint64[n], fresh)."""
    if isinstance(column, FixedColumn):
        values = canonical_values(column.values, type) if grouping else column.values
        return _hide_nulls(_hash_fixed(values), column.valid)
    if isinstance(column, DictionaryColumn):
        return dictionary_hashes()[column.codes]
    if type.is_bytes and len(column) <= thresholds.HASHED_STRINGS:
        return np.array([_hash_object(s) for s in column.array.to_pylist()], np.uint64)
    return _hash_parts(parts(column.array), grouping)


_dictionary_hashes: Hashes = np.zeros(0, np.uint64)


def dictionary_hashes() -> Hashes:
    """The hash of every encoded string by its number; the same that it has in any column."""
    global _dictionary_hashes
    hashes = _dictionary_hashes
    if len(hashes) < dictionary.count():
        new = _hash_parts(parts(dictionary.texts().slice(len(hashes))), True)
        hashes = _dictionary_hashes = np.concatenate((hashes, new))
    return hashes


def _hash_small(
    columns: Sequence[Column], types: Sequence[ColumnType], grouping: bool, count: int
) -> npt.NDArray[np.int64]:
    totals = [0] * count
    for column, type in zip(columns, types, strict=True):
        hashes = _small_hashes(column, type, grouping)
        totals = [(t * _COMBINE + h) & _MASK for t, h in zip(totals, hashes, strict=True)]
    return np.array(totals, np.uint64).view(np.int64)


def _small_hashes(column: Column, type: ColumnType, grouping: bool) -> list[int]:
    if isinstance(column, DictionaryColumn):
        return _listed(dictionary_hashes()[column.codes])
    if isinstance(column, ArrowColumn):
        if type.is_bytes:
            return [_hash_object(s) for s in column.array.to_pylist()]
        return _listed(hash_column(column, type, grouping))
    if not type.is_word:
        return _listed(hash_column(column, type, grouping))
    hashes = [_mix_int(v & _MASK) for v in word_bits(column.values, grouping)]
    if column.valid is None:
        return hashes
    return [h if ok else _NULL for h, ok in zip(hashes, column.valid.tolist(), strict=True)]


def _listed(hashes: Hashes) -> list[int]:
    return hashes.tolist()  # type: ignore[no-any-return]


def _mix(words: Hashes) -> Hashes:
    """Scatters the bits of each word, in place."""
    words *= _U1
    words ^= words >> _S32
    words *= _U2
    words ^= words >> _S29
    return words


def _mix_int(word: int) -> int:
    word = (word * MULTIPLIER) & _MASK
    word ^= word >> 32
    word = (word * _K2) & _MASK
    return word ^ (word >> 29)


def _hide_nulls(hashes: Hashes, valid: npt.NDArray[np.bool_] | None) -> Hashes:
    if valid is not None:
        hashes[~valid] = _NULL
    return hashes


def _words(values: npt.NDArray[Any]) -> Hashes:
    """Values of up to 64 bits as words, signs extended (fresh)."""
    if values.dtype.kind == "f":
        values = values.view(f"i{values.dtype.itemsize}")
    return values.astype(np.int64).view(np.uint64)


def _hash_fixed(values: npt.NDArray[Any]) -> Hashes:
    if values.dtype.names is None:
        return _mix(_words(values))
    high = _mix(_words(values["hi"]))
    high += values["lo"]
    return _mix(high)


def _hash_parts(array: Parts, grouping: bool) -> Hashes:
    return _hide_nulls(_HASHES[array.__class__](array, grouping), array.valid)


def _hash_fixed_parts(array: FixedParts, grouping: bool) -> Hashes:
    return _hash_fixed(array.canonical() if grouping else array.values)


def _hash_struct(array: StructParts, grouping: bool) -> Hashes:
    total = np.zeros(array.count, np.uint64)
    for child in array.children:
        total *= np.uint64(_COMBINE)
        total += _hash_parts(child, grouping)
    return _mix(total)


def _hash_union(array: UnionParts, grouping: bool) -> Hashes:
    total = np.zeros(array.count, np.uint64)
    for tag, child in zip(array.codes, array.children, strict=True):
        rows = np.flatnonzero(array.tags == tag)
        total[rows] = _hash_parts(child.take(rows), grouping) + np.uint64(tag)
    return _mix(total)


def _hash_list(array: ListParts, grouping: bool) -> Hashes:
    _, positions, elements = array.expand()
    hashes = _hash_parts(array.child.take(elements), grouping)
    hashes += (positions + 1).view(np.uint64) * np.uint64(_POSITION)
    total = array.lengths.view(np.uint64) * np.uint64(_LENGTH)
    total += _sum_by(_mix(hashes), array.lengths)
    return _mix(total)


def _sum_by(hashes: Hashes, lengths: npt.NDArray[np.int64]) -> Hashes:
    """Sums modulo 2⁶⁴ of consecutive segments of the given lengths."""
    sums = np.zeros(len(hashes) + 1, np.uint64)
    np.cumsum(hashes, out=sums[1:])
    ends = np.cumsum(lengths)
    return sums[ends] - sums[ends - lengths]  # type: ignore[no-any-return]


def _hash_bytes(array: ByteParts, grouping: bool) -> Hashes:
    hashes = np.empty(array.count, np.uint64)
    data = _padded(array.data)
    for start in range(0, array.count, _CHUNK):
        part = slice(start, start + _CHUNK)
        hashes[part] = _hash_strings(data, array.starts[part], array.lengths[part])
    return hashes


def _padded(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return data if len(data) >= 8 else np.concatenate((data, np.zeros(8, np.uint8)))


def _hash_strings(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    total = lengths.astype(np.uint64) * np.uint64(_LENGTH)
    longest = int(lengths.max(initial=0))
    for j in range(min(-(-longest // 8), _LOOP_WORDS)):
        rest = lengths - 8 * j
        if int(lengths.min()) > 8 * j:
            total += _word_hashes(data, starts + 8 * j, rest, j)
            continue
        rows = np.flatnonzero(rest > 0)
        total[rows] += _word_hashes(data, starts[rows] + 8 * j, rest[rows], j)
    if longest > 8 * _LOOP_WORDS:
        total += _long_hashes(data, starts, lengths)
    return _mix(total)


def _word_hashes(
    data: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    rest: npt.NDArray[np.int64],
    position: int | npt.NDArray[np.int64],
) -> Hashes:
    """The mixed words at the byte offsets `at`, of which the first `rest` (≥ 1) bytes count."""
    last = len(data) - 8
    words = np.ndarray((last + 1,), "<u8", data, strides=(1,))  # one at every byte
    begin = np.minimum(at, last)
    word = words[begin].astype(np.uint64)
    word >>= ((at - begin) << 3).view(np.uint64)
    short = np.minimum(rest, 8)
    word &= np.uint64(_MASK) >> ((8 - short) << 3).view(np.uint64)
    word += np.asarray(np.asarray(position) + 1).astype(np.uint64) * np.uint64(_POSITION)
    return _mix(word)


def _long_hashes(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    """Sums of the words after the first `_LOOP_WORDS` of each string."""
    counts = np.maximum(-(-lengths // 8) - _LOOP_WORDS, 0)
    ends = np.cumsum(counts)
    rows = np.repeat(np.arange(len(counts)), counts)
    positions = np.arange(len(rows)) - (ends - counts)[rows] + _LOOP_WORDS
    rest = lengths[rows] - 8 * positions
    return _sum_by(_word_hashes(data, starts[rows] + 8 * positions, rest, positions), counts)


def _hash_object(value: str | bytes | None) -> int:
    """The hash of one string, remembered when it is short."""
    if value is None:
        return _NULL
    known = _memo.get(value)
    if known is not None:
        return known
    text = value.encode() if isinstance(value, str) else value
    if len(text) > _MEMO_LENGTH:
        data = _padded(np.frombuffer(text, np.uint8))
        return int(_hash_strings(data, np.zeros(1, np.int64), np.array([len(text)]))[0])
    if len(_memo) >= _MEMO_LIMIT:
        _memo.clear()
    _memo[value] = known = _hash_text(text)
    return known


def _hash_text(text: bytes) -> int:
    total = len(text) * _LENGTH
    for j in range(0, len(text), 8):
        word = int.from_bytes(text[j : j + 8], "little")
        total += _mix_int((word + (j // 8 + 1) * _POSITION) & _MASK)
    return _mix_int(total & _MASK)


_HASHES: dict[type, Callable[[Any, bool], Hashes]] = {
    FixedParts: _hash_fixed_parts,
    ByteParts: _hash_bytes,
    ListParts: _hash_list,
    StructParts: _hash_struct,
    UnionParts: _hash_union,
}

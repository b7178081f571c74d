"""Dictionary encoding: repeated strings as numbers of one table for the whole process.

Invariant: a number stands for one string for as long as the process lives, in every column, so two
encoded columns are compared, hashed and gathered by their numbers alone. The table only grows, and
only up to `_MOST`; columns of ever new strings are not encoded. Number 0 is NULL.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.values import thresholds

DictionaryCodes = npt.NDArray[np.int32]

_MOST = 1 << 18
_LONGEST = 64  # characters of an encoded string
_SAMPLE = 1024

_lock = threading.Lock()
_numbers: dict[str | None, int] = {None: 0}
_texts: list[str | None] = [None]
_array: pa.Array = pa.nulls(1, pa.large_string())


def count() -> int:
    """The count of numbers given so far, that of NULL included."""
    return len(_texts)


def number(text: str) -> int:
    """The number of a string, −1 if it has none."""
    return _numbers.get(text, -1)


def texts() -> pa.Array:
    """The string of every number (large_string)."""
    global _array
    array = _array
    if len(array) < len(_texts):
        with _lock:
            new = pa.array(_texts[len(_array) :], pa.large_string())
            array = _array = pa.concat_arrays([_array, new])
    return array


def words(codes: DictionaryCodes) -> list[str | None]:
    """The strings of a few numbers."""
    return [_texts[code] for code in codes.tolist()]


def decode(codes: DictionaryCodes) -> pa.Array:
    """The strings of numbers (large_string)."""
    if len(codes) <= thresholds.LABELLED_ROWS:
        return pa.array(words(codes), pa.large_string())
    return texts().take(pa.array(codes))


def distinct(codes: DictionaryCodes) -> tuple[DictionaryCodes, npt.NDArray[np.intp]]:
    """The different numbers among some, ascending, and where in these each of them stands."""
    seen = np.zeros(len(_texts), np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen).astype(np.int32), (np.cumsum(seen) - 1)[codes]


def encode(array: pa.Array, *, force: bool = False) -> DictionaryCodes | None:
    """The numbers of strings, or None if encoding does not pay.

    Few rows are encoded only if all their strings have numbers already; strings of many rows get
    new numbers if they repeat often enough.

    Args:
        array: large_string[n].
        force: give new numbers to few rows as well, because they join an encoded column.
    """
    if len(array) <= thresholds.LABELLED_ROWS:
        few = known(array.to_pylist())
        if few is not None or not force:
            return few
    if not force and not _repeats(array):
        return None
    encoded = array.dictionary_encode(null_encoding="encode")
    texts = encoded.dictionary.to_pylist()
    if not force and len(texts) > len(array) // 4:
        return None
    numbers = _give(texts)
    return None if numbers is None else numbers[encoded.indices.to_numpy()]


def known(texts: Sequence[str | None]) -> DictionaryCodes | None:
    """The numbers of a few strings, None if one of them has none."""
    codes = [_numbers.get(text, -1) for text in texts]
    return None if -1 in codes else np.array(codes, np.int32)


def _repeats(array: pa.Array) -> bool:
    if len(array) < _SAMPLE:
        return True
    sample = array.slice(0, _SAMPLE).dictionary_encode(null_encoding="encode")
    return len(sample.dictionary) <= _SAMPLE // 4


def _give(texts: list[str | None]) -> DictionaryCodes | None:
    """Numbers of distinct strings, new ones where needed; None if they are too long or too many."""
    new = [text for text in texts if text not in _numbers]
    if new:
        with _lock:
            if len(_texts) + len(new) > _MOST or max(len(t or "") for t in new) > _LONGEST:
                return None
            for text in new:
                if text not in _numbers:
                    _texts.append(text)
                    _numbers[text] = len(_texts) - 1
    return np.array([_numbers[text] for text in texts], np.int32)

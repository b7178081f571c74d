"""Sorting integers by their digits: numpy sorts 16-bit numbers by counting, ten times as fast.

Law: `order_of(a, b, …)` is the stable order of the rows by a, then b, and so on: the least digit of
the last key is sorted first, and each pass keeps the order of the passes before it among equals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import Indexes

_BITS = 16


def order_of(*keys: npt.NDArray[Any]) -> Indexes:
    """The stable order of rows by integer keys.

    Args:
        keys: at least one, of equal length; the first is the most significant.
    """
    if len(keys[0]) < thresholds.RADIX_ROWS:
        return np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    order: Indexes | None = None
    for key in reversed(keys):
        words = _words(key)
        for shift in range(0, int(words.max()).bit_length(), _BITS):
            digits = (words >> np.uint64(shift)).astype(np.uint16)
            if order is None:
                order = np.argsort(digits, kind="stable")
            else:
                order = order[np.argsort(digits[order], kind="stable")]
    return np.arange(len(keys[0])) if order is None else order


def _words(key: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """The distances from the least key, which sort as the keys do."""
    low = key.min()
    if key.dtype.itemsize == 8:
        return key.view(np.uint64) - low.view(np.uint64)  # type: ignore[no-any-return]
    return key.astype(np.uint64) - low.astype(np.uint64)  # type: ignore[no-any-return]

"""Scattering by multiplication: equal words share a bucket, neighbours lie far apart.

Law: a word w goes to the bucket w·K mod 2⁶⁴ without its last `shift` bits, K being 2⁶⁴/φ made odd;
`scatter` and `scatter_one` agree. Source: Knuth, The Art of Computer Programming 3, §6.4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import Indexes

MULTIPLIER = 0x9E3779B97F4A7C15
"""K."""

_MULTIPLIER = np.uint64(MULTIPLIER)
_WORD = (1 << 64) - 1


def scatter(words: npt.NDArray[np.uint64], shift: np.uint64) -> Indexes:
    """The bucket of each word, below 2 to the (64 − shift)."""
    return ((words * _MULTIPLIER) >> shift).view(np.int64)


def scatter_one(word: int, shift: int) -> int:
    """The bucket of one word."""
    return ((word * MULTIPLIER) & _WORD) >> shift

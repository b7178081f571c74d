"""A Bloom filter over the codes in an arrangement's short runs, most of which hold no given key.

Law: every code that was added is among the suspects; any other code is one by chance only. A
filter only grows, so the versions of an arrangement share it: for an older one it suspects more.
After Bloom, CACM 1970, with one hash function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ivm.storage.arrangement.bucket_index import words
from ivm.storage.arrangement.run import Run
from ivm.storage.values import thresholds
from ivm.storage.values.column import AnyCodes, Indexes
from ivm.storage.values.hashing import scatter

_SPARE = 8  # buckets a code, beside the first ones, when a filter is made
_FIRST = 1 << 17
_FULL = 4  # buckets a code below which the filter is given up


class Bloom:
    """A Bloom filter: the buckets that codes are hashed to."""

    __slots__ = ("_marks", "_room", "_shift")

    def __init__(self, parts: Sequence[AnyCodes]) -> None:
        count = sum([len(codes) for codes in parts])
        bits = (_FIRST + _SPARE * count).bit_length()
        self._shift = np.uint64(64 - bits)
        self._marks = np.zeros(1 << bits, np.bool_)
        self._room = (1 << bits) // _FULL
        for codes in parts:
            self.add(codes)

    def has_room(self, count: int) -> bool:
        """Returns whether the filter stays selective with so many more codes."""
        return count <= self._room

    def add(self, codes: AnyCodes) -> None:
        """Adds codes."""
        self._marks[self._buckets(codes)] = True
        self._room -= len(codes)

    def suspects(self, probes: AnyCodes) -> Indexes:
        """The positions of the probes that may have been added, ascending."""
        return self._marks[self._buckets(probes)].nonzero()[0]

    def _buckets(self, codes: AnyCodes) -> Indexes:
        return scatter(words(codes), self._shift)


class BloomProbe(NamedTuple):
    """A run, the probes it may hold, and their numbers (None: all, as they stand)."""

    run: Run
    probes: AnyCodes
    numbers: Indexes | None


def asked(runs: Sequence[Run], probes: AnyCodes, bloom: Bloom | None) -> Iterator[BloomProbe]:
    """The runs that may hold some of the probes, newest first.

    Args:
        runs: oldest first.
        probes: codes in any order.
        bloom: holds the codes of the short runs at least.
    """
    if not len(probes):
        return
    low, high = probes.min(), probes.max()
    near = [run for run in runs if high >= run.codes[0] and low <= run.codes[-1]]
    suspects = rest = None
    many = len(probes) >= thresholds.FILTERED_KEYS
    if bloom is not None and many and sum([run.short for run in near]) > 1:
        suspects = bloom.suspects(probes)
        rest = probes[suspects]
    for run in reversed(near):
        if rest is None or not run.short:
            yield BloomProbe(run, probes, None)
        elif len(rest):
            yield BloomProbe(run, rest, suspects)


def grown(bloom: Bloom | None, runs: Sequence[Run], new: Run) -> Bloom | None:
    """The filter of the short ones among the runs and a new one.

    There is none before many rows come at once, because only large deltas search many keys.

    Args:
        bloom: of `runs`.
        runs: all of the arrangement.
        new: not yet among them.
    """
    if bloom is not None and bloom.has_room(len(new)):
        if new.short:
            bloom.add(new.codes)
        return bloom
    if bloom is None and len(new) < thresholds.FILTERED_KEYS:
        return None
    return Bloom([run.codes for run in (*runs, new) if run.short])

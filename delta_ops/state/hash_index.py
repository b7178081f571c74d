"""A hash index from 64-bit key codes to dense slots, in numpy arrays alone.

Law: a slot is found if and only if it was inserted with that code and `same` confirms the key, so
codes may collide. Linear probing, load ≤ 1/2; an entry costs 8 bytes and 8–32 more for the table.
All work is done for whole batches, round by round: a round ends every probe that finds its slot or
an empty entry, and the rest move one entry on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import Indexes, Mask
from ivm.storage.values.hashing import scatter, scatter_one

Same: TypeAlias = Callable[[Indexes, Indexes], Mask]
"""(probe numbers, slots) → whether the probe's key is the slot's key."""

_FIRST_BITS = 7
_LARGE = 1 << 20
_FIRST = np.zeros(1, np.int64)


class HashIndex:
    """Codes to slots 0, 1, 2, …; slots are given by the caller."""

    __slots__ = ("_bits", "_codes", "_count", "_mask", "_shift", "_table")

    def __init__(self) -> None:
        self._count = 0
        self._codes: Indexes = np.zeros(1 << _FIRST_BITS, np.int64)
        self._allocate(_FIRST_BITS)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._table.nbytes

    def _allocate(self, bits: int) -> None:
        self._bits = bits
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._table: npt.NDArray[np.int32] = np.full(1 << bits, -1, np.int32)

    def _home(self, codes: Indexes) -> Indexes:
        return scatter(codes.view(np.uint64), self._shift)

    def find(self, codes: Indexes, same: Same | None) -> Indexes:
        """The slot of each code, −1 where there is none.

        Args:
            codes: int64[n], contiguous.
            same: confirms a match on the real key; None where the code is the key.
        """
        bucket = self._home(codes)
        slots = self._walk(codes, bucket)
        if same is None:
            return slots
        wrong = self._refuted(slots, None, same)
        while len(wrong):  # another key with the same code: walk on
            further = (bucket[wrong] + 1) & self._mask
            slots[wrong] = self._walk(codes[wrong], further)
            bucket[wrong] = further
            wrong = self._refuted(slots, wrong, same)
        return slots

    def find_one(self, code: int, same: Same | None) -> int:
        """The slot of one code, −1 if there is none; see `find`."""
        bucket = scatter_one(code, 64 - self._bits)
        table, known = self._table, self._codes
        slot = table.item(bucket)
        while slot >= 0 and (known.item(slot) != code or not _is_same(same, slot)):
            bucket = (bucket + 1) & self._mask
            slot = table.item(bucket)
        return slot

    def _walk(self, codes: Indexes, bucket: Indexes) -> Indexes:
        """The first slot with each code from `bucket` on (which is moved to where it stands)."""
        table, known = self._table, self._codes
        slots = table[bucket].astype(np.int64)
        wrong = ((known[slots] != codes) & (slots >= 0)).nonzero()[0]
        while len(wrong):
            further = (bucket[wrong] + 1) & self._mask
            found = table[further].astype(np.int64)
            bucket[wrong], slots[wrong] = further, found
            wrong = wrong[(known[found] != codes[wrong]) & (found >= 0)]
        return slots

    @staticmethod
    def _refuted(slots: Indexes, among: Indexes | None, same: Same) -> Indexes:
        """Probes (of `among`) whose slot is of another key."""
        found = slots >= 0
        among = found.nonzero()[0] if among is None else among[found[among]]
        return among[~same(among, slots[among])] if len(among) else among

    def insert(self, codes: Indexes, slots: Indexes) -> None:
        """Adds entries that `find` did not find, all of distinct keys and slots."""
        self._reserve(self._count + len(codes), int(slots.max()) + 1)
        self._codes[slots] = codes
        self._count += len(codes)
        self._bucket(codes, slots)

    def insert_one(self, code: int, slot: int) -> None:
        """Adds one entry that `find_one` did not find."""
        self._reserve(self._count + 1, slot + 1)
        self._codes[slot] = code
        self._count += 1
        bucket, table = scatter_one(code, 64 - self._bits), self._table
        while table.item(bucket) >= 0:
            bucket = (bucket + 1) & self._mask
        table[bucket] = slot

    def _bucket(self, codes: Indexes, slots: Indexes) -> None:
        bucket, table = self._home(codes), self._table
        waiting = slots.astype(np.int32)
        while len(waiting):
            free = np.flatnonzero(table[bucket] < 0)
            table[bucket[free]] = waiting[free]  # of several for one bucket the last stays
            lost = np.flatnonzero(table[bucket] != waiting)
            waiting, bucket = waiting[lost], (bucket[lost] + 1) & self._mask

    def _reserve(self, count: int, slots: int) -> None:
        if slots > len(self._codes):
            grown = np.zeros(max(slots, 2 * len(self._codes)), np.int64)
            grown[: len(self._codes)] = self._codes
            self._codes = grown
        if 2 * count > self._mask + 1:
            live = self._table[self._table >= 0].astype(np.int64)
            self._allocate(_bits_for(count))
            self._bucket(self._codes[live], live)

    def keep(self, slots: Indexes) -> None:
        """Drops every entry but those of the given slots."""
        self._count = len(slots)
        self._allocate(_bits_for(self._count))
        self._bucket(self._codes[slots], slots)


def _is_same(same: Same | None, slot: int) -> bool:
    return same is None or bool(same(_FIRST, np.array([slot]))[0])


def _bits_for(count: int) -> int:
    """The log of the table's size: a load of 1/4 to 1/2, of 1/8 to 1/4 where that costs little."""
    spare = 1 if count > _LARGE else 2
    return max(count.bit_length() + spare, _FIRST_BITS)

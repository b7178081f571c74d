"""A table from group keys to dense slots with int64 accumulators, written in two stages.

Law: a slot's accumulators are linear in the rows seen, lane 0 being the group's net row count; a
group is dead at 0 and then all its lanes are 0. Finding or making slots is not undone by a
rollback, since a group that nothing was added to is dead; dead slots are reused when the table
would grow. Within one step `locate` is called once, before anything is staged.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ivm.delta_ops.state.hash_index import HashIndex, Same
from ivm.delta_ops.state.key_store import KeyStore
from ivm.storage.values import consolidate, key_codes
from ivm.storage.values.canonical import row_tuples
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.equality import repeats_itself
from ivm.storage.values.key_codes import is_exact
from ivm.storage.values.types import ColumnType

_FIRST_CAPACITY = 32
_MEMO_ROWS = 4096
_SELDOM = 4  # groups per row of a batch, above which few of its rows share one
_NARROW = 4  # lanes up to which numpy writes them faster one by one
_ZERO = np.zeros(1, np.int64)


class GroupTable:
    """The group keys of `types`, and `width` lanes for each.

    Args:
        types: of the key columns; none means one group, slot 0.
        width: lanes to begin with; `add_lane` appends.
        exact_rows: keys are distinguished by their representation, not by grouping equality.
    """

    def __init__(
        self, types: Sequence[ColumnType], width: int = 1, *, exact_rows: bool = False
    ) -> None:
        self._types = tuple(types)
        self._exact_rows = exact_rows
        self._index = HashIndex()
        self._store = KeyStore(self._types)
        self._lanes = np.zeros((_FIRST_CAPACITY, width), np.int64)
        self._scratch = np.zeros(_FIRST_CAPACITY, np.int64)
        self._used = 0 if self._types else 1
        self._free = np.zeros(0, np.int64)
        self._verifies = False
        self._memo: dict[tuple[bool, ...], dict[tuple[Hashable, ...], int]] = {}
        self._staged: tuple[Indexes, Indexes] | None = None

    @property
    def width(self) -> int:
        return self._lanes.shape[1]

    @property
    def capacity(self) -> int:
        """One more than the greatest slot there may be."""
        return len(self._lanes)

    @property
    def nbytes(self) -> int:
        used = self._used * (self.width * 8 + 8)
        return self._index.nbytes + self._store.nbytes + used

    def live(self) -> Indexes:
        """Slots of the groups that have rows."""
        return np.flatnonzero(self._lanes[: self._used, 0])

    # Slots

    def locate(self, columns: Sequence[Column], count: int) -> tuple[Indexes, Indexes]:
        """The slots of the rows' groups, made where there are none yet.

        Args:
            columns: the key columns, `count` rows.

        Returns:
            (touched, groups): the distinct slots, and each row's position among them.
        """
        if not self._types:
            return np.zeros(1, np.int64), np.zeros(count, np.int64)
        rows = row_tuples(columns, self._types, not self._exact_rows)
        if rows is not None:
            return self._locate_few(columns, rows)
        if repeats_itself(columns, self._types):
            once = [column.slice(0, count // 2) for column in columns]
            touched, groups = self._locate_many(once, count // 2)
            return touched, np.concatenate([groups, groups])
        return self._locate_many(columns, count)

    def _locate_many(self, columns: Sequence[Column], count: int) -> tuple[Indexes, Indexes]:
        if self._exact_rows or is_exact(self._types) or self._used > _SELDOM * count:
            return self.distinct(self._find_or_make(columns))
        groups = consolidate.group(columns, self._types)
        if len(groups.first) < count:
            columns = [c.take(groups.first) for c in columns]
            return self._find_or_make(columns), groups.inverse
        return self._find_or_make(columns), np.arange(count)

    def _locate_few(
        self, columns: Sequence[Column], rows: list[tuple[Hashable, ...]]
    ) -> tuple[Indexes, Indexes]:
        """Locates few keys by a memo of recent ones."""
        shape = tuple([isinstance(c, FixedColumn) and c.valid is not None for c in columns])
        memo = self._memo.get(shape, {})
        slots = [memo.get(row, -1) for row in rows]
        if -1 in slots:
            slots = self._find_or_make(columns).tolist() if len(slots) > 1 else [self._one(columns)]
            if sum(map(len, self._memo.values())) > _MEMO_ROWS:
                self._memo.clear()
            self._memo.setdefault(shape, {}).update(zip(rows, slots, strict=True))
        if len(slots) == 1:
            return np.array(slots, np.int64), _ZERO
        return self.distinct(np.array(slots, np.int64))

    def _one(self, columns: Sequence[Column]) -> int:
        """The slot of a single row, made if it is new."""
        code = self._codes(columns).item()
        slot = self._index.find_one(code, self._verifier(columns))
        if slot >= 0:
            return slot
        if not len(self._free) and self._used == self.capacity:
            return self._find_or_make(columns).item()  # dead groups may have to go
        slots = self._allocate(1)
        slot = slots.item()
        self._store.put(slots, columns, self.capacity)
        self._index.insert_one(code, slot)
        return slot

    def find_one(self, columns: Sequence[Column]) -> int:
        """The slot of the group with a single key that is not NULL, −1 if it has no rows."""
        rows = row_tuples(columns, self._types, not self._exact_rows)
        memo = self._memo.get((False,) * len(columns), {})
        slot = -1 if rows is None else memo.get(rows[0], -1)
        if slot < 0:
            slot = self._index.find_one(self._codes(columns).item(), self._verifier(columns))
        return slot if slot >= 0 and self._lanes.item(slot, 0) else -1

    def _find_or_make(self, columns: Sequence[Column]) -> Indexes:
        codes = self._codes(columns)
        verify = self._verifier(columns)
        slots = self._index.find(codes, verify)
        missing = (slots < 0).nonzero()[0]
        if len(missing) and self._make_room(len(missing)):
            slots = self._index.find(codes, verify)  # dead groups that were found are missing now
            missing = (slots < 0).nonzero()[0]
            self._grow(self._used + len(missing) - len(self._free))
        while len(missing):
            self._make(columns, codes, missing)
            slots[missing] = self._find_new(codes, missing, verify)
            missing = missing[slots[missing] < 0]
        return slots

    def _verifier(self, columns: Sequence[Column]) -> Same | None:
        """Confirms that these keys are those of slots; None where their codes are the keys."""
        if not self._verifies:
            return None

        def same(probes: Indexes, slots: Indexes) -> Mask:
            equal = key_codes.same_row if self._exact_rows else key_codes.same_key
            stored = self._store.take(slots)
            return equal(columns, probes, stored, np.arange(len(slots)), self._types)

        return same

    def _codes(self, columns: Sequence[Column]) -> Indexes:
        """The keys' codes; once one is no exact image of its key, matches are verified."""
        if self._exact_rows:
            self._verifies = True
            return key_codes.row_codes(columns, self._types)
        codes = key_codes.key_codes(columns, self._types)
        if not codes.exact or codes.null is not None:
            self._verifies = True
        return codes.codes

    def _find_new(self, codes: Indexes, missing: Indexes, verify: Same | None) -> Indexes:
        if verify is None:
            return self._index.find(codes[missing], None)
        return self._index.find(codes[missing], lambda rows, slots: verify(missing[rows], slots))

    def _make(self, columns: Sequence[Column], codes: Indexes, missing: Indexes) -> None:
        """One new slot per distinct code (of colliding keys the others wait for another round)."""
        rows = missing[_firsts(codes[missing], self._nulls(columns, missing))]
        slots = self._allocate(len(rows))
        self._store.put(slots, [c.take(rows) for c in columns], self.capacity)
        self._index.insert(codes[rows], slots)

    def _nulls(self, columns: Sequence[Column], rows: Indexes) -> Mask | None:
        """The rows whose key is NULL, where that shares the exact code of another key."""
        valid = columns[0].valid if is_exact(self._types) else None
        return None if valid is None else ~valid[rows]

    def _allocate(self, count: int) -> Indexes:
        start = self._used
        if not len(self._free):
            self._used += count
            return np.arange(start, self._used)
        taken, self._free = self._free[:count], self._free[count:]
        self._used += count - len(taken)
        return np.concatenate([taken, np.arange(start, self._used)])

    def _make_room(self, count: int) -> bool:
        """Makes room for new groups; True if dead slots were removed from the index for it."""
        if self._used + count - len(self._free) <= self.capacity:
            return False
        live = self.live()
        reclaim = self._used - len(live) - len(self._free) > self._used // 4
        if reclaim:
            self._memo.clear()
            self._index.keep(live)
            self._store.compact(live)
            self._free = np.flatnonzero(self._lanes[: self._used, 0] == 0)
        self._grow(self._used + count - len(self._free))
        return reclaim

    def _grow(self, needed: int) -> None:
        if needed > self.capacity:
            lanes = np.zeros((max(needed, 2 * self.capacity), self.width), np.int64)
            lanes[: self.capacity] = self._lanes
            self._lanes = lanes
            self._scratch = np.zeros(self.capacity, np.int64)

    def reserve(self, count: int) -> None:
        """Makes room for so many groups at once: growing holds the lanes twice."""
        if self._types:
            self._grow(count)

    def keys(self, slots: Indexes) -> tuple[Column, ...]:
        """The key columns of the given slots."""
        return self._store.take(slots)

    def distinct(self, slots: Indexes) -> tuple[Indexes, Indexes]:
        """The distinct slots among those of a batch.

        Returns:
            (touched, inverse) with touched[inverse] = slots, in O(n) without sorting.
        """
        count = len(slots)
        numbers = np.arange(count)
        if count == 1:
            return slots, numbers
        scratch = self._scratch
        scratch[slots] = numbers
        touched = slots[scratch[slots] == numbers]
        if len(touched) == count:
            return slots, numbers
        scratch[touched] = numbers[: len(touched)]
        return touched, scratch[slots]

    # Lanes

    def add_lane(self) -> int:
        """One more lane, zero everywhere; its number."""
        zeros = np.zeros((len(self._lanes), 1), np.int64)
        self._lanes = np.concatenate([self._lanes, zeros], axis=1)
        return self.width - 1

    def read(self, slots: Indexes) -> Indexes:
        """The lanes of the given slots, int64[n, width], a copy."""
        return self._lanes.take(slots, axis=0)  # three times as fast as by an index

    def accumulate(self, lanes: int | Indexes, slots: Indexes, values: Indexes) -> None:
        """Adds values[i] to a lane (or lanes[i]) of slots[i] at once, past staging (hydration)."""
        if isinstance(lanes, int):
            np.add.at(self._lanes[:, lanes], slots, values)
        else:
            np.add.at(self._lanes.reshape(-1), slots * self.width + lanes, values)

    def stage(self, slots: Indexes, lanes: Indexes) -> None:
        """Stages these lanes (of distinct slots) for `commit`."""
        self._staged = (slots, lanes)

    def saved(self) -> tuple[object, ...]:
        """The groups and their lanes, as committed."""
        return self._index, self._store, self._lanes, self._used, self._free, self._verifies

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Takes what `saved` gave."""
        self._index, self._store, self._lanes, self._used, self._free, self._verifies = saved
        self._scratch = np.zeros(self.capacity, np.int64)
        self._memo.clear()

    def commit(self) -> None:
        if self._staged is not None:
            slots, lanes = self._staged
            if self.width > _NARROW or len(slots) == 1:
                self._lanes[slots] = lanes
            else:
                for lane, values in zip(self._lanes.T, lanes.T, strict=True):
                    lane[slots] = values
            self._staged = None

    def rollback(self) -> None:
        self._staged = None


def _firsts(codes: Indexes, nulls: Mask | None) -> Indexes:
    """The position of a row of each distinct code, in the order of the codes; NULL comes apart."""
    if nulls is None or not nulls.any():
        return np.unique(codes, return_index=True)[1]
    order = np.lexsort((nulls, codes))
    begins = np.ones(len(order), np.bool_)
    same = (codes[order][1:] == codes[order][:-1]) & (nulls[order][1:] == nulls[order][:-1])
    begins[1:] = ~same
    return order[begins]

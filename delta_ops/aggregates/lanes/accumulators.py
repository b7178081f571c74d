"""Accumulators: the int64 lanes of a group that add up over its rows.

Law: a row's contribution is its value (or its limbs) times its weight, so lanes are linear: they do
not depend on the order of changes, and a retraction subtracts exactly the sum that was added. The
lanes of an accumulator are fixed, except for floating point, where a lane is made when the first
value of its exponent comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.delta_ops.aggregates.lanes import float_sum
from ivm.delta_ops.aggregates.lanes.call import ArgumentRows
from ivm.delta_ops.aggregates.lanes.float_sum import Floats, Limbs, Objects
from ivm.storage.values import thresholds
from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.types import WIDE, ColumnType

AddLane: TypeAlias = Callable[[], int]
"""Appends a lane to the group table and gives its number."""

_LOW = 0xFFFFFFFF
_SPECIAL = ("nan", "inf", "-inf")
"""Values that are counted, not added up."""


class Contribution(NamedTuple):
    """Values to add: to one lane (an int), or value i to lanes[i]; row i is in groups[i]."""

    lanes: int | Indexes
    groups: Indexes
    values: Indexes


class Accumulator:
    """One linear quantity of an argument."""

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        raise NotImplementedError

    def labels(self) -> dict[int, int]:
        """Its lanes by their labels, which mean the same in every accumulator of the kind."""
        raise NotImplementedError

    def lane_of(self, label: int) -> int:
        """The lane of a label, made if it is not there yet."""
        return self.labels()[label]


class CountAccumulator(Accumulator):
    """Σ weight."""

    def __init__(self, add_lane: AddLane) -> None:
        self.lane = add_lane()

    def labels(self) -> dict[int, int]:
        return {0: self.lane}

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        return [Contribution(self.lane, rows.groups, rows.weights)]


class IntegerAccumulator(Accumulator):
    """Σ weight · value, exact, in one, two or four lanes of 32 bits by the type's width."""

    def __init__(self, type: ColumnType, add_lane: AddLane) -> None:
        self.lanes = [add_lane() for _ in range(_lanes_of(type))]

    def labels(self) -> dict[int, int]:
        return dict(enumerate(self.lanes))

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        assert isinstance(rows.values, FixedColumn)
        parts = _limbs(rows.values, len(self.lanes))
        pairs = zip(self.lanes, parts, strict=True)
        return [Contribution(lane, rows.groups, part * rows.weights) for lane, part in pairs]


def _lanes_of(type: ColumnType) -> int:
    if type.is_decimal:
        return 1 if type.precision <= 9 else 2 if type.precision <= 18 else 4
    assert type.dtype is not None
    return {1: 1, 2: 1, 4: 1, 8: 2, 16: 4}[type.dtype.itemsize]


def _limbs(column: FixedColumn, count: int) -> list[Indexes]:
    values = column.values
    if values.dtype == WIDE:
        lo, hi = values["lo"], values["hi"]
        words = ((lo & np.uint64(_LOW)), (lo >> np.uint64(32)))
        return [*[w.view(np.int64) for w in words], hi & _LOW, hi >> 32]
    if count == 1:
        return [values.astype(np.int64)]
    if values.dtype == np.uint64:
        low, high = values & np.uint64(_LOW), values >> np.uint64(32)
        return [low.view(np.int64), high.view(np.int64)]
    return [values & _LOW, values >> 32]


class FloatAccumulator(Accumulator):
    """Σ weight · value of doubles, exact; NaN, ∞ and −∞ are counted apart.

    Args:
        squares: sum the squares instead (in units of 2^−2148, not 2^−1074).
    """

    def __init__(self, add_lane: AddLane, *, squares: bool = False) -> None:
        self._add_lane = add_lane
        self._squares = squares
        self._numbers = np.full(160, -1, np.int64)  # lane of limb number; squares reach 134
        self._used: tuple[list[int], list[int]] = ([], [])
        self._special: dict[str, int] = {}

    def labels(self) -> dict[int, int]:
        special = {_SPECIAL.index(kind) - len(_SPECIAL): n for kind, n in self._special.items()}
        return dict(zip(*self._used, strict=True)) | special

    def lane_of(self, label: int) -> int:
        return self._lane(label) if label >= 0 else self._special_lane(_SPECIAL[label])

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        assert isinstance(rows.values, FixedColumn)
        values, weights, groups = rows.values.values, rows.weights, rows.groups
        values = values.astype(np.float64, copy=False)
        if len(values) <= thresholds.ADDED_ROWS and not self._squares:
            few = self._few(values.tolist(), weights.tolist(), groups.tolist())
            if few is not None:
                return few
        special: list[Contribution] = []
        finite = np.isfinite(values)
        if not finite.all():
            special = self._count_special(values, weights, groups)
        if special or not (values.all() and weights.all()):
            kept = np.flatnonzero((values != 0) & (weights != 0) & finite)
            values, weights, groups = values[kept], weights[kept], groups[kept]
        if not len(values):
            return special
        parts = float_sum.split_squares(values) if self._squares else [float_sum.split(values)]
        return special + [c for limbs in parts for c in self._of_limbs(limbs, weights, groups)]

    def _few(
        self, values: list[float], weights: list[int], groups: list[int]
    ) -> list[Contribution] | None:
        """The contributions of few rows, value by value; None if one of them is not finite."""
        lanes, owners, parts = [], [], []
        for value, weight, group in zip(values, weights, groups, strict=True):
            if value == 0 or weight == 0:
                continue
            if not math.isfinite(value):
                return None
            first, limbs = float_sum.limbs_of(value)
            for j, limb in enumerate(limbs):
                if limb:
                    lanes.append(self._lane(first + j))
                    owners.append(group)
                    parts.append(limb * weight)
        if not lanes:
            return []
        return [Contribution(np.array(lanes), np.array(owners), np.array(parts))]

    def _of_limbs(self, limbs: Limbs, weights: Indexes, groups: Indexes) -> list[Contribution]:
        out = []
        first = int(limbs.lanes[0])
        together = bool((limbs.lanes == first).all())
        for j, values in enumerate(limbs.values):
            lanes: int | Indexes
            if together:
                lanes = self._lane(first + j) if values.any() else -1
            else:
                lanes = self._lanes(limbs.lanes + j)
            if not isinstance(lanes, int) or lanes >= 0:
                out.append(Contribution(lanes, groups, values * weights))
        return out

    def _lane(self, number: int) -> int:
        if self._numbers[number] < 0:
            self._numbers[number] = self._add_lane()
            numbers = np.flatnonzero(self._numbers >= 0)
            self._used = (numbers.tolist(), self._numbers[numbers].tolist())
        return int(self._numbers[number])

    def _lanes(self, numbers: Indexes) -> Indexes:
        lanes = self._numbers[numbers]
        if (lanes < 0).any():
            for number in np.unique(numbers[lanes < 0]).tolist():
                self._lane(number)
            lanes = self._numbers[numbers]
        return lanes

    def _count_special(
        self, values: Floats, weights: Indexes, groups: Indexes
    ) -> list[Contribution]:
        masks = np.isnan(values), values == np.inf, values == -np.inf
        kinds = dict(zip(_SPECIAL, masks, strict=True))
        out = []
        for kind, mask in kinds.items():
            found = np.flatnonzero(mask & (weights != 0))
            if len(found):
                lane = self._special_lane(kind)
                out.append(Contribution(lane, groups[found], weights[found]))
        return out

    def _special_lane(self, kind: str) -> int:
        if kind not in self._special:
            self._special[kind] = self._add_lane()
        return self._special[kind]

    def special(self, lanes: Indexes) -> Floats | None:
        """The sum of each group's values that are not finite: 0, NaN, ∞ or −∞; None: all 0."""
        if not self._special:
            return None
        counts = {k: lanes[:, lane] > 0 for k, lane in self._special.items()}
        none = np.zeros(len(lanes), np.bool_)
        nan, up, down = (counts.get(k, none) for k in _SPECIAL)
        signed = np.where(up, np.inf, 0.0) + np.where(down & ~up, -np.inf, 0.0)
        return np.where(nan | (up & down), np.nan, signed)

    def rounded(self, lanes: Indexes) -> Floats:
        """The doubles nearest to the sums."""
        numbers, lane_numbers = self._used
        special = self.special(lanes)
        if not numbers:
            return np.zeros(len(lanes)) if special is None else special
        sums = float_sum.round_lanes(lanes[:, lane_numbers], numbers)
        return sums if special is None else np.where(special == 0, sums, special)

    def exact(self, lanes: Indexes) -> Objects:
        """The finite parts of the sums as Python integers."""
        numbers, lane_numbers = self._used
        return float_sum.totals(lanes[:, lane_numbers], numbers)


class TrueAccumulator(Accumulator):
    """Σ weight where a boolean is true."""

    def __init__(self, add_lane: AddLane) -> None:
        self.lane = add_lane()

    def labels(self) -> dict[int, int]:
        return {0: self.lane}

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        assert isinstance(rows.values, FixedColumn)
        return [Contribution(self.lane, rows.groups, rows.values.values * rows.weights)]


class BitsAccumulator(Accumulator):
    """Σ weight of the values that have a bit, for each bit of an integer type."""

    def __init__(self, type: ColumnType, add_lane: AddLane) -> None:
        assert type.dtype is not None
        self._dtype = np.dtype(type.dtype)
        self.lanes = np.array([add_lane() for _ in range(8 * self._dtype.itemsize)])

    def labels(self) -> dict[int, int]:
        return dict(enumerate(self.lanes.tolist()))

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        assert isinstance(rows.values, FixedColumn)
        values = np.ascontiguousarray(rows.values.values)
        octets = values.view(np.uint8).reshape(len(values), self._dtype.itemsize)
        which, lane_numbers = np.nonzero(np.unpackbits(octets, axis=1, bitorder="little"))
        return [Contribution(self.lanes[lane_numbers], rows.groups[which], rows.weights[which])]

    def packed(self, bits: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """The integers that have these bits, bool[n, lanes]."""
        octets = np.packbits(bits, axis=1, bitorder="little")
        return np.ascontiguousarray(octets).view(self._dtype)[:, 0]


def added(old: Indexes, contributions: list[Contribution]) -> Indexes:
    """Lanes with the contributions added (new lanes are in `old` already)."""
    if len(old) == 1:
        return _added_to_one(old, contributions)
    new = old.copy()
    for lanes, groups, values in contributions:
        if isinstance(lanes, int):
            np.add.at(new[:, lanes], groups, values)
        else:
            np.add.at(new.reshape(-1), groups * new.shape[1] + lanes, values)
    return new


def _added_to_one(old: Indexes, contributions: list[Contribution]) -> Indexes:
    """Adds contributions as `added` does, to one group and, as a rule, few rows."""
    lanes: list[int] = old[0].tolist()
    for lane_numbers, _, values in contributions:
        if isinstance(lane_numbers, int):
            lanes[lane_numbers] += values.item() if len(values) == 1 else int(values.sum())
        elif len(values) > thresholds.ADDED_ROWS:
            sums = np.zeros(len(lanes), np.int64)
            np.add.at(sums, lane_numbers, values)
            lanes = [lane + more for lane, more in zip(lanes, sums.tolist(), strict=True)]
        else:
            for lane, value in zip(lane_numbers.tolist(), values.tolist(), strict=True):
                lanes[lane] += value
    return np.array([lanes])

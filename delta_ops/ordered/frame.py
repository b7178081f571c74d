"""Frames of window functions, as distances from the current row in the order of the window.

Law: a frame is the rows from `start` to `end`, less those of EXCLUDE. A distance is signed in the
direction of the order (negative: preceding); None is unbounded; 0 is the current row in ROWS and
its peers in RANGE and GROUPS. A distance in time is one number of microseconds with months far
above them (`span`), so that all distances are compared, negated and kept alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ivm.storage.errors import EvaluationError
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.calendar import shift_months
from ivm.storage.values.column import Codes, Column, FixedColumn, Indexes, Mask
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.order import Columns
from ivm.storage.values.ordering.ranges import clipped
from ivm.storage.values.types import ColumnType

MICROS_PER_DAY = 86_400_000_000
_MONTH = 1 << 62  # a month in a distance; microseconds are fewer
_LAST_DAY = 106_751_991  # of a timestamp
_MOST = (1 << 63) - 1
_GREATEST = float(np.finfo(np.float64).max)
_LAST: dict[Any, int] = {np.dtype(name): int(np.iinfo(name).max) for name in ("i4", "i8")}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    Attributes:
        kind: the unit of the distances.
        start: distance to the first row.
        end: distance to the last row.
        exclude: "" for nothing, the current "row", its "group", or its "ties".
    """

    kind: Literal["rows", "range", "groups"]
    start: int | float | None
    end: int | float | None
    exclude: Literal["", "row", "group", "ties"] = ""

    @property
    def whole(self) -> bool:
        """Returns whether the frame has the same rows for every row of a partition."""
        return self.start is None and self.end is None and not self.exclude


WHOLE = Frame("rows", None, None)
UP_TO_HERE = Frame("rows", None, 0)
UP_TO_PEERS = Frame("range", None, 0)


def span(months: int, micros: int) -> int:
    """A distance in time: some months and microseconds ahead, neither negative."""
    return months * _MONTH + micros


def _months_and_micros(distance: int) -> tuple[int, int]:
    """The parts of a distance in time, with its sign."""
    sign = -1 if distance < 0 else 1
    months, micros = divmod(abs(distance), _MONTH)
    return sign * months, sign * micros


@dataclass(frozen=True, slots=True)
class RangeKey:
    """The one order key to which distances of RANGE frames are added.

    Attributes:
        column: its position.
        type: numeric (at most 64 bits), DATE or a timestamp.
        descending: the order's direction.
    """

    column: int
    type: ColumnType
    descending: bool

    def keeps_order(self, distance: int | float | None) -> bool:
        """Returns whether adding the distance keeps the order of any two keys, or makes them equal.

        Months later, times of the 30th and the 31st may have the opposite order.
        """
        if not self.type.is_date_or_timestamp or self.type.sql == "DATE" or distance is None:
            return True
        return _months_and_micros(int(distance))[0] == 0

    def targets(self, keys: FixedColumn, distance: int | float, right: bool) -> Codes:
        """Codes of the values at a distance from the keys (none of them NULL).

        Args:
            right: the rank after the last such value is wanted, else that of the first.

        Raises:
            EvaluationError: a value is beyond the type, as DuckDB has it.
        """
        shift = -distance if self.descending else distance
        if shift == 0:
            return word_codes(keys.values, self.type)
        if self.type.is_float:
            with np.errstate(over="ignore"):  # as DuckDB
                return word_codes(keys.values + float(shift), self.type)
        if self.type.is_integer:
            self._check(keys.values, int(shift))
        values = word_codes(keys.values, self.type)
        if self.type.is_date_or_timestamp:
            return self._shifted(values, int(shift), right)
        return values + int(shift)

    def concerned(self, keys: FixedColumn, distance: int | float, right: bool) -> Codes:
        """The values of `targets`, or further away; beyond 64 bits the last ones there."""
        if self.type.is_float:
            return self._doubles_away(keys.values, float(distance), right)
        values = word_codes(keys.values, self.type)
        shift = int(-distance if self.descending else distance)
        if not self.type.is_date_or_timestamp:
            return _added(values, shift)
        months, micros = _months_and_micros(shift)
        moved = _added(values, self._whole(micros, right))
        if months:  # there and back again may end up to three days and a time of day off
            slack = 5 if right != self.descending else -5
            days, time = self._months_away(moved, months)
            moved = clipped(days + slack, 1 - _LAST_DAY, _LAST_DAY - 1) * self._day + time
        return np.where(self._finite(values), moved, values)

    def _doubles_away(self, values: npt.NDArray[Any], distance: float, right: bool) -> Codes:
        """Values past all keys whose sums with the distance may be rounded to the given ones."""
        if distance == 0:
            return word_codes(values, self.type)
        # Sums beyond the greatest number are infinite.
        finite = np.minimum(np.maximum(values, -_GREATEST), _GREATEST)
        slack = 8 * np.spacing(np.maximum(np.abs(finite), abs(distance)) / 2)
        shift = -distance if self.descending else distance
        with np.errstate(over="ignore"):
            moved = finite + shift + (slack if right != self.descending else -slack)
        return word_codes(moved, self.type)

    @property
    def _day(self) -> int:
        """A day in the column's values."""
        return 1 if self.type.sql == "DATE" else MICROS_PER_DAY

    def _finite(self, values: Codes) -> Mask:
        finite: Mask = np.abs(values) != _LAST[self.type.dtype]
        return finite

    def _shifted(self, values: Codes, shift: int, right: bool) -> Codes:
        """Values shifted by a distance, months first; infinite ones are not shifted."""
        months, micros = _months_and_micros(shift)
        whole = self._whole(micros, right)
        moved = values + whole
        if not months and (not len(values) or self._is_near(values, whole)):
            return moved
        finite = self._finite(values)
        if months:
            days, time = self._months_away(np.where(finite, values, 0), months)
            if (np.abs(days) >= _LAST_DAY).any():
                raise _beyond()
            values = np.where(finite, days * self._day + time, values)
            moved = values + whole
        if (((moved < values) != (whole < 0)) & (moved != values) & finite).any():
            raise _beyond()
        return np.where(finite, moved, values)

    def _is_near(self, values: Codes, whole: int) -> bool:
        """Returns whether no value is infinite, nor becomes so a distance away."""
        return int(np.abs(values).max()) + abs(whole) < _LAST[self.type.dtype]

    def _months_away(self, values: Codes, months: int) -> tuple[Codes, Codes]:
        """The day and the time of day in another month."""
        days, time = np.divmod(values, self._day)
        return shift_months(days, months), time

    def ranks(
        self, rows: SortedRows, around: Columns, codes: Codes, partition: int, right: bool | Mask
    ) -> Indexes:
        """The ranks of values in their partitions: before the first not less, or past the last.

        Args:
            around: rows (as many as codes) of the partitions.
            codes: of the values, which may be beyond the type.
            partition: the number of the partition's terms.
            right: one for all, or one a value.
        """
        values, inside = self._values(codes)
        columns = _Replaced(around, self.column, FixedColumn(values))
        sides = right
        if inside is not codes:  # after the greatest value of the type, or before the least
            past, short = codes > inside, codes < inside
            past, short = (short, past) if self.descending else (past, short)
            sides = (past | right) & ~short
        return rows.find_all(columns, len(codes), sides, partition + 1)

    def _values(self, codes: Codes) -> tuple[npt.NDArray[Any], Codes]:
        """The values of some codes, and the codes brought to the type's range."""
        dtype = self.type.dtype
        assert dtype is not None
        if self.type.is_float:
            bits = codes ^ ((codes >> 63) & np.int64((1 << 63) - 1))
            return bits.view(np.float64).astype(dtype), codes
        if dtype == np.int64:
            return codes, codes
        limits = np.iinfo(dtype)
        low, high = max(int(limits.min), -(1 << 63)), min(int(limits.max), (1 << 63) - 1)
        inside = clipped(codes, low, high)
        return inside.astype(dtype), inside

    def _whole(self, micros: int, right: bool) -> int:
        """Microseconds in the column's own values: the next one above or below."""
        unit = MICROS_PER_DAY // self._day
        up = right == self.descending
        return -(-micros // unit) if up else micros // unit

    def _check(self, values: npt.NDArray[Any], shift: int) -> None:
        limits = np.iinfo(values.dtype)
        if not len(values):
            return
        low, high = int(values.min()) + shift, int(values.max()) + shift
        if low < int(limits.min) or high > int(limits.max):
            sign = "subtraction" if (shift < 0) else "addition"
            raise EvaluationError(
                f"Out of Range Error: Overflow in {sign} of {self.type.sql} in a RANGE frame: "
                f"a key {abs(shift)} away from another does not fit"
            )


def _beyond() -> EvaluationError:
    return EvaluationError("Conversion Error: Date and time not in timestamp range")


def _added(values: Codes, shift: int) -> Codes:
    """Values with a distance added; those beyond 64 bits are the last ones there."""
    if shift < 0:
        return np.maximum(values, -_MOST - 1 - shift) + shift
    return np.minimum(values, _MOST - shift) + shift


class _Replaced:
    """Columns with one of them replaced."""

    def __init__(self, columns: Columns, position: int, column: FixedColumn) -> None:
        self._columns, self._position, self._column = columns, position, column

    def __getitem__(self, number: int) -> Column:
        return self._column if number == self._position else self._columns[number]

"""Reads frame clauses with constant bounds as distances from the current row.

Contract: a frame is read only if DuckDB accepts each distance and it can be added to the order's
key exactly as DuckDB adds it; any other frame is None, and DuckDB evaluates the call.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any, Literal

from sqlglot import exp

from ivm.delta_ops.operator import CursorFactory
from ivm.delta_ops.ordered.frame import MICROS_PER_DAY, UP_TO_PEERS, Frame, RangeKey, span
from ivm.sql.plan.built_in import MAIN, duck_text
from ivm.sql.plan.expressions import used
from ivm.sql.plan.nodes import Window, types
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb import duck

_FAR = 1 << 40
_ZONED = "TIMESTAMP WITH TIME ZONE"
_UTC = ("UTC", "Etc/UTC")
_Number = int | float
_EXCLUDES: dict[str, Literal["", "row", "group", "ties"]] = {
    "": "",
    "NO OTHERS": "",
    "CURRENT ROW": "row",
    "GROUP": "group",
    "TIES": "ties",
}


def rows_edge(value: Any, side: Any) -> tuple[int | None] | None:
    """Reads a bound in rows or peer groups.

    Args:
        value: a bound of a frame clause.
        side: PRECEDING or FOLLOWING.

    Returns:
        A tuple of the distance (negative: before the current row), or of None if the frame is
        unbounded; None if the distance is no constant.
    """
    if value is None or value == "CURRENT ROW":
        return (0,)
    if value == "UNBOUNDED":
        return (None,)
    bare = value.unnest()
    if not isinstance(bare, exp.Literal) or bare.is_string or not bare.name.isdigit():
        return None
    count = min(int(bare.name), _FAR)
    return (-count if _is_back(side) else count,)


def _is_back(side: Any) -> bool:
    return str(side).upper() == "PRECEDING"


class FrameReader:
    """Reads the frames of one window.

    Attributes:
        range_key: the key to which RANGE distances are added, None until a frame has one.
    """

    def __init__(self, plan: Window, cursors: CursorFactory) -> None:
        self._plan = plan
        self._cursors = cursors
        self._ordered = any(key.column not in plan.partition for key in plan.order)
        self.range_key: RangeKey | None = None

    def read(self, spec: exp.Expr | None) -> Frame | None:
        """Returns the frame of a call; None if DuckDB must evaluate the call."""
        if spec is None:
            return self._plain(UP_TO_PEERS)
        kind = str(spec.args["kind"]).lower()
        exclude = spec.args.get("exclude")
        word = _EXCLUDES.get("" if exclude is None else exclude.name.upper())
        if kind not in ("rows", "range", "groups") or word is None:
            return None
        edges = []
        for edge, side in (("start", "start_side"), ("end", "end_side")):
            found = self._edge(spec.args.get(edge), spec.args.get(side), kind)
            if found is None:
                return None
            edges.append(found[0])
        return self._plain(Frame(kind, edges[0], edges[1], word))  # type: ignore[arg-type]

    def _plain(self, frame: Frame) -> Frame:
        """Makes bounds at the current row's peers unbounded if there is no order: all are peers."""
        if self._ordered or frame.kind == "rows":
            return frame
        start = None if frame.start == 0 else frame.start
        end = None if frame.end == 0 else frame.end
        return Frame(frame.kind, start, end, frame.exclude)

    def _edge(self, value: Any, side: Any, kind: str) -> tuple[int | float | None] | None:
        """A tuple of the distance, as `rows_edge` has it; None if it cannot be read."""
        if kind != "range" or not isinstance(value, exp.Expr):
            return rows_edge(value, side)
        distance = None if used(value) else self._shift(value)
        if distance is None:
            return None
        return (-distance if _is_back(side) else distance,)

    def _shift(self, value: exp.Expr) -> _Number | None:
        if len(self._plan.order) != 1 or not self._ordered:
            return None
        key = self._plan.order[0]
        type = types(self._plan.input)[key.column]
        found, zone = self._evaluated(value)
        distance = None if found is None else _distance(type, value, found, zone)
        if distance is None:
            return None
        self.range_key = RangeKey(key.column, type, key.descending)
        return distance

    def _evaluated(self, value: exp.Expr) -> tuple[Any, str]:
        """The constant as a Python value (of an interval: its parts), and the time zone."""
        constants = f"SELECT {duck_text(value)}, {MAIN}current_setting('TimeZone')"
        with contextlib.closing(self._cursors()) as cursor:
            found = duck.table(cursor, constants)
        return found.column(0)[0].as_py(), found.column(1)[0].as_py()


def _distance(type: ColumnType, value: exp.Expr, found: Any, zone: str) -> _Number | None:
    literal = isinstance(value.unnest(), exp.Literal)
    if type.base in ("DATE", "TIMESTAMP", _ZONED):
        return _time_distance(type, literal, found, zone)
    if isinstance(found, bool) or not isinstance(found, int | float | Decimal) or found < 0:
        return None
    if not literal:
        return None
    if type.sql == "DOUBLE":
        return float(found)
    if type.is_decimal and type.is_word and isinstance(found, int | Decimal):
        scaled = Decimal(found).scaleb(type.scale)
        units = int(scaled)
        return units if units == scaled and units < 10**17 else None
    if type.is_integer and type.is_word and type.sql != "UBIGINT" and isinstance(found, int):
        return found if found < 1 << (8 * _bytes(type) - 1) else None
    return None


def _bytes(type: ColumnType) -> int:
    assert type.dtype is not None
    return type.dtype.itemsize


def _time_distance(type: ColumnType, literal: bool, found: Any, zone: str) -> int | None:
    if type.sql == "DATE" and literal and isinstance(found, int):
        return span(0, found * MICROS_PER_DAY) if 0 <= found < 1 << 24 else None
    if not hasattr(found, "months"):
        return None
    months, days, nanoseconds = found.months, found.days, found.nanoseconds
    micros = days * MICROS_PER_DAY + nanoseconds // 1000
    if min(months, days, nanoseconds) < 0 or micros >= 1 << 61:
        return None
    # Outside UTC days have 23 to 25 hours; with months, zoned times lose the hours first.
    if type.sql == _ZONED and (((months or days) and zone not in _UTC) or (months and nanoseconds)):
        return None
    return span(months, micros)

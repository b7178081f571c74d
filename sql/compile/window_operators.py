"""Makes window operators of plan nodes: our own function for each call that has one, else DuckDB.

Law: an operator computes exactly its node's rendering. A call has a function of our own only if its
arguments are columns (or constants that are parameters) and its frame has constant bounds.
"""

from __future__ import annotations

import contextlib

from sqlglot import exp

from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.delta_ops.aggregates.lanes.finish import is_linear
from ivm.delta_ops.operator import CursorFactory, Operator
from ivm.delta_ops.ordered.duck_window import DELTA, PART, DuckWindow
from ivm.delta_ops.ordered.fill import Fill
from ivm.delta_ops.ordered.frame import Frame
from ivm.delta_ops.ordered.frame_distinct import DistinctFrameSum, in_order
from ivm.delta_ops.ordered.frame_min_max import FrameMinMax
from ivm.delta_ops.ordered.frame_sums import FrameSum
from ivm.delta_ops.ordered.function import Neighbour, Nth, Rank, WindowFunction
from ivm.delta_ops.ordered.ignore_nulls import PresentNeighbour, PresentNth
from ivm.delta_ops.ordered.rank_limit import RankLimit
from ivm.delta_ops.ordered.window import RecomputedWindow
from ivm.delta_ops.ordered.window import Window as WindowOperator
from ivm.sql.plan.built_in import chief_name, duck_text
from ivm.sql.plan.calls import WindowCall
from ivm.sql.plan.expressions import cast, column, position, used
from ivm.sql.plan.frame_edges import FrameReader
from ivm.sql.plan.nodes import Window, types, width
from ivm.sql.plan.render_window import completed, window_source, window_text
from ivm.sql.resolve.orders import parts_of
from ivm.sql.scalar.compile import compile_predicate
from ivm.storage.values.column import Column
from ivm.storage.values.ordering.order import orderable
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb import duck

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")
_AHEAD = {"lag": -1, "lead": 1}
_FIRST = {"first_value": 1, "first": 1, "any_value": 1, "last_value": -1, "last": -1}


def window_operator(plan: Window, cursors: CursorFactory) -> Operator:
    """Makes the operator of a window whose columns are all orderable."""
    maker = _Maker(plan, cursors)
    functions = [maker.function(i) for i in range(len(plan.calls))]
    if plan.max_rank is not None:
        (rank,) = functions
        assert isinstance(rank, Rank)
        return RankLimit(types(plan.input), plan.partition, plan.order, rank, plan.max_rank)
    recomputed = any(isinstance(f, DuckWindow) for f in functions)
    make = RecomputedWindow if recomputed else WindowOperator
    return make(
        types(plan.input),
        plan.partition,
        plan.order,
        functions,
        maker.frames.range_key,
        reproducible=all(_same_bits(f) for f in functions),
    )


def _same_bits(function: WindowFunction) -> bool:
    """Returns whether DuckDB's results have the same bits in every order of ties."""
    if isinstance(function, DuckWindow):
        return False
    return not isinstance(function, FrameSum) or not function.rounds


class _CallParts:
    """The parts of a call.

    Attributes:
        name: DuckDB's chief name in lower case.
        arguments: the arguments as written.
        filter: the BOOLEAN column of the FILTER clause.
        distinct: it has DISTINCT.
        plain: it has no other parts.
        ignore_nulls: NULLs are skipped.
    """

    def __init__(self, call: WindowCall) -> None:
        function = call.function
        self.filter: int | None = None
        if isinstance(function, exp.Filter):
            self.filter = position(function.expression.this)
            function = function.this
        self.name = chief_name(function.name.lower())
        self.distinct, self.arguments, keys = parts_of(function)
        self.plain = not keys and not any(isinstance(a, exp.Lambda) for a in self.arguments)
        self.ignore_nulls = call.ignore_nulls or self.name == "any_value"
        if len(self.arguments) == 1 and isinstance(self.arguments[0], exp.Star):
            self.arguments = []
        if self.name == "count" and not self.arguments:
            self.name = "count_star"


class _Maker:
    def __init__(self, plan: Window, cursors: CursorFactory) -> None:
        self._plan = plan
        self._cursors = cursors
        self._given = types(plan.input)
        self.frames = FrameReader(plan, cursors)

    def function(self, number: int) -> WindowFunction:
        """Makes the function of a call, given by its number in the node."""
        call = self._plan.calls[number]
        type = self._plan.schema[width(self._plan.input) + number][1]
        parts = _CallParts(call)
        if parts.plain:
            every = (self._rank, self._neighbour, self._nth, self._aggregate)
            some = (self._aggregate,) if parts.distinct else every
            for make in (self._neighbour, self._nth) if parts.ignore_nulls else some:
                made = make(parts, call, type)
                if made is not None:
                    return made
        return self._recomputed(call, type, parts)

    def _recomputed(self, call: WindowCall, type: ColumnType, parts: _CallParts) -> WindowFunction:
        by_frame = parts.name not in (*_RANKS, *_AHEAD, "ntile", "fill")
        frame = self.frames.read(call.frame) if by_frame else None
        reads = set() if call.frame is None else used(call.frame)
        reads |= used(call.function) | {key.column for key in self._plan.order}
        if call.ties != "none":
            reads |= {key.column for key in completed(self._plan)}
        sql = window_text(self._plan, call, [PART])
        if parts.name == "fill":
            argument = position(parts.arguments[0])
            if argument is not None:
                return Fill(sql, sorted(reads), argument, type, self._cursors)
        source = window_source(self._plan, [call], DELTA, [PART])
        return DuckWindow(sql, source, sorted(reads), type, frame, self._cursors)

    def _rank(self, parts: _CallParts, _: WindowCall, type: ColumnType) -> WindowFunction | None:
        if parts.name in _RANKS:
            return None if parts.arguments else Rank(parts.name, type)
        if parts.name == "rank_dense":
            return None if parts.arguments else Rank("dense_rank", type)
        if parts.name != "ntile":
            return None
        buckets = _integer(parts.arguments[0])
        return Rank("ntile", type, buckets) if buckets else None

    def _neighbour(
        self, parts: _CallParts, _: WindowCall, type: ColumnType
    ) -> WindowFunction | None:
        if parts.name not in _AHEAD:
            return None
        argument = position(parts.arguments[0])
        distance = _integer(parts.arguments[1]) if len(parts.arguments) > 1 else 1
        if argument is None or distance is None or self._given[argument] != type:
            return None
        default: int | Column | None = None
        if len(parts.arguments) > 2:
            default = self._default(parts.arguments[2], type)
            if default is None:
                return None
        if parts.ignore_nulls and distance == 0:
            return None
        kind = PresentNeighbour if parts.ignore_nulls else Neighbour
        return kind(argument, type, distance * _AHEAD[parts.name], default)

    def _default(self, value: exp.Expr, type: ColumnType) -> int | Column | None:
        """The value outside of the partition, as a column's position or a constant; else None."""
        known = position(value)
        if known is not None:
            return known if self._given[known] == type else None
        if used(value):
            return None
        with contextlib.closing(self._cursors()) as cursor:
            found = duck.table(cursor, f"SELECT {duck_text(cast(value, type))}")
        return from_arrow(found, (("v", type),)).columns[0]

    def _nth(self, parts: _CallParts, call: WindowCall, type: ColumnType) -> WindowFunction | None:
        number = _FIRST.get(parts.name)
        if parts.name == "nth_value":
            number = _integer(parts.arguments[1])
        if not number or parts.filter is not None or (parts.name == "nth_value" and number < 1):
            return None
        argument, frame = position(parts.arguments[0]), self.frames.read(call.frame)
        if argument is None or frame is None or self._given[argument] != type:
            return None
        return (PresentNth if parts.ignore_nulls else Nth)(argument, type, frame, number)

    def _aggregate(
        self, parts: _CallParts, call: WindowCall, type: ColumnType
    ) -> WindowFunction | None:
        positions = [position(a) for a in parts.arguments]
        if len(positions) > 1 or None in positions:
            return None
        argument = positions[0] if positions else None
        kind = None if argument is None else self._given[argument]
        if parts.name in ("min", "max") and argument is not None and kind is not None:
            frame = self.frames.read(call.frame)
            if frame is None or not orderable(kind) or kind != type:
                return None
            return FrameMinMax(argument, type, frame, parts.name == "max", parts.filter)
        made = self._operator_call(parts, argument, kind, type)
        if made is None or not is_linear(made):
            return None
        frame = self.frames.read(call.frame)
        if frame is None:
            return None
        return self._of_distinct(made, frame) if parts.distinct else FrameSum(made, frame)

    def _of_distinct(self, call: AggregateSpec, frame: Frame) -> WindowFunction | None:
        if call.function in ("bool_and", "bool_or"):
            return FrameSum(call, frame)
        bounded = frame.start is not None and frame.end is not None
        if not bounded or frame.exclude in ("group", "ties"):
            return None
        return DistinctFrameSum(call, frame) if in_order(frame, self.frames.range_key) else None

    def _operator_call(
        self, parts: _CallParts, argument: int | None, kind: ColumnType | None, type: ColumnType
    ) -> AggregateSpec | None:
        if (argument is None) != (parts.name == "count_star"):
            return None
        predicate = None
        if parts.filter is not None:
            predicate = compile_predicate(column(parts.filter), self._given)
            if predicate is None:
                return None
        return AggregateSpec(parts.name, type, argument, kind, predicate)


def _integer(node: exp.Expr) -> int | None:
    """The value of an integer literal, at most 2⁴⁰ in size; None for any other expression."""
    bare = node.unnest()
    sign = 1
    if isinstance(bare, exp.Neg):
        bare, sign = bare.this.unnest(), -1
    if not isinstance(bare, exp.Literal) or bare.is_string or not bare.name.isdigit():
        return None
    return sign * min(int(bare.name), 1 << 40)

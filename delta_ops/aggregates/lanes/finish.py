"""From lanes to results: each linear aggregate's output column, in DuckDB's type and rounding.

Law: a result is a function of the group's lanes alone, so a group's old row can be computed again
when it is retracted. Sums are rounded once; AVG divides as DuckDB does; variances are exact ratios
of integers, rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ivm.delta_ops.aggregates.lanes import int128
from ivm.delta_ops.aggregates.lanes.accumulators import (
    Accumulator,
    AddLane,
    BitsAccumulator,
    CountAccumulator,
    FloatAccumulator,
    IntegerAccumulator,
    TrueAccumulator,
)
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec, Argument
from ivm.delta_ops.aggregates.lanes.float_sum import Floats, round_ratio
from ivm.delta_ops.aggregates.lanes.regression import (
    PAIRS,
    PairSums,
    ProductAccumulator,
    is_pair,
    pair_arguments,
    pair_finish,
)
from ivm.delta_ops.state.representatives import has_representatives
from ivm.storage.errors import EvaluationError
from ivm.storage.scratch import Scratch
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.types import WIDE, ColumnType
from ivm.storage.warehouse.duckdb.duck import rows

Finish: TypeAlias = Callable[[Indexes], Column]
"""int64[n, lanes] → the output column."""

_VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "sem")
_BITS = ("bit_and", "bit_or", "bit_xor")
_TIMES = frozenset(["TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME"])
_KAHAN = ("favg", "kahan_sum")
_EXACT = frozenset(
    [
        "sum", "sum_no_overflow", "min", "max", "first", "last", "any_value", "arg_min", "arg_max",
        "list", "string_agg", "mode", "histogram", "quantile_disc", "bit_and", "bit_or", "bit_xor",
    ]
)  # fmt: skip


class AccumulatorTable:
    """The accumulators that a list of calls needs, equal ones once.

    Args:
        add_lane: gives the number of a new lane.
        strict: an average of integers that DuckDB may round otherwise is an error.
    """

    def __init__(self, add_lane: AddLane, *, strict: bool = False) -> None:
        self.strict = strict
        self._add_lane = add_lane
        self._counts: dict[Argument, CountAccumulator] = {}
        self._trues: dict[Argument, TrueAccumulator] = {}
        self._integers: dict[Argument, IntegerAccumulator] = {}
        self._floats: dict[Argument, FloatAccumulator] = {}
        self._squares: dict[Argument, FloatAccumulator] = {}
        self._products: dict[Argument, FloatAccumulator] = {}
        self._bits: dict[Argument, BitsAccumulator] = {}

    def items(self) -> list[tuple[Argument, list[Accumulator]]]:
        """The accumulators of each argument."""
        found: dict[Argument, list[Accumulator]] = {}
        kinds = (self._counts, self._trues, self._integers, self._floats, self._squares)
        for kind in (*kinds, self._products, self._bits):
            for argument, term in kind.items():
                found.setdefault(argument, []).append(term)
        return list(found.items())

    def count(self, argument: Argument) -> CountAccumulator:
        if argument not in self._counts:
            self._counts[argument] = CountAccumulator(self._add_lane)
        return self._counts[argument]

    def true(self, argument: Argument) -> TrueAccumulator:
        if argument not in self._trues:
            self._trues[argument] = TrueAccumulator(self._add_lane)
        return self._trues[argument]

    def integer(self, argument: Argument, type: ColumnType) -> IntegerAccumulator:
        if argument not in self._integers:
            self._integers[argument] = IntegerAccumulator(type, self._add_lane)
        return self._integers[argument]

    def bits(self, argument: Argument, type: ColumnType) -> BitsAccumulator:
        if argument not in self._bits:
            self._bits[argument] = BitsAccumulator(type, self._add_lane)
        return self._bits[argument]

    def float(self, argument: Argument) -> FloatAccumulator:
        if argument not in self._floats:
            self._floats[argument] = FloatAccumulator(self._add_lane)
        return self._floats[argument]

    def square(self, argument: Argument) -> FloatAccumulator:
        if argument not in self._squares:
            self._squares[argument] = FloatAccumulator(self._add_lane, squares=True)
        return self._squares[argument]

    def pair(self, call: AggregateSpec) -> PairSums:
        """The accumulators of a function of two arguments."""
        x, y = pair_arguments(call)
        if x not in self._products:
            self._products[x] = ProductAccumulator(self._add_lane, squares=True)
        singles = (self.float(x), self.float(y), self.square(x), self.square(y))
        return PairSums(self.count(x).lane, *singles, self._products[x])


def is_linear(call: AggregateSpec) -> bool:
    """Returns whether the call is a function of lanes that add up over the rows."""
    function, type = call.function, call.argument_type
    if function in ("count_star", "count"):
        return True
    if function in PAIRS:
        return is_pair(call)
    if type is None or type.dtype is None or call.further or call.parameters:
        return False
    if function in ("bool_and", "bool_or", "count_if"):
        return type.sql == "BOOLEAN"
    if function in ("sum", "sum_no_overflow"):
        return _summable(type) or type.is_float or type.sql == "BOOLEAN"
    if function == "avg":
        return _summable(type) or type.is_float or type.sql in _TIMES
    if function in _BITS:
        return type == call.output and type.is_integer and type.is_word
    return function in (*_VARIANCES, *_KAHAN) and (
        type.is_float or (type.is_integer and type.dtype != WIDE)
    )


def _summable(type: ColumnType) -> bool:
    return type.is_decimal or (type.is_integer and type.sql != "UHUGEINT")


def finisher(call: AggregateSpec, terms: AccumulatorTable) -> Finish:
    """The function from lanes to a linear call's output; enters its accumulators in `terms`."""
    function, argument = call.function, Argument.of(call)
    if function in ("count_star", "count"):
        return _count(call.output, terms.count(argument).lane)
    if function in PAIRS:
        return pair_finish(call, terms.pair(call))
    assert call.argument_type is not None
    if function == "count_if" or (function == "sum" and call.argument_type.sql == "BOOLEAN"):
        return _true_sum(terms.count(argument).lane, terms.true(argument).lane)
    if function in ("bool_and", "bool_or"):
        return _boolean(function, terms.count(argument).lane, terms.true(argument).lane)
    if function in _VARIANCES:
        return _variance(function, argument, terms)
    if function in _BITS:
        return _bits(function, argument, call.argument_type, terms)
    if call.argument_type.sql in _TIMES:
        return _mean_time(argument, call.argument_type, terms)
    if call.argument_type.is_float or function in _KAHAN:
        return _float_sum(function, argument, terms)
    return _integer_sum(function, argument, call.argument_type, terms)


def _count(type: ColumnType, lane: int) -> Finish:
    if type.dtype == WIDE:
        return lambda lanes: FixedColumn(int128.from_int64(lanes[:, lane]))
    return lambda lanes: FixedColumn(lanes[:, lane].copy())


def _nullable(values: Floats | Indexes | Mask, valid: Mask) -> FixedColumn:
    if np.count_nonzero(valid) == len(valid):
        return FixedColumn(values)
    return FixedColumn(np.where(valid, values, np.zeros(1, values.dtype)), valid)


def _true_sum(count: int, true: int) -> Finish:
    """The number of true arguments; NULL if there is no value."""
    return lambda lanes: _nullable(int128.from_int64(lanes[:, true]), lanes[:, count] > 0)


def _boolean(function: str, count: int, true: int) -> Finish:
    def finish(lanes: Indexes) -> Column:
        counts, trues = lanes[:, count], lanes[:, true]
        values = trues == counts if function == "bool_and" else trues > 0
        return _nullable(values, counts > 0)

    return finish


def _bits(function: str, argument: Argument, type: ColumnType, terms: AccumulatorTable) -> Finish:
    """The bits that all values have, any, or an odd number of them."""
    count, term = terms.count(argument).lane, terms.bits(argument, type)

    def finish(lanes: Indexes) -> Column:
        counts, having = lanes[:, [count]], lanes[:, term.lanes]
        if function == "bit_and":
            bits = having == counts
        else:
            bits = having > 0 if function == "bit_or" else having & 1 == 1
        return _nullable(term.packed(bits), counts[:, 0] > 0)

    return finish


def _integer_sum(
    function: str, argument: Argument, type: ColumnType, terms: AccumulatorTable
) -> Finish:
    count, total_lanes = terms.count(argument).lane, terms.integer(argument, type).lanes
    span = slice(total_lanes[0], total_lanes[-1] + 1)
    # DuckDB makes many a plain avg a sum / count of doubles; others are divided in one go.
    at_once = argument.distinct or argument.filter is not None

    def finish(lanes: Indexes) -> Column:
        counts = lanes[:, count]
        total = int128.from_lanes(lanes[:, span])
        if type.is_decimal and len(total_lanes) == 4:
            int128.check_decimal(total)
        if function != "avg":
            return _nullable(total, counts > 0)
        some = np.maximum(counts, 1)
        if at_once:
            return _nullable(int128.ratios(total, some, type.scale), counts > 0)
        if type.is_decimal:
            doubles = int128.ratios(total, np.ones_like(some), type.scale)
        else:
            doubles = int128.to_double(total)
        means = doubles / some
        if terms.strict and not int128.are_means(means, total, some):
            raise EvaluationError("an average that DuckDB rounds as its optimizer has it")
        return _nullable(means, counts > 0)

    return finish


def _mean_time(argument: Argument, type: ColumnType, terms: AccumulatorTable) -> Finish:
    count, total_lanes = terms.count(argument).lane, terms.integer(argument, type).lanes
    span = slice(total_lanes[0], total_lanes[-1] + 1)

    def finish(lanes: Indexes) -> Column:
        counts = lanes[:, count]
        return _nullable(int128.means(lanes[:, span], np.maximum(counts, 1)), counts > 0)

    return finish


def _float_sum(function: str, argument: Argument, terms: AccumulatorTable) -> Finish:
    count, sums = terms.count(argument).lane, terms.float(argument)

    def finish(lanes: Indexes) -> Column:
        counts, values = lanes[:, count], sums.rounded(lanes)
        if function in _KAHAN and _compensates_infinities():
            values = np.where(np.isfinite(values), values, np.nan)
        if function in ("avg", "favg"):
            values = values / np.maximum(counts, 1)
        return _nullable(values, counts > 0)

    return finish


@functools.cache
def _compensates_infinities() -> bool:
    """Returns whether the DuckDB at hand subtracts an infinity from itself; from 2.0.1 on none
    does."""
    with Scratch.of().borrow() as scratch:
        return rows(scratch, "SELECT fsum('inf'::DOUBLE)") != [(math.inf,)]


def _variance(function: str, argument: Argument, terms: AccumulatorTable) -> Finish:
    count = terms.count(argument).lane
    sums, squares = terms.float(argument), terms.square(argument)
    sample, root = function.endswith("samp"), function.startswith("stddev")

    def finish(lanes: Indexes) -> Column:
        counts = lanes[:, count]
        spread = _spread(counts, sums, squares, lanes, sample)
        special = sums.special(lanes)
        if special is not None:
            spread = np.where((special != 0) & (counts > (function != "sem")), np.nan, spread)
        if function == "sem":
            return _nullable(np.sqrt(spread) / np.sqrt(np.maximum(counts, 1)), counts > 0)
        return _nullable(np.sqrt(spread) if root else spread, counts > int(sample))

    return finish


def _spread(
    counts: Indexes, sums: FloatAccumulator, squares: FloatAccumulator, lanes: Indexes, sample: bool
) -> Floats:
    """The variance (n Σx² − (Σx)²) / (n (n − 1)) or / n², rounded once; 0 for a single value."""
    n = counts.astype(object)
    numerators = n * squares.exact(lanes) - sums.exact(lanes) ** 2
    denominators = (n * (n - sample)) << 2148
    pairs = zip(numerators.tolist(), denominators.tolist(), counts.tolist(), strict=True)
    return np.array([round_ratio(a, b) if c > 1 else 0.0 for a, b, c in pairs])


def rounds(call: AggregateSpec) -> bool:
    """Returns whether DuckDB may answer with other bits, rounded or of another equal value."""
    type = call.argument_type
    if type is None or call.function in ("count", "count_if", "bool_and", "bool_or"):
        return False
    if call.function == "avg":
        return type.sql not in _TIMES
    types = [type, *call.further_types, *call.order_types]
    return has_representatives(types) or call.function not in _EXACT


def is_checked(call: AggregateSpec) -> bool:
    """Returns whether `AccumulatorTable.strict` finds all results that DuckDB rounds otherwise."""
    type, plain = call.argument_type, not call.distinct and call.filter is None
    return not rounds(call) or bool(call.function == "avg" and type and type.is_integer and plain)

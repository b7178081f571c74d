"""Functions of two arguments: covariance, correlation and linear regression.

Law: all of them are functions of n, Σx, Σy, Σx², Σy² and Σxy over the rows where both arguments are
not NULL; these are linear and exact, and every result is a ratio of integers rounded once (or a few
operations on such ratios). One NaN or infinity makes the sums that it enters NaN, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ivm.delta_ops.aggregates.lanes import float_sum
from ivm.delta_ops.aggregates.lanes.accumulators import Contribution, FloatAccumulator
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec, Argument, ArgumentRows
from ivm.delta_ops.aggregates.lanes.float_sum import Floats, round_ratio
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.types import ColumnType

PAIRS = frozenset(
    [
        "covar_pop", "covar_samp", "corr", "regr_avgx", "regr_avgy", "regr_count",
        "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
    ]
)  # fmt: skip
_SQUARE_UNIT = 2148


class ProductAccumulator(FloatAccumulator):
    """Σ weight · value · partner of finite doubles, exact; others are counted in their own sums."""

    def contributions(self, rows: ArgumentRows) -> list[Contribution]:
        assert isinstance(rows.values, FixedColumn)
        assert isinstance(rows.partner, FixedColumn)
        left = rows.values.values.astype(np.float64)
        right = rows.partner.values.astype(np.float64)
        finite = np.isfinite(left) & np.isfinite(right)
        kept = np.flatnonzero(finite & (left != 0) & (right != 0) & (rows.weights != 0))
        if not len(kept):
            return []
        parts = float_sum.split_products(left[kept], right[kept])
        weights, groups = rows.weights[kept], rows.groups[kept]
        return [c for limbs in parts for c in self._of_limbs(limbs, weights, groups)]


def is_pair(call: AggregateSpec) -> bool:
    """Returns whether the call is one of these over numbers of at most 64 bits."""
    types = [call.argument_type, *call.further_types]
    return call.function in PAIRS and len(types) == 2 and all(_is_double(t) for t in types)


def _is_double(type: ColumnType | None) -> bool:
    return type is not None and (type.is_float or (type.is_integer and type.is_word))


class PairSums(NamedTuple):
    """The accumulators of a pair (x, y), by the quantity that they add up."""

    rows: int
    x: FloatAccumulator
    y: FloatAccumulator
    xx: FloatAccumulator
    yy: FloatAccumulator
    xy: FloatAccumulator


def pair_arguments(call: AggregateSpec) -> tuple[Argument, Argument]:
    """The two arguments, each with the other as its partner."""
    (other,), (type,) = call.further, call.further_types
    assert isinstance(call.argument, int)
    first = replace(Argument.of(call), partner=other)
    return first, Argument(other, type, call.filter, call.distinct, call.argument)


class _Moments:
    """The exact moments of some groups: n, n²·variances and n²·covariance."""

    def __init__(self, sums: PairSums, lanes: Indexes) -> None:
        self.n = lanes[:, sums.rows]
        self._exact = [t.exact(lanes) for t in sums[1:]]
        self._means = (sums.x, sums.y)
        self._lanes = lanes
        none = np.zeros(len(lanes), np.bool_)
        found = [t.special(lanes) for t in self._means]
        self.odd_x, self.odd_y = [none if f is None else f != 0 for f in found]
        self.odd = self.odd_x | self.odd_y

    def variance(self, of_x: bool) -> Any:
        x, y, xx, yy, _ = self._exact
        return self.n.astype(object) * (xx if of_x else yy) - (x if of_x else y) ** 2

    def covariance(self) -> Any:
        x, y, _, _, xy = self._exact
        return self.n.astype(object) * xy - x * y

    def mean(self, of_x: bool) -> Floats:
        total = self._means[0 if of_x else 1].rounded(self._lanes)
        return total / np.maximum(self.n, 1)

    def spread(self, of_x: bool, power: int) -> Floats:
        """The population variance, times n if `power` is 1."""
        odd = (self.odd_x if of_x else self.odd_y) & (self.n > 1)
        return np.where(odd, np.nan, self._divided(self.variance(of_x), power))

    def co_spread(self, power: int) -> Floats:
        return np.where(self.odd, np.nan, self._divided(self.covariance(), power))

    def _divided(self, numerators: Any, power: int) -> Floats:
        """Numerators / n^power, in the unit of squares."""
        n = np.maximum(self.n, 1).astype(object)
        below = (n**power) << _SQUARE_UNIT
        return _ratios(numerators, below)


def _ratios(above: Any, below: Any) -> Floats:
    pairs = zip(above.tolist(), below.tolist(), strict=True)
    return np.array([round_ratio(a, b) for a, b in pairs], np.float64)


def pair_finish(call: AggregateSpec, sums: PairSums) -> Callable[[Indexes], Column]:
    """The function from lanes to the call's column. A regression's first argument is y, then x."""
    compute = _FUNCTIONS[call.function]

    def finish(lanes: Indexes) -> Column:
        moments = _Moments(sums, lanes)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            values, valid = compute(moments)
        if call.output.dtype is not None and values.dtype != call.output.dtype:
            values = values.astype(call.output.dtype)
        if valid.all():
            return FixedColumn(values)
        return FixedColumn(np.where(valid, values, np.zeros(1, values.dtype)), valid)

    return finish


_Answer = tuple[Any, Mask]
_X, _Y = False, True  # of a regression's arguments, y stands first


def _covar_samp(m: _Moments) -> _Answer:
    below = (m.n * np.maximum(m.n - 1, 1)).astype(object) << _SQUARE_UNIT
    values = _ratios(m.covariance(), np.where(m.n > 0, below, 1 << _SQUARE_UNIT))
    return np.where(m.odd, np.nan, values), m.n > 1


def _corr(m: _Moments) -> _Answer:
    spreads = np.sqrt(m.spread(_X, 2)) * np.sqrt(m.spread(_Y, 2))
    values = np.where(spreads == 0, np.nan, m.co_spread(2) / spreads)
    return np.where(m.odd, np.nan, values), m.n > 0


def _slope(m: _Moments) -> Floats:
    exact = m.variance(_X)
    flat = np.array([v == 0 for v in exact.tolist()], np.bool_)
    values = _ratios(m.covariance(), np.where(flat, 1, exact))
    return np.where(flat | m.odd, np.nan, values)


def _intercept(m: _Moments) -> _Answer:
    values = m.mean(_Y) - _slope(m) * m.mean(_X)
    return values, (m.n > 0) & (m.spread(_X, 2) != 0) & ~m.odd


def _r2(m: _Moments) -> _Answer:
    x, y = m.spread(_X, 2), m.spread(_Y, 2)
    values = np.where(y == 0, 1.0, _corr(m)[0] ** 2)
    return values, (m.n > 0) & (x != 0)


_FUNCTIONS: dict[str, Callable[[_Moments], _Answer]] = {
    "covar_pop": lambda m: (m.co_spread(2), m.n > 0),
    "covar_samp": _covar_samp,
    "corr": _corr,
    "regr_count": lambda m: (m.n, np.ones(len(m.n), np.bool_)),
    "regr_avgx": lambda m: (m.mean(_X), m.n > 0),
    "regr_avgy": lambda m: (m.mean(_Y), m.n > 0),
    "regr_sxx": lambda m: (m.spread(_X, 1), m.n > 0),
    "regr_syy": lambda m: (m.spread(_Y, 1), m.n > 0),
    "regr_sxy": lambda m: (m.co_spread(1), m.n > 0),
    "regr_slope": lambda m: (_slope(m), m.n > 0),
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}

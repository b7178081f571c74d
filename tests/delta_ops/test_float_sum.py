"""Exact DOUBLE sums: lanes against Python's exact fractions, after any history."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ivm.delta_ops.aggregates.lanes import float_sum
from ivm.delta_ops.aggregates.lanes.float_sum import Limbs
from tests.support.operator_bench import nearest_double

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NEAR = st.floats(-1e6, 1e6).map(lambda v: round(v, 2))


def lanes_of(
    parts: list[Limbs], groups: list[int], k: int
) -> tuple[npt.NDArray[np.int64], list[int]]:
    table: dict[int, list[int]] = {}
    for limbs in parts:
        for i, lane in enumerate(limbs.lanes.tolist()):
            for j, values in enumerate(limbs.values):
                table.setdefault(lane + j, [0] * k)[groups[i]] += int(values[i])
    numbers = sorted(table)
    return np.array([table[n] for n in numbers], np.int64).T.copy(), numbers


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), FINITE | NEAR), min_size=1, max_size=40))
@example([(0, 0.1), (0, 1e40), (0, 1e20), (0, -1e40), (0, -1e20)])
@example([(0, 5e-324), (0, 2.2250738585072014e-308)])
@example([(0, 1.0), (0, 2.0**-53)])
@example([(0, 1.0), (0, 2.0**-53), (0, 5e-324)])
@example([(0, 1.7976931348623157e308)] * 2)
def test_rounded_sum_is_nearest_to_the_exact_sum(rows: list[tuple[int, float]]) -> None:
    groups = [g for g, _ in rows]
    lanes, numbers = lanes_of([float_sum.split(np.array([v for _, v in rows]))], groups, 12)
    expected = [
        nearest_double(sum((Fraction(v) for h, v in rows if h == g), Fraction())) for g in range(12)
    ]
    assert float_sum._round_many(lanes, numbers).tolist() == expected
    few = [float_sum.round_lanes(lanes[i : i + 1], numbers)[0] for i in range(12)]
    assert few == expected


@settings(deadline=None)
@given(st.lists(FINITE | NEAR, min_size=1, max_size=20))
def test_squares_are_exact(values: list[float]) -> None:
    lanes, numbers = lanes_of(float_sum.split_squares(np.array(values)), [0] * len(values), 1)
    exact = sum(Fraction(v) ** 2 for v in values) * 2**2148
    assert float_sum.totals(lanes, numbers)[0] == exact


@settings(deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=20), st.lists(FINITE, max_size=20))
def test_retractions_leave_no_trace(kept: list[float], gone: list[float]) -> None:
    plus = float_sum.split(np.array(kept + gone))
    minus = float_sum.split(-np.array(gone)) if gone else Limbs(np.zeros(0, np.int64), ())
    groups = [0] * (len(kept) + len(gone))
    mixed, mixed_numbers = lanes_of([plus, minus], groups, 1)
    alone, alone_numbers = lanes_of([float_sum.split(np.array(kept))], groups, 1)
    assert float_sum.round_lanes(mixed, mixed_numbers) == float_sum.round_lanes(
        alone, alone_numbers
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(-2.2250738585072014e-308)
@example(1.7976931348623157e308)
def test_one_value_has_the_limbs_that_many_have(value: float) -> None:
    if value == 0:
        return
    many = float_sum.split(np.array([value]))
    first, limbs = float_sum.limbs_of(value)
    assert first == many.lanes[0]
    assert list(limbs) == [int(part[0]) for part in many.values]

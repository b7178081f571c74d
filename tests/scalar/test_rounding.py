"""Rounding, signs, extremes of several columns against DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import check, check_pairs, column_lists, extremes
from tests.tiers import examples

ROUNDINGS = [
    (text, type)
    for text in ["round(c0)", "floor(c0)", "ceil(c0)", "trunc(c0)", "sign(c0)"]
    for type in ["DOUBLE", "FLOAT", "DECIMAL(4,1)", "DECIMAL(15,2)"]
]
ROUNDINGS += [(f"round(c0, {n})", "DOUBLE") for n in (0, 1, 2, 5)]
ROUNDINGS += [(f"round(c0, {n})", "DECIMAL(18,6)") for n in (0, 1, 2, 6, 9)]
ROUNDINGS += [(f"{f}(c0)", "DECIMAL(38,4)") for f in ("round", "floor", "ceil")]
ROUNDINGS += [("round(c0, 2)", "DECIMAL(38,4)"), ("round(c0)", "INTEGER"), ("sqrt(c0)", "DOUBLE")]
ROUNDINGS += [("floor(c0)", "INTEGER"), ("ceil(c0)", "BIGINT"), ("sqrt(c0)", "BIGINT")]
ROUNDINGS += [(f"round(c0, {n})", "DOUBLE") for n in ("'1'", "2::TINYINT", "1::UTINYINT")]
ROUNDINGS += [("sign(c0)", "INTEGER"), ("round(c0 / 3, 2)", "BIGINT")]


@pytest.mark.parametrize(("text", "type"), ROUNDINGS)
def test_rounding(text: str, type: str) -> None:
    check(text, [type], extremes(type))


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_random_rounding(data: st.DataObject) -> None:
    text, type = data.draw(st.sampled_from(ROUNDINGS))
    check(text, [type], *data.draw(st.composite(column_lists)([type])))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=30), st.integers(0, 4))
def test_round_near_halves(halves: list[int], digits: int) -> None:
    check(f"round(c0, {digits})", ["DOUBLE"], [h / 2 / 10**digits for h in halves])


def test_halves_that_doubles_cannot_say() -> None:
    """81.55 is less than it says and 3.45 is more: releases differ about the first."""
    close = [81.55, 3.45, 0.285, 1.005, 2.675, 45046.35, -45046.35, 1e15 + 0.5, 1e300, 0.05]
    for digits in (1, 2, 15):
        check(f"round(c0, {digits})", ["DOUBLE"], [sign * x for x in close for sign in (1, -1)])


@pytest.mark.parametrize("name", ["greatest", "least"])
@pytest.mark.parametrize("type", ["INTEGER", "DOUBLE", "DECIMAL(38,4)", "VARCHAR", "DATE"])
def test_extreme_of_columns(name: str, type: str) -> None:
    check_pairs(f"{name}(c0, c1)", [type, type])
    check_pairs(f"{name}(c0, c1, c0)", [type, type])

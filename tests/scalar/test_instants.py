"""Counts of instants, buckets of time, and differences in hours and less, against DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import check, check_all, check_pairs, decided, extremes
from tests.tiers import examples

ZONED = "TIMESTAMP WITH TIME ZONE"
COUNTS = ["epoch_ms(c0)", "epoch_us(c0)", "epoch_ns(c0)"]
UNITS = ["hour", "minute", "second", "millisecond", "microsecond"]
WIDTHS = ["15 MINUTE", "1 HOUR", "1 DAY", "7 DAY", "36 HOUR", "1 SECOND", "00:00:00.25"]
MONTHS = ["1 MONTH", "5 MONTH", "1 QUARTER", "2 YEAR"]
NEAR = [-(10**16), 1600000000123456, -1, 0, None, 951782400000000]
MICROS = st.lists(st.none() | st.integers(-(10**17), 10**17), min_size=1, max_size=12)


def test_counts() -> None:
    for kind in ("TIMESTAMP", ZONED):
        check_all(COUNTS, [kind], extremes("TIMESTAMP"))
        for text in COUNTS:
            decided(text, [kind], [*NEAR[1:], 500, 499, -500, -1500])
    check_all(COUNTS, ["DATE"], extremes("DATE"))


@pytest.mark.parametrize("kind", ["BIGINT", "INTEGER", "TINYINT"])
def test_times_of_milliseconds(kind: str) -> None:
    check("epoch_ms(c0)", [kind], extremes(kind))
    decided("epoch_ms(c0)", [kind], [0, -7, 100, None])


@pytest.mark.parametrize("unit", UNITS)
def test_boundaries(unit: str) -> None:
    for kinds in (["TIMESTAMP"] * 2, ["DATE"] * 2, ["DATE", "TIMESTAMP"]):
        check_pairs(f"date_diff('{unit}', c0, c1)", kinds)
    decided(f"date_diff('{unit}', c0, c1)", ["TIMESTAMP"] * 2, NEAR, NEAR[::-1])
    decided(f"date_diff('{unit}', c0, c1)", ["DATE"] * 2, [-1, 0, 19000], [19001, -8, 3])


@pytest.mark.parametrize("kind", ["TIMESTAMP", ZONED])
def test_buckets(kind: str) -> None:
    for width in [*WIDTHS, *(MONTHS if kind == "TIMESTAMP" else [])]:
        check(f"time_bucket(INTERVAL '{width}', c0)", [kind], extremes("TIMESTAMP"))
        decided(f"time_bucket(INTERVAL '{width}', c0)", [kind], NEAR)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", ZONED])
def test_finite_times(kind: str) -> None:
    check("isfinite(c0)", [kind], extremes(kind.partition(" ")[0]))
    decided("isfinite(c0)", [kind], [-1, 0, None, 11])


STEPS = ["1 MINUTE", "-00:07:00.5", "-1 DAY", "36 HOUR", "90 DAY"]
HOURS = st.lists(st.none() | st.integers(-72, 72), min_size=1, max_size=8)
HOUR = 3_600_000_000


@pytest.mark.parametrize("kind", ["TIMESTAMP", ZONED])
def test_series(kind: str) -> None:
    for step in STEPS:
        if kind == "TIMESTAMP" or "DAY" not in step:
            decided(f"range(c0, c0 + INTERVAL '{step}', INTERVAL '{step}')", [kind], NEAR)
            decided(f"range(c0, c1, INTERVAL '{step}')", [kind] * 2, [1, 0, None, 9], [9, 0, 2, 1])
    check("range(c0, c0 - INTERVAL '2 hours', -INTERVAL '1 hour')", [kind], extremes("TIMESTAMP"))


@pytest.mark.full
@settings(max_examples=examples(60), deadline=None)
@given(HOURS, st.sampled_from(["1 HOUR", "-1 HOUR", "-1 DAY", "25 HOUR", "1 DAY 1 HOUR"]))
def test_random_series(hours: list[int | None], step: str) -> None:
    times = [None if hour is None else hour * HOUR for hour in hours]
    decided(f"range(c0, c1, INTERVAL '{step}')", ["TIMESTAMP"] * 2, times, times[::-1])
    days = [None if hour is None else hour // 24 for hour in hours]
    text = f"range(c0, c1 + INTERVAL '5 hours', INTERVAL '{step}')"
    decided(text, ["DATE", "TIMESTAMP"], days, times)


def test_time_of_day() -> None:
    check("c0::TIME", ["TIMESTAMP"], extremes("TIMESTAMP"))
    decided("c0::TIME", ["TIMESTAMP"], NEAR)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_added_intervals(kind: str) -> None:
    texts = [f"date_add(c0, INTERVAL '{span}')" for span in ("1 MONTH", "3 DAY", "-90 MINUTE")]
    check_all(texts, [kind], extremes(kind))


@pytest.mark.full
@settings(max_examples=examples(150), deadline=None)
@given(MICROS, st.sampled_from(UNITS), st.sampled_from([*WIDTHS, *MONTHS]))
def test_random_times(times: list[int | None], unit: str, width: str) -> None:
    for text in [*COUNTS[:2], f"time_bucket(INTERVAL '{width}', c0)", "c0::TIME"]:
        decided(text, ["TIMESTAMP"], times)
    decided(f"date_diff('{unit}', c0, c1)", ["TIMESTAMP"] * 2, times, times[::-1])
    check("epoch_ns(c0)", ["TIMESTAMP"], times)

"""Date and timestamp kernels against DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import check, check_all, check_pairs, decided, extremes
from tests.tiers import examples

PARTS = ["year", "month", "day", "quarter", "dow", "isodow", "doy", "week", "isoyear", "hour"]
PARTS += ["minute", "second", "millisecond", "microsecond", "epoch"]
FUNCTIONS = ["year", "month", "day", "dayofmonth", "quarter", "week", "weekofyear", "dayofweek"]
FUNCTIONS += ["isodow", "dayofyear", "hour", "minute", "second", "epoch", "last_day"]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond"]
UNITS += ["microsecond"]
INTERVALS = ["1 DAY", "3 MONTH", "1 YEAR", "-13 MONTH", "90 MINUTE", "2 WEEK", "1 SECOND"]
INTERVALS += ["1 month 2 days 3 hours", "1000000 HOUR", "-1 QUARTER"]
KINDS = ["DATE", "TIMESTAMP"]


@pytest.mark.parametrize("kind", KINDS)
def test_parts(kind: str) -> None:
    check_all([f"extract({part} FROM c0)" for part in PARTS], [kind], extremes(kind))
    check_all([f"date_part('{part}', c0)" for part in PARTS], [kind], extremes(kind))
    check_all([f"{name}(c0)" for name in FUNCTIONS], [kind], extremes(kind))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_truncation(kind: str) -> None:
    check_all([f"date_trunc('{unit}', c0)" for unit in UNITS], [kind], extremes(kind))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", ["+", "-"])
def test_shift_by_an_interval(sign: str, kind: str) -> None:
    texts = [f"c0 {sign} INTERVAL '{interval}'" for interval in INTERVALS]
    check_all(texts, [kind], extremes(kind))


SPANS = ["90 MINUTE", "1 SECOND", "-26 HOUR", "1000000 HOUR", "0 SECOND", "36:00:01.5"]


@pytest.mark.full
@pytest.mark.parametrize("sign", ["+", "-"])
def test_shift_with_a_time_zone_by_less_than_days(sign: str) -> None:
    kind = "TIMESTAMP WITH TIME ZONE"
    check_all([f"c0 {sign} INTERVAL '{span}'" for span in SPANS], [kind], extremes("TIMESTAMP"))
    check_all([f"INTERVAL '{span}' + c0" for span in SPANS], [kind], extremes("TIMESTAMP"))
    decided("c0 - INTERVAL '1 HOUR'", [kind], [0, 1711846800000000, None])


@pytest.mark.parametrize("text", ["c0 + c1", "c0 - c1", "c1 + c0", "c0 + 1", "c0 - 7"])
@pytest.mark.parametrize("whole", ["INTEGER", "TINYINT"])
def test_shift_by_days(text: str, whole: str) -> None:
    check_pairs(text, ["DATE", whole])


@pytest.mark.parametrize("text", ["c0 - c1", "date_diff('day', c0, c1)"])
@pytest.mark.parametrize("kind", KINDS)
def test_difference(text: str, kind: str) -> None:
    check_pairs(text, [kind, kind])


@pytest.mark.parametrize("unit", ["day", "month", "quarter", "year"])
def test_boundaries_between(unit: str) -> None:
    check_pairs(f"date_diff('{unit}', c0, c1)", ["DATE", "DATE"])
    check_pairs(f"date_diff('{unit}', c0, c1)", ["DATE", "TIMESTAMP"])


FORMATS = ["%Y-%m-%d", "%Y%m", "%d.%m.%Y", "%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "day"]


@pytest.mark.parametrize("kind", KINDS)
def test_text(kind: str) -> None:
    texts = [f"strftime(c0, '{format}')" for format in FORMATS] + ["strftime('%Y.%m', c0)"]
    check_all([*texts, "monthname(c0)", "dayname(c0)"], [kind], extremes(kind))


DAYS = st.lists(st.none() | st.integers(-800_000, 3_000_000), min_size=1, max_size=20)


@settings(max_examples=examples(100), deadline=None)
@given(DAYS, st.sampled_from(PARTS), st.sampled_from(UNITS[:5]), st.sampled_from(INTERVALS))
def test_random_days(days: list[int | None], part: str, unit: str, interval: str) -> None:
    decided(f"extract({part} FROM c0)", ["DATE"], days)
    decided(f"date_trunc('{unit}', c0)", ["DATE"], days)
    decided(f"c0 - INTERVAL '{interval}'", ["DATE"], days)


MICROS = st.lists(st.none() | st.integers(-(10**17), 10**17), min_size=1, max_size=20)


@settings(max_examples=examples(100), deadline=None)
@given(MICROS, st.sampled_from(PARTS), st.sampled_from(UNITS), st.sampled_from(INTERVALS))
def test_random_times(times: list[int | None], part: str, unit: str, interval: str) -> None:
    decided(f"extract({part} FROM c0)", ["TIMESTAMP"], times)
    decided(f"date_trunc('{unit}', c0)", ["TIMESTAMP"], times)
    decided(f"c0 + INTERVAL '{interval}'", ["TIMESTAMP"], times)
    decided("c0 - c1", ["TIMESTAMP", "TIMESTAMP"], times, times[::-1])
    check("c0::VARCHAR", ["TIMESTAMP"], times)


YEAR_1000, YEAR_10000 = -30_610_224_000_000_000, 253_402_300_800_000_000
NEAR = [0, 1, -1, 999_999, 1_000_000, 59_999_999, -60_000_000, 3_600_000_000, 86_400_000_000]
PIECES = ["%Y", "%m", "%d", "%H", "%M", "%S", "-", " of "]
FIELDS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4)


@st.composite
def close_times(draw: st.DrawFn) -> list[int | None]:
    """Times within moments of a few others, of which formats tell some apart and others not."""
    few = draw(st.lists(st.integers(YEAR_1000, YEAR_10000 - 1), min_size=1, max_size=3))
    pairs = draw(st.lists(st.tuples(st.sampled_from(few), st.sampled_from(NEAR)), max_size=20))
    moved = [min(max(time + step, YEAR_1000), YEAR_10000 - 1) for time, step in pairs]
    nulls = draw(st.lists(st.none(), max_size=2))
    return draw(st.permutations([*few, *moved, *nulls]))


@settings(max_examples=examples(200), deadline=None)
@given(close_times(), FIELDS)
def test_text_of_times_that_a_format_tells_apart_or_not(
    times: list[int | None], fields: list[str]
) -> None:
    text = f"strftime(c0, '{''.join(fields)}')"
    for rows in (times, times * 32):  # a few are formatted one by one
        days = [None if time is None else time // 86_400_000_000 for time in rows]
        decided(text, ["TIMESTAMP"], rows)
        decided(text, ["DATE"], days)
        decided("c0::VARCHAR", ["TIMESTAMP"], rows)

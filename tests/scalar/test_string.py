"""String kernels against DuckDB, with strings of every plane of Unicode."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import check, check_all, check_pairs, decided, extremes
from tests.tiers import examples

TEXTS = [
    "upper(c0)",
    "lower(c0)",
    "length(c0)",
    "strlen(c0)",
    "trim(c0)",
    "ltrim(c0)",
    "rtrim(c0)",
    "trim(c0, 'a é')",
    "ltrim(c0, '')",
    "rtrim(c0, 'c%')",
    "replace(c0, 'a', 'xyz')",
    "replace(c0, '', 'x')",
    "replace(c0, 'ab', '')",
    "replace(c0, 'é', '%')",
    "starts_with(c0, 'a')",
    "prefix(c0, '')",
    "suffix(c0, 'c')",
    "ends_with(c0, 'é')",
    "contains(c0, 'b')",
    "contains(c0, '')",
    "strpos(c0, 'b')",
    "position('bc' IN c0)",
    "instr(c0, '')",
    "c0 || 'x'",
    "'x' || c0 || c0",
    "concat(c0, 'x', NULL, c0)",
    "concat(c0, 1, true)",
    "concat_ws(', ', c0, 'x', c0)",
    "concat_ws('', c0, c0)",
    "coalesce(upper(c0), 'none')",
]
SLICES = [
    f"substring(c0, {start}, {n})" for start in (-5, -2, -1, 0, 1, 2, 4) for n in (0, 1, 2, 9)
]
SLICES += [f"substring(c0, {start})" for start in (-5, -2, 0, 1, 3)]
SLICES += [f"{f}(c0, {n})" for f in ("left", "right") for n in (-5, -1, 0, 1, 2, 10)]
PATTERNS = ["a%", "%a", "%b%", "a_c", "_", "__", "%", "", "abc", "A%C", "%é", "_%_", "a%%b", "%\\%"]
PATTERNS += ["100%", "a.c", "(", "[a]%_", "%B%", "%\n%", "a_", "_\u0301"]


def test_functions() -> None:
    check_all(TEXTS, ["VARCHAR"], extremes("VARCHAR"))


def test_slices() -> None:
    check_all(SLICES, ["VARCHAR"], extremes("VARCHAR"))


@pytest.mark.full
@pytest.mark.parametrize("like", ["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"])
def test_patterns(like: str) -> None:
    patterns = [p for p in PATTERNS if p.isascii() or "ILIKE" not in like]
    check_all([f"c0 {like} '{p}'" for p in patterns], ["VARCHAR"], extremes("VARCHAR"))


def test_escaped_patterns() -> None:
    texts = [f"c0 LIKE '{p}' ESCAPE '!'" for p in ["a!%", "a!_c", "%!!%", "!a%"]]
    check_all(texts, ["VARCHAR"], extremes("VARCHAR"))


PARTS = [f"split_part(c0, '{by}', {n})" for by in ("a", ",", "é", "ab") for n in (1, 2, 9)]
PADS = [
    f"{side}pad(c0, {n}, '{by}')" for side in "lr" for n in (0, 1, 3, 9) for by in ("0", " ", "é")
]
REPLACED = ["a", "^a", "[a-c]+", "x*", "é", ".", "$", "\\s", "(a)(b)", ""]


def test_parts_and_pads() -> None:
    strings = [*extremes("VARCHAR"), "a,b,c", ",", ",,", "abab", "éaé", "0a"]
    check_all([*PARTS, *PADS], ["VARCHAR"], strings)
    for text in [*PARTS, *PADS]:
        decided(text, ["VARCHAR"], strings)


@pytest.mark.parametrize("rest", ["'x'", "''", "'_', 'g'", "'', 'g'"])
def test_replaced_matches(rest: str) -> None:
    texts = [f"regexp_replace(c0, '{pattern}', {rest})" for pattern in REPLACED]
    check_all(texts, ["VARCHAR"], [*extremes("VARCHAR"), "aaa", "a b\na", "xx"])


REGEXES = [
    "a",
    "^a",
    "c$",
    "a.c",
    "[a-cA-C]+",
    "^$",
    "a|é",
    "\\d+",
    "\\bab",
    "(a)(b)?",
    "^.$",
    "\\w",
]


REGEXES += ["[^a]", "\\s", "日.", "^\\S{2,3}$", "%"]


def test_regular_expressions() -> None:
    texts = [f"regexp_matches(c0, '{p}')" for p in REGEXES] + ["c0 ~ 'b'", "c0 !~ 'b'"]
    check_all(texts, ["VARCHAR"], extremes("VARCHAR"))


def test_joined_columns() -> None:
    check_pairs("c0 || c1", ["VARCHAR", "VARCHAR"])
    check_pairs("concat(c0, c1)", ["VARCHAR", "VARCHAR"])
    check_pairs("concat_ws('-', c0, c1)", ["VARCHAR", "VARCHAR"])
    check_pairs("c0 || c1", ["VARCHAR", "INTEGER"])
    check_pairs("c0 || c1", ["DATE", "VARCHAR"])


def test_case_mapping_up_to_latin_extended_a() -> None:
    """These code points are mapped here; they must be mapped as DuckDB maps them."""
    letters = [f"x{chr(i)}y" for i in range(1, 0x180)]
    decided("upper(c0)", ["VARCHAR"], letters)
    decided("lower(c0)", ["VARCHAR"], letters)


def test_trim_of_every_character() -> None:
    letters = [f"{chr(i)}y{chr(i)}" for i in range(1, 0x11000) if not 0xD800 <= i < 0xE000]
    decided("trim(c0)", ["VARCHAR"], letters)
    decided("length(c0)", ["VARCHAR"], letters)


ANY_TEXT = st.text(max_size=6) | st.text("aAbB%_éß \n", max_size=6)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ANY_TEXT | st.none(), min_size=1, max_size=8), st.sampled_from(TEXTS + SLICES))
def test_random_text(values: list[str | None], text: str) -> None:
    check(text, ["VARCHAR"], values)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(ANY_TEXT, min_size=1, max_size=8), st.text("aAbBé%_.\\", max_size=5))
def test_random_patterns(values: list[str], pattern: str) -> None:
    check(f"c0 LIKE '{pattern}'", ["VARCHAR"], values)

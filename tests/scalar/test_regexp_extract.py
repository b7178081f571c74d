"""regexp_extract of a constant pattern and group against DuckDB."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.sql.parse.query import parse_query
from ivm.sql.scalar.compile import explain_missing
from ivm.storage.values.types import type_of
from tests.support.scalar_oracle import check_all, connection, decided, extremes
from tests.tiers import examples

# A pattern, and the group; None for the whole match.
EXTRACTED: list[tuple[str, int | None]] = [
    ("(&|^)channel_id=([^&]*)", 2), ("(&|^)channel_id=([^&]*)", 1), ("a(b)?c", 1), ("(a)(b)?", 2),
    ("b+", None), ("", None), ("^$", None), ("(a)|(b)", 2), ("a|(c)", 1), ("((a)b*)+", 2),
    ("(?:a)(b)", 1), ("(?P<first>a)(.)", 1), ("(?P<first>a)(.)", 2), ("(?P<group_1>a)(.)", 2),
    ("(?P<é>a)(.)", 1),
    ("[(](.)", 1), ("[]a(](.)", 1), ("[^](](.)", 1), (r"\((.)", 1), (r"[\](](.)", 1), (r"\\(.)", 1),
    ("([[:ascii:](]+)", 1), ("(日.)", 1), ("(?s:(.))b", 1), ("((((((((((a))))))))))", 9),
]  # fmt: skip
MORE = ["channel_id=7&x=1", "a=b&channel_id=&channel_id=9", "xabc(a)b", "aabab", "](b", "\\b", "ac"]


def test_groups() -> None:
    texts = [_call(pattern, group) for pattern, group in EXTRACTED]
    strings = [*extremes("VARCHAR"), *MORE]
    check_all(texts, ["VARCHAR"], strings)
    for text in texts:
        decided(text, ["VARCHAR"], strings)
    decided(texts[0], ["VARCHAR"], [None])


@pytest.mark.parametrize(
    ("rest", "construct"),
    [
        ("'(a)', 2", "the groups"),
        ("'(a)', NULL", "options or names"),
        ("'(a)', ['x']", "options or names"),
        ("'a', 'i'", "options or names"),
        ("'(a)', 1, 'i'", "RegexpExtract"),
        ("'(?<x>a)', 1", "the regular expression"),
        ("'(?i)a'", "the regular expression"),
        ("c0", "computed pattern"),
    ],
)
def test_what_duckdb_extracts_alone(rest: str, construct: str) -> None:
    (expr,) = parse_query(f"SELECT regexp_extract(c0, {rest})", connection()).expressions
    missing = explain_missing(expr, [type_of("VARCHAR")])
    assert missing is not None
    assert construct in missing


ATOMS = ["a", "b", ".", "[^a]", "[(]", r"\(", "é", "^", "$", r"\b", r"\w", ""]
REPEATS = ["", "*", "+", "?", "*?", "+?", "??", "{1,2}"]
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(REPEATS)),
        st.builds("(?:{}){}".format, inner, st.sampled_from(REPEATS)),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text("ab(é \n", max_size=6) | st.none(), min_size=1, max_size=8), PATTERNS)
def test_random_groups(values: list[str | None], pattern: str) -> None:
    groups = min(re.compile(pattern).groups, 9)
    for group in [None, *range(1, groups + 1)]:
        decided(_call(pattern, group), ["VARCHAR"], values)


def _call(pattern: str, group: int | None) -> str:
    return f"regexp_extract(c0, '{pattern}'{'' if group is None else f', {group}'})"

"""Comparisons and three-valued logic against DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import (
    check,
    check_all,
    check_pairs,
    check_predicate,
    column_lists,
    extreme_pairs,
    extremes,
)
from tests.tiers import examples

SAME = ["TINYINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(4,1)", "DECIMAL(38,4)"]
SAME += ["DOUBLE", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"]
MIXED = [("TINYINT", "BIGINT"), ("BIGINT", "UBIGINT"), ("UINTEGER", "INTEGER")]
MIXED += [("BIGINT", "DECIMAL(15,2)"), ("DECIMAL(4,1)", "DECIMAL(38,4)"), ("BIGINT", "DOUBLE")]
MIXED += [("DATE", "TIMESTAMP"), ("HUGEINT", "BIGINT"), ("DECIMAL(15,2)", "DOUBLE")]
MIXED += [("FLOAT", "DOUBLE"), ("FLOAT", "INTEGER"), ("HUGEINT", "DECIMAL(15,2)")]
PAIRS = [(t, t) for t in SAME] + MIXED
SIGNS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


COMPOUND = ["c0 BETWEEN c1 AND c1", "c0 IN (c1, NULL)", "c0 NOT IN (c1, c0)", "nullif(c0, c1)"]


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("types", PAIRS, ids=str)
def test_every_pair(types: tuple[str, str]) -> None:
    texts = [f"c0 {sign} c1" for sign in SIGNS] + COMPOUND
    check_all(texts, types, *extreme_pairs(types))


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("INTEGER", "c0 IN (1, 2, 3, 100)"),
        ("INTEGER", "c0 NOT IN (1, 2, 3, NULL)"),
        ("TINYINT", "c0 < 1000"),
        ("INTEGER", "c0 > 0.5"),
        ("INTEGER", "5 >= c0"),
        ("BIGINT", "c0 = 9223372036854775807"),
        ("DECIMAL(15,2)", "c0 BETWEEN 0.05 AND 0.07 + 3"),
        ("DECIMAL(15,2)", "c0 < 24"),
        ("DECIMAL(15,2)", "c0 >= 1e0"),
        ("DOUBLE", "c0 > 0.1"),
        ("DOUBLE", "0.1 <= c0"),
        ("DOUBLE", "c0 < 'nan'::DOUBLE"),
        ("DOUBLE", "c0 IN (0, 1.5, 'nan'::DOUBLE)"),
        ("FLOAT", "c0 = 0.1"),
        ("DATE", "c0 <= '1998-09-02'"),
        ("DATE", "c0 < DATE '1995-03-15' + INTERVAL 3 MONTH"),
        ("DATE", "c0 = '1970-01-01' OR c0 IN ('1970-01-02', '2020-01-01', '1969-12-31')"),
        ("TIMESTAMP", "c0 >= '2000-01-01'"),
        ("TIMESTAMP", "c0 BETWEEN '1969-12-31 23:59:59' AND DATE '2020-03-01'"),
        ("VARCHAR", "c0 = 'a'"),
        ("VARCHAR", "c0 IN ('a', 'é', 'ABC', '')"),
        ("VARCHAR", "c0 NOT IN ('a', 'b', NULL, 'c')"),
        ("VARCHAR", "c0 BETWEEN 'A' AND 'b'"),
        ("VARCHAR", "'a' < c0"),
        ("BOOLEAN", "c0 = true"),
        ("BOOLEAN", "c0 IS DISTINCT FROM NULL"),
        ("INTEGER", "c0 = NULL"),
        ("INTEGER", "c0 IS NOT DISTINCT FROM 3"),
        ("HUGEINT", "c0 > 300"),
    ],
)
def test_constants(type: str, text: str) -> None:
    check(text, [type], extremes(type))


@pytest.mark.parametrize(
    "text",
    [
        *[f"c0 {sign} c1" for sign in SIGNS],
        "c0 BETWEEN c1 AND c1",
        "c0 IN (c1, 5)",
        "nullif(c0, c1)",
        "c0 = 1.123456789",
        "c0 < 1.123456789",
        "c0 IN (1.123456789, 2, 3.5, 4)",
    ],
)
def test_decimals_whose_digits_are_too_many_in_all(text: str) -> None:
    """They are compared with all digits behind the point, or not at all."""
    rows = [(112346, 1123456789), (112346, 1123460000), (10**37, 0), (None, 1), (-5, None)]
    for row in rows:
        check(text, ["DECIMAL(38,5)", "DECIMAL(18,9)"], *[[value] for value in row])


@pytest.mark.parametrize(
    "text",
    [
        "c0 AND c1",
        "c0 OR c1",
        "NOT c0 AND NOT (c1 OR c0)",
        "c0 IS NULL OR c1 IS NOT NULL",
        "c0 IS TRUE",
        "c0 IS NOT TRUE",
        "c0 IS FALSE",
        "c0 IS NOT FALSE",
        "(c0 AND NULL) IS NULL",
        "c0 OR NULL",
        "c0 AND true",
        "c0 <> c1 OR false",
        "coalesce(c0, c1, true)",
    ],
)
def test_logic(text: str) -> None:
    check_pairs(text, ["BOOLEAN", "BOOLEAN"])
    rows = [(a, b) for a in (True, False, None) for b in (True, False, None)]
    check_predicate(text, ["BOOLEAN", "BOOLEAN"], *zip(*rows, strict=True))


def test_conditions_on_numbers() -> None:
    check_pairs("c0 AND c1", ["INTEGER", "BOOLEAN"])


def test_predicate_skips_a_failing_side() -> None:
    check_predicate("c0 <> 0 AND 10 // c0 > 1", ["INTEGER"], [0, 1, 5, 100, None])


@pytest.mark.full
@given(st.data())
@settings(max_examples=examples(30), deadline=None)
def test_random_predicates(data: st.DataObject) -> None:
    columns = data.draw(st.composite(column_lists)(["INTEGER", "VARCHAR"]))
    text = "(c0 > 5 OR c1 IN ('a', 'A')) AND NOT (c0 BETWEEN 8 AND 10 AND c1 < 'b')"
    check_predicate(text, ["INTEGER", "VARCHAR"], *columns)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_random_comparisons(data: st.DataObject) -> None:
    types = data.draw(st.sampled_from(PAIRS))
    sign = data.draw(st.sampled_from(SIGNS))
    check(f"c0 {sign} c1", types, *data.draw(st.composite(column_lists)(types)))

"""Arithmetic kernels against DuckDB: all pairs of extreme values, and random ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scalar_oracle import check, check_pairs, column_lists, decided
from tests.tiers import examples

INTEGERS = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"]
INTEGERS += ["UBIGINT", "HUGEINT"]
DECIMALS = ["DECIMAL(4,1)", "DECIMAL(9,0)", "DECIMAL(15,2)", "DECIMAL(18,6)", "DECIMAL(38,4)"]
NUMBERS = [*INTEGERS, *DECIMALS, "DOUBLE", "FLOAT"]


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%"])
@pytest.mark.parametrize("type", NUMBERS)
def test_operator_on_one_type(type: str, sign: str) -> None:
    check_pairs(f"c0 {sign} c1", [type, type])


WHOLE = ["SMALLINT", "BIGINT", "UBIGINT", "UINTEGER", "HUGEINT"]
MIXED = list(itertools.combinations(WHOLE, 2))
MIXED += [("BIGINT", "DECIMAL(15,2)"), ("DECIMAL(4,1)", "DECIMAL(15,2)"), ("HUGEINT", "DOUBLE")]
MIXED += [("DECIMAL(38,4)", "DECIMAL(4,1)"), ("DOUBLE", "DECIMAL(38,4)"), ("FLOAT", "BIGINT")]


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("types", MIXED, ids=str)
@pytest.mark.parametrize("signs", ["+/", "-*"])
def test_operators_on_mixed_types(types: tuple[str, str], signs: str) -> None:
    check_pairs(f"c0 {signs[0]} c1", types)
    check_pairs(f"c1 {signs[1]} c0", types)


@pytest.mark.full
@pytest.mark.parametrize("types", [*MIXED[-6:], ("DECIMAL(38,4)", "DECIMAL(18,9)")], ids=str)
def test_modulo_of_mixed_types(types: tuple[str, str]) -> None:
    """Also of decimals that become doubles because of their digits: a zero stays an error."""
    for text in ("c0 % c1", "c1 % c0"):
        check_pairs(text, types)


@pytest.mark.cases(3)
@pytest.mark.parametrize("type", NUMBERS)
@pytest.mark.parametrize(
    "text", ["c0 + 1", "1 - c0", "2 * c0", "c0 * 0.5", "c0 / 3", "-c0", "abs(c0)", "c0 + 1.25"]
)
def test_constants_and_signs(type: str, text: str) -> None:
    if type.startswith("U") and text == "-c0":
        text = "c0 - 1"  # the negative of an unsigned number is left to DuckDB
    check_pairs(text, [type])


@pytest.mark.parametrize("type", NUMBERS)
@pytest.mark.parametrize("divisor", ["1", "7", "-1", "-7", "2.5", "-0.5", "0"])
def test_constant_divisors(type: str, divisor: str) -> None:
    """By one divisor numpy computes otherwise than by one for each row."""
    for sign in ("%", "//"):
        check_pairs(f"c0 {sign} ({divisor})", [type])


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_random_constant_divisors(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(["TINYINT", "INTEGER", "BIGINT", "UBIGINT", "DECIMAL(9,0)"]))
    divisor = data.draw(st.integers(-128, 127).filter(bool))
    values = data.draw(st.composite(column_lists)([type]))
    for sign in ("%", "//"):
        check(f"c0 {sign} CAST({divisor} AS TINYINT)", [type], *values)


def test_the_least_integer_has_no_absolute_value() -> None:
    """It once passed for small, and its sum wrapped around."""
    decided("c0 - c1", ["BIGINT", "UBIGINT"], [-(2**63), -5], [8457051611048842, 3])
    decided("c0 + c1", ["HUGEINT", "HUGEINT"], [-(2**63), 2**62], [-1, 2**62])
    check("c0::DECIMAL(38,2)", ["HUGEINT"], [-(2**63), 1])
    check("c0::DECIMAL(18,0)::VARCHAR", ["DECIMAL(38,2)"], [-(2**63), 1])
    check("c0::VARCHAR", ["DECIMAL(38,2)"], [-(2**63), 1])


TPCH = ["DECIMAL(15,2)", "DECIMAL(15,2)", "DECIMAL(15,2)"]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("c0 * (1 - c1)", TPCH),
        ("c0 * (1 - c1) * (1 + c2)", TPCH),
        ("c0 * (1 - c1) - c2 * c1", TPCH),
        ("100.0 * c0 / c1", ["DECIMAL(38,4)", "DECIMAL(38,4)"]),
        ("c0 / c1", ["HUGEINT", "BIGINT"]),
        ("c0 * 1.0", ["HUGEINT"]),
        ("c0 * 1.0 / c1", ["HUGEINT", "BIGINT"]),
        ("0.2 * c0", ["DOUBLE"]),
    ],
)
def test_expressions_of_tpch(text: str, types: list[str]) -> None:
    rows = [[90101, 9, 5], [100000, 0, 8], [-13309, 10, 4], [999999, 7, 0]]
    decided(text, types, *list(zip(*rows, strict=True))[: len(types)])


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_random_operands(data: st.DataObject) -> None:
    types = data.draw(st.sampled_from([(t, t) for t in NUMBERS] + MIXED))
    sign = data.draw(st.sampled_from(["+", "-", "*", "/"]))
    check(f"c0 {sign} c1", types, *data.draw(st.composite(column_lists)(types)))

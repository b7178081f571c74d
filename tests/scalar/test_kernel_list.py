"""The list of kernels: expressions that are on it, and the constructs named of others."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from ivm.sql.parse.query import parse_query
from ivm.sql.scalar.compile import compile_predicate, compile_scalar, explain_missing
from ivm.storage.errors import EvaluationError
from ivm.storage.values.types import ColumnType, type_of
from tests.support.scalar_oracle import (
    check,
    column_lists,
    compiled,
    decided,
    make_column,
    same_bits,
)
from tests.tiers import examples

MONEY = "DECIMAL(15,2)"
# Expressions of TPC-H, over the inputs of the operators that they stand in.
TPCH: list[tuple[str, list[str]]] = [
    ("c0 <= DATE '1998-12-01' - INTERVAL '90' DAY", ["DATE"]),  # Q1
    ("c0 * (1 - c1)", [MONEY, MONEY]),
    ("c0 * (1 - c1) * (1 + c2)", [MONEY, MONEY, MONEY]),
    ("c0 / c1", ["DECIMAL(38,2)", "BIGINT"]),
    ("c0 = 'BUILDING' AND c1 < DATE '1995-03-15'", ["VARCHAR", "DATE"]),  # Q3
    ("c0 >= DATE '1994-01-01' AND c0 < DATE '1994-01-01' + INTERVAL '1' YEAR", ["DATE"]),  # Q5
    ("c0 BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND c1 < 24", [MONEY, MONEY]),  # Q6
    ("c0 BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'", ["DATE"]),  # Q7
    ("extract(year FROM c0)", ["DATE"]),
    ("CASE WHEN c0 = 'BRAZIL' THEN c1 ELSE 0 END", ["VARCHAR", "DECIMAL(31,4)"]),  # Q8
    ("c0 / c1", ["DECIMAL(38,4)", "DECIMAL(38,4)"]),
    ("c0 * (1 - c1) - c2 * c3", [MONEY, MONEY, MONEY, MONEY]),  # Q9
    ("c0 LIKE '%green%'", ["VARCHAR"]),
    ("c0 = 'R' AND c1 >= DATE '1993-10-01'", ["VARCHAR", "DATE"]),  # Q10
    ("c0 > c1 * 0.0001", ["DECIMAL(38,2)", "DECIMAL(38,2)"]),  # Q11
    ("CASE WHEN c0 = '1-URGENT' OR c0 = '2-HIGH' THEN 1 ELSE 0 END", ["VARCHAR"]),  # Q12
    ("c0 IN ('MAIL', 'SHIP') AND c1 < c2 AND c3 < c1", ["VARCHAR", "DATE", "DATE", "DATE"]),
    ("c0 NOT LIKE '%special%requests%'", ["VARCHAR"]),  # Q13
    ("CASE WHEN c0 LIKE 'PROMO%' THEN c1 * (1 - c2) ELSE 0 END", ["VARCHAR", MONEY, MONEY]),  # Q14
    ("100.00 * c0 / c1", ["DECIMAL(38,4)", "DECIMAL(38,4)"]),
    ("c0 <> 'Brand#45' AND c1 IN (49, 14, 23, 45, 19, 3, 36, 9)", ["VARCHAR", "INTEGER"]),  # Q16
    ("c0 / 7.0", ["DECIMAL(38,2)"]),  # Q17
    ("c0 > 300", ["DECIMAL(38,2)"]),  # Q18
    ("c0 = 'AIR' AND (c1 BETWEEN 1 AND 5 OR c2 >= 1 + 10)", ["VARCHAR", "INTEGER", MONEY]),  # Q19
    ("substring(c0, 1, 2) IN ('13', '31', '23')", ["VARCHAR"]),  # Q22
    ("c0 * 1.0 / c1", ["HUGEINT", "BIGINT"]),
]


@pytest.mark.parametrize(("text", "types"), TPCH)
def test_tpch_is_on_the_list(text: str, types: list[str]) -> None:
    plain: dict[str, list[Any]] = {
        "VARCHAR": ["PROMO BOX", "13-green", "R", None],
        "DATE": [9000, 9496, 8800, 9131],
    }
    values: list[list[Any]] = [plain.get(t, [100, 4, 52345, 7]) for t in types]
    decided(text, types, *values)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        *TPCH,
        ("if(c0 > 1, c1, year(c2)::VARCHAR)", ["INTEGER", "VARCHAR", "DATE"]),
        ("datediff('day', c0, c1) + datepart('year', c0)", ["DATE", "DATE"]),
        ("datetrunc('month', c0)", ["TIMESTAMP"]),
        ("time_bucket(INTERVAL '15 minutes', c0)", ["TIMESTAMP"]),
        ("epoch_ms(c0) + epoch_us(c0) + epoch_ns(epoch_ms(c1))", ["TIMESTAMP", "BIGINT"]),
        ("c0::INTEGER + TRY_CAST(split_part(c0, ',', 2) AS INTEGER)", ["VARCHAR"]),
        ("date_diff('hour', c0, c0 + INTERVAL 1 DAY)", ["TIMESTAMP"]),
        ("date_add(c0, INTERVAL 1 DAY)", ["TIMESTAMP"]),
        ("isnan(c0) AND (c1 & 3) << 2 > 0", ["DOUBLE", "INTEGER"]),
        ("lpad(regexp_replace(c0, 'a+', '', 'g'), 5, '0')", ["VARCHAR"]),
    ],
)
def test_what_users_write_is_read_as_what_is_on_the_list(text: str, types: list[str]) -> None:
    with duckdb.connect() as cursor:
        (expr,) = parse_query(f"SELECT {text}", cursor).expressions
    assert explain_missing(expr, [type_of(t) for t in types]) is None


@pytest.mark.parametrize(
    ("text", "types", "construct"),
    [
        ("md5(c0)", ["VARCHAR"], "MD5"),
        ("strptime(c0, '%Y')", ["VARCHAR"], "StrToTime"),
        ("c0::TIME", ["VARCHAR"], "cast of VARCHAR to TIME"),
        ("date_diff('week', c0, c0)", ["TIMESTAMP"], "a difference in week"),
        ("time_bucket(c0, c1)", ["INTERVAL", "TIMESTAMP"], "computed width"),
        ("(c0).data", ["VARIANT"], "a field of VARIANT"),
        ("time_bucket(INTERVAL '1 day 1 hour', c0)", ["TIMESTAMP"], "such a width"),
        ("time_bucket(INTERVAL '-1 day', c0)", ["TIMESTAMP"], "such a width"),
        ("range(c0, c0, INTERVAL '1 month')", ["TIMESTAMP"], "such a step"),
        ("range(c0, c0, INTERVAL '1 day')", ["TIMESTAMP WITH TIME ZONE"], "such a step"),
        ("range(c0, c0, c1)", ["TIMESTAMP", "INTERVAL"], "computed step"),
        ("generate_series(c0, c0, INTERVAL '1 day')", ["TIMESTAMP"], "generate_series"),
        ("c0[1:2]", ["INTEGER[]"], "Bracket"),
        ("c0 < c0", ["INTERVAL"], "INTERVAL <"),
        ("c0 + INTERVAL 1 DAY", ["TIMESTAMP WITH TIME ZONE"], "TIMESTAMP WITH TIME ZONE +"),
        ("c0 > '2020-01-01'", ["TIMESTAMP WITH TIME ZONE"], "TimeZone"),
        ("c0 + length(reverse(c1))", ["INTEGER", "VARCHAR"], "Reverse"),
        ("c0 = now()::DATE", ["DATE"], "not the same for ever"),
        ("c0 < current_localtimestamp()", ["TIMESTAMP"], "not the same for ever"),
        ("c0 = age(TIMESTAMP '2020-01-01')::VARCHAR", ["VARCHAR"], "not the same for ever"),
        ("c0 = dayname(to_timestamp(0))", ["VARCHAR"], "not the same for ever"),
        ("c0 = to_timestamp(0)::DATE", ["DATE"], "not the same for ever"),
        ("c0 = (TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC')::DATE", ["DATE"], "not the same"),
        ("c0 = strptime('1', '%z')::DATE", ["DATE"], "not the same for ever"),
        ("c0 LIKE c0", ["VARCHAR"], "computed pattern"),
        ("unknown_macro(c0)", ["VARCHAR"], "UNKNOWN_MACRO"),
    ],
)
def test_missing_construct_is_named(text: str, types: list[str], construct: str) -> None:
    inputs = [type_of(t) for t in types]
    missing = explain_missing(_parse(text), inputs)
    assert missing is not None
    assert construct in missing
    assert compile_scalar(_parse(text), inputs, type_of("VARCHAR")) is None


def test_missing_construct_of_a_predicate() -> None:
    assert compile_predicate(_parse("c0 < c0"), [type_of("INTERVAL")]) is None


def test_listed_expression_misses_nothing() -> None:
    assert explain_missing(_parse("c0 + 1"), [type_of("INTEGER")]) is None


def test_error_has_the_words_of_duckdb() -> None:
    kernel, _ = compiled("c0 + 1", ("INTEGER",))
    with pytest.raises(EvaluationError, match="Overflow in addition of INT32"):
        kernel([make_column([2**31 - 1], type_of("INTEGER"))], 1)


def test_duckdb_survives_its_own_internal_error() -> None:
    """A timestamp before DuckDB's first makes its cast to text an internal error, which ends it;
    2.0.1 has a text for it."""
    kernel, _ = compiled("c0::VARCHAR", ("TIMESTAMP",))
    with contextlib.suppress(EvaluationError):
        kernel([make_column([-(2**63) + 2], type_of("TIMESTAMP"))], 1)
    with pytest.raises(EvaluationError, match="Overflow"):
        compiled("c0 * 7", ("BIGINT",))[0]([make_column([2**62], type_of("BIGINT"))], 1)


@pytest.mark.parametrize("text", ["1 + 1", "NULL::VARCHAR", "DATE '2020-01-01'", "upper('a')"])
def test_constant_has_a_value_for_every_row(text: str) -> None:
    check(text, ["INTEGER"], [1, 2, 3])
    check(text, ["INTEGER"], [1])


@pytest.mark.parametrize("text", ["c0 + 1", "c1 || 'x'", "c0 > 1", "c2 / 2", "year(c3)", "7"])
def test_empty_batch(text: str) -> None:
    types = ("INTEGER", "VARCHAR", "DOUBLE", "DATE")
    kernel, output = compiled(text, types)
    column = kernel([make_column([], type_of(t)) for t in types], 0)
    assert same_bits(column, make_column([], output), output)


def _parse(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="duckdb")


# A small grammar of nested expressions: type name -> templates over operands of given types.
GRAMMAR: dict[str, list[tuple[str, list[str]]]] = {
    "INTEGER": [
        ("({} + {})", ["INTEGER", "INTEGER"]),
        ("({} * 3)", ["INTEGER"]),
        ("CASE WHEN {} THEN {} ELSE {} END", ["BOOLEAN", "INTEGER", "INTEGER"]),
        ("coalesce({}, {}, 0)", ["INTEGER", "INTEGER"]),
        ("nullif({}, 1)", ["INTEGER"]),
        ("length({})::INTEGER", ["VARCHAR"]),
        ("year({})::INTEGER", ["DATE"]),
    ],
    "DECIMAL(15,2)": [
        ("({} + {})::DECIMAL(15,2)", ["DECIMAL(15,2)", "DECIMAL(15,2)"]),
        ("round({} * {}, 2)::DECIMAL(15,2)", ["DECIMAL(15,2)", "DECIMAL(15,2)"]),
        ("{}::DECIMAL(15,2)", ["INTEGER"]),
        ("greatest({}, {})", ["DECIMAL(15,2)", "DECIMAL(15,2)"]),
    ],
    "DOUBLE": [
        ("({} / {})", ["DECIMAL(15,2)", "INTEGER"]),
        ("({} - {})", ["DOUBLE", "DOUBLE"]),
        ("round({}, 1)", ["DOUBLE"]),
        ("if({}, {}, 0.5)", ["BOOLEAN", "DOUBLE"]),
    ],
    "VARCHAR": [
        ("({} || {})", ["VARCHAR", "VARCHAR"]),
        ("upper({})", ["VARCHAR"]),
        ("substring({}, 2, 2)", ["VARCHAR"]),
        ("concat({}, {}, 'z')", ["INTEGER", "VARCHAR"]),
        ("CASE WHEN {} THEN {} END", ["BOOLEAN", "VARCHAR"]),
    ],
    "DATE": [
        ("({} + 1)", ["DATE"]),
        ("date_trunc('month', {})::DATE", ["DATE"]),
        ("({} - INTERVAL 1 MONTH)::DATE", ["DATE"]),
    ],
    "BOOLEAN": [
        ("({} AND NOT {})", ["BOOLEAN", "BOOLEAN"]),
        ("({} OR {})", ["BOOLEAN", "BOOLEAN"]),
        ("({} < {})", ["INTEGER", "DECIMAL(15,2)"]),
        ("({} >= {})", ["DOUBLE", "DOUBLE"]),
        ("({} IN ('a', 'b', 'ABC'))", ["VARCHAR"]),
        ("({} LIKE '%b%')", ["VARCHAR"]),
        ("({} IS DISTINCT FROM {})", ["DATE", "DATE"]),
        ("({} BETWEEN {} AND 100)", ["INTEGER", "INTEGER"]),
        ("({} IS NULL)", ["DOUBLE"]),
    ],
}
INPUTS = list(GRAMMAR)


def _expression(draw: st.DrawFn, type: str, depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return f"c{INPUTS.index(type)}"
    template, operands = draw(st.sampled_from(GRAMMAR[type]))
    return template.format(*(_expression(draw, o, depth - 1) for o in operands))


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_random_nested_expressions(data: st.DataObject) -> None:
    text = data.draw(st.composite(_expression)(data.draw(st.sampled_from(INPUTS)), 3))
    columns: Sequence[list[object]] = data.draw(st.composite(column_lists)(INPUTS, 5))
    check(text, INPUTS, *columns)


def test_output_type_must_agree() -> None:
    inputs: list[ColumnType] = [type_of("INTEGER")]
    assert compile_scalar(_parse("c0 + 1"), inputs, type_of("BIGINT")) is None

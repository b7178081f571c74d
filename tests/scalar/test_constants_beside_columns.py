"""Constants where a kernel also gets columns: what is computed of them has a value for each row."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.values.types import type_of
from tests.support.scalar_oracle import check, check_columns, make_column, output_type
from tests.tiers import examples

TYPES = ("VARCHAR", "VARCHAR", "INTEGER", "INTEGER", "BOOLEAN", "DOUBLE")
ROWS = [
    ("a", "b", 1, 2, True, 0.5),
    ("b", None, None, 3, False, -0.0),
    (None, "33", 33, None, None, None),
    ("", "a", -1, -1, True, float("nan")),
    ("33", "ä", 2, 1, False, 33.0),
]
TEXTS = [
    "CASE 33 WHEN 1 THEN c0 WHEN 2 THEN c1 END",
    "CASE 33 WHEN 33 THEN c0 ELSE c1 END",
    "CASE 'a' WHEN 'b' THEN c0 WHEN 'a' THEN c1 END",
    "CASE NULL WHEN 1 THEN c2 END",
    "CASE c0 WHEN 'a' THEN true END",
    "CASE WHEN NULL = c2 THEN c0 ELSE 'z' END",
    "NULL BETWEEN c2 AND c3",
    "'b' BETWEEN 'a' AND c0",
    "5 BETWEEN 3 AND c2",
    "c2 BETWEEN 1 AND NULL",
    "NULL IN (c2, c3)",
    "33 IN (1, 2, 3, c2)",
    "33 IN (1, 2, 33, c2)",
    "'a' IN ('x', c0)",
    "(NULL = c2) IS NULL",
    "(NULL = c2) IS NOT TRUE",
    "NOT (NULL BETWEEN c2 AND c3)",
    "1 IS NOT DISTINCT FROM NULL OR c2 = 1",
    "nullif('a', c0)",
    "nullif(33, 33) + c2",
    "concat(CASE WHEN NULL = c2 THEN 'a' END, c0)",
    "upper(CASE 3 WHEN 3 THEN 'a' ELSE c0 END)",
    "coalesce(CASE 3 WHEN 4 THEN c0 END, 'z')",
    "CAST(NULL = c2 AS VARCHAR)",
    "(NULL > c5) AND (1 < 2 OR c4)",
    "CASE WHEN c2 = 99 THEN error('x') ELSE 3 END",
    "CASE WHEN c2 = 99 THEN error('x') WHEN c3 = 1 THEN 'a' ELSE 'b' END",
]


@pytest.mark.parametrize("text", TEXTS)
def test_there_is_a_value_for_each_row(text: str) -> None:
    for rows in (ROWS, ROWS[:1], ROWS[2:3]):
        check(text, TYPES, *zip(*rows, strict=True))


_LEAVES = {
    "s": ["c0", "c1", "'a'", "'33'", "''", "NULL", "'ä'"],
    "n": ["c2", "c3", "1", "33", "-1", "NULL"],
    "b": ["c4", "true", "false", "NULL"],
}
_FORMS = {
    "s": ["CASE {n} WHEN {n} THEN {s} ELSE {s} END", "coalesce({s}, {s})", "nullif({s}, {s})",
          "concat({s}, {s})", "upper({s})", "CASE WHEN {b} THEN {s} END", "CAST({n} AS VARCHAR)",
          "({s} || {s})"],
    "n": ["CASE {s} WHEN {s} THEN {n} WHEN {s} THEN {n} END", "coalesce({n}, {n})",
          "nullif({n}, {n})", "({n} - {n})", "CAST(length({s}) AS INTEGER)", "abs({n})",
          "CASE WHEN {b} THEN {n} ELSE {n} END", "greatest({n}, {n})"],
    "b": ["({n} = {n})", "({s} < {s})", "({n} BETWEEN {n} AND {n})", "({s} IN ({s}, {s}))",
          "({n} IN (1, 2, 33, {n}))", "({b} AND {b})", "({b} OR {b})", "(NOT {b})",
          "({n} IS NULL)", "({b} IS TRUE)", "({s} IS DISTINCT FROM {s})", "({n} <> c5)",
          "({s} LIKE 'a%')", "({s} BETWEEN {s} AND {s})"],
}  # fmt: skip


@st.composite
def _expressions(draw: st.DrawFn, kind: str, depth: int) -> str:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(_LEAVES[kind]))
    form = draw(st.sampled_from(_FORMS[kind]))
    while (at := form.find("{")) >= 0:
        part = draw(_expressions(form[at + 1], depth - 1))
        form = form[:at] + part + form[at + 3 :]
    return form


@pytest.mark.full
@settings(max_examples=examples(200), deadline=None)
@given(text=st.sampled_from("snb").flatmap(lambda kind: _expressions(kind, 3)))
def test_nested_expressions(text: str) -> None:
    try:
        output = output_type(text, TYPES)
    except duckdb.Error:
        return  # types that DuckDB does not combine
    types = [type_of(name) for name in TYPES]
    tree = sqlglot.parse_one(text, dialect="duckdb")
    if output.sql == '"NULL"' or compile_scalar(tree, types, output) is None:
        return
    for rows in (ROWS, ROWS[1:2]):
        columns = zip(zip(*rows, strict=True), types, strict=True)
        check_columns(text, TYPES, [make_column(values, type) for values, type in columns])

"""Fields of structs, elements and lengths of lists against DuckDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.sql.parse.query import parse_query
from ivm.sql.scalar.compile import explain_missing
from ivm.storage.values.column import Column
from ivm.storage.values.types import type_of
from tests.support.scalar_oracle import check_columns, compiled, connection, from_arrow
from tests.support.type_values import NAMES, VALUES
from tests.tiers import examples

PLACES = [0, 1, 2, 5, -1, -3]
CALLS = ["len(c0)", "length(c0)", "array_length(c0)", *[f"c0[{place}]" for place in PLACES]]
CALLS += ["list_extract(c0, 2)", "array_extract(c0, -1)", "list_element(c0, 1)"]


def column(kind: str, values: list[str]) -> Column:
    rows = ", ".join(f"({value}::{kind})" for value in values)
    found = connection().sql(f"SELECT x FROM (VALUES {rows}) t(x)").to_arrow_table().column(0)
    return from_arrow(pa.concat_arrays(found.chunks), kind)


def check_all(texts: list[str], kind: str, values: list[str]) -> None:
    whole = column(kind, values)
    for each in (whole, whole.slice(1, len(values))):
        for text in texts:
            assert compiled(text, (kind,)) is not None
            check_columns(text, (kind,), [each])


def elements(kind: str) -> list[str]:
    return [*[f"CAST({value} AS {kind})" for value in VALUES[kind]], "NULL"]


@pytest.mark.full
@pytest.mark.parametrize("kind", NAMES)
def test_lists(kind: str) -> None:
    some = elements(kind)
    lists = [f"[{', '.join(some[:n])}]" for n in range(len(some) + 1)]
    check_all(CALLS, f"{kind}[]", ["NULL", *lists, "NULL", f"[{', '.join(some * 3)}]", "[]"])


@pytest.mark.full
@pytest.mark.parametrize("kind", [name for name in NAMES if "UNION" not in name])
def test_structs(kind: str) -> None:
    texts = ["(c0).a", "c0['a']", "struct_extract(c0, 'A')", '(c0)."B b"', "array_extract(c0, 'a')"]
    structs = [f"{{'a': {value}, 'B b': {n}}}" for n, value in enumerate(elements(kind))]
    check_all(texts, f'STRUCT(a {kind}, "B b" INTEGER)', ["NULL", *structs, "NULL"])


def test_a_field_that_is_a_union_is_left_to_duckdb() -> None:
    """Arrow's struct_field ends the process."""
    kind = "STRUCT(a UNION(n INTEGER, s VARCHAR), b UNION(n INTEGER)[])"
    (tree,) = parse_query("SELECT (c0).a", connection()).expressions
    missing = explain_missing(tree, [type_of(kind)])
    assert missing is not None
    assert "UNION" in missing
    values = ["NULL", "{'a': union_value(s := 'x'), 'b': [union_value(n := 1), NULL]}"]
    check_all(["(c0).b", "(c0).b[1]", "len((c0).b)"], kind, [*values, "{'a': NULL, 'b': NULL}"])


def test_fields_of_elements() -> None:
    values = ["NULL", "[]", "[{'x': [1, 2]}]", "[NULL, {'x': NULL}]", "[{'x': []}, {'x': [3]}]"]
    texts = ["c0[1].x", "c0[1].x[1]", "c0[2]['x'][-1]", "len(c0[1].x)"]
    check_all(texts, "STRUCT(x INTEGER[])[]", values)


_LISTS = st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=4)


@pytest.mark.full
@settings(max_examples=examples(150), deadline=None)
@given(st.lists(_LISTS, min_size=1, max_size=8), st.integers(-5, 5))
def test_random_lists(lists: list[Any], place: int) -> None:
    texts = [f"c0[{place}]", "len(c0)", f"coalesce(c0[{place}], 0) + len(c0)"]
    shown = ["NULL" if one is None else str(one).replace("None", "NULL") for one in lists]
    check_all(texts, "INTEGER[]", shown)

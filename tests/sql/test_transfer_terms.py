"""Conditions that hold of a column hold of its equals: never of more, and where they then stand."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from ivm.sql.plan.expressions import column, compared, conjunction, text
from ivm.sql.plan.nodes import Aggregate, Filter, Join, Plan, Scan
from ivm.sql.plan.walks import inputs
from ivm.sql.rewrite.transfer_conditions import transferred
from ivm.storage.values.types import type_of
from tests.sql.test_factor_disjunctions import rows
from tests.sql.test_rewrite import cursor, nodes, rewritten

__all__ = ["cursor", "rows"]

_INTEGERS = {i: type_of("INTEGER") for i in range(4)}
_columns = st.builds(column, st.integers(0, 3))
_conditions = st.builds(
    compared,
    st.sampled_from([exp.EQ, exp.NEQ, exp.LT, exp.GTE]),
    _columns,
    st.builds(exp.Literal.number, st.integers(0, 1)),
)
_equalities = st.builds(compared, st.sampled_from([exp.EQ, exp.NullSafeEQ]), _columns, _columns)


@given(terms=st.lists(st.one_of(_equalities, _conditions), max_size=6))
def test_what_is_transferred_follows(
    rows: duckdb.DuckDBPyConnection, terms: list[exp.Expr]
) -> None:
    whole = conjunction(terms)
    for term in transferred(terms, _INTEGERS):
        assert whole is not None
        differing = f"SELECT * FROM r WHERE ({text(whole)}) AND ({text(term)}) IS NOT TRUE"
        assert rows.execute(differing).fetchall() == []


def test_equalities_chain() -> None:
    terms = [
        compared(exp.EQ, column(0), column(1)),
        compared(exp.EQ, column(2), column(1)),
        compared(exp.EQ, column(3), exp.Literal.number(5)),
        compared(exp.EQ, column(0), exp.Literal.number(7)),
    ]
    found = [text(term) for term in transferred(terms, _INTEGERS)]
    assert sorted(found) == [
        text(compared(exp.EQ, column(i), exp.Literal.number(7))) for i in (1, 2)
    ]


@pytest.mark.parametrize("type", ["DOUBLE", "INTERVAL", "INTEGER[]", "DATE"])
def test_values_that_equal_but_differ_keep_their_conditions(type: str) -> None:
    terms = [
        compared(exp.EQ, column(0), column(1)),
        compared(exp.EQ, column(0), exp.Literal.number(0)),
    ]
    assert transferred(terms, dict.fromkeys(range(2), type_of(type))) == []


def _below(plan: Plan) -> Iterator[Plan]:
    for part in inputs(plan):
        yield from nodes(part)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
def test_groups_that_no_row_asks_for_are_not_kept(
    cursor: duckdb.DuckDBPyConnection, kind: str
) -> None:
    query = (
        f"SELECT t.v FROM t {kind} (SELECT k, sum(v) AS s FROM u GROUP BY k) q ON q.k = t.k "
        "WHERE t.k = 2"
    )
    (aggregate,) = {n for n in rewritten(cursor, query) if isinstance(n, Aggregate)}
    assert any(isinstance(n, Filter) for n in _below(aggregate))


def test_a_full_join_keeps_the_rows_of_both_sides(cursor: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT t.v FROM t FULL JOIN (SELECT DISTINCT k FROM u) q ON q.k = t.k AND t.k = 2"
    assert not any(isinstance(n, Filter) for n in rewritten(cursor, query))


def test_a_table_is_looked_up_by_its_key(cursor: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT t.v, u.v FROM t JOIN u USING (k) WHERE t.k = 2"
    found = rewritten(cursor, query)
    (join,) = [n for n in found if isinstance(n, Join)]
    assert isinstance(join.right, Scan)
    assert sum(isinstance(n, Filter) for n in found) == 1

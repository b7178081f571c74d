"""What is drawn out of an OR or implied by it: the same truth, and where it then stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

import ivm
from ivm.sql.plan.expressions import column, compared, conjunction, text, used
from ivm.sql.plan.nodes import Filter, Join, Scan
from ivm.sql.rewrite.factor_disjunctions import factored_conjuncts, implied
from ivm.storage.values.types import type_of
from tests.sql.test_rewrite import cursor, rewritten

__all__ = ["cursor"]

_INTEGERS = {i: type_of("INTEGER") for i in range(4)}
_atoms = st.builds(
    lambda i, value: compared(exp.EQ, column(i), exp.Literal.number(value)),
    st.integers(0, 3),
    st.integers(0, 1),
)


def _both(kind: type[exp.Connector]) -> Callable[..., exp.Expr]:
    return lambda a, b: kind(this=exp.Paren(this=a.copy()), expression=exp.Paren(this=b.copy()))


_terms = st.recursive(
    _atoms,
    lambda t: st.one_of(st.builds(_both(exp.And), t, t), st.builds(_both(exp.Or), t, t)),
    max_leaves=9,
)


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    """Every row of four columns of 0, 1 and NULL."""
    with duckdb.connect() as connection:
        values = "(VALUES (0), (1), (NULL))"
        parts = ", ".join(f"{values} v{i}(c{i})" for i in range(4))
        connection.execute(f"CREATE TABLE r AS SELECT * FROM {parts}")
        yield connection


@given(term=_terms)
def test_factored_terms_have_the_same_truth_for_every_row(
    rows: duckdb.DuckDBPyConnection, term: exp.Expr
) -> None:
    whole = conjunction(factored_conjuncts(term))
    assert whole is not None
    differing = f"SELECT * FROM r WHERE ({text(term)}) IS DISTINCT FROM ({text(whole)})"
    assert rows.execute(differing).fetchall() == []


@given(term=_terms, count=st.integers(1, 3))
def test_what_is_implied_holds_where_the_term_does(
    rows: duckdb.DuckDBPyConnection, term: exp.Expr, count: int
) -> None:
    for weaker in implied(term, {i: _INTEGERS[i] for i in range(count)}):
        assert used(weaker) <= set(range(count))
        lost = f"SELECT * FROM r WHERE ({text(term)}) AND ({text(weaker)}) IS NOT TRUE"
        assert rows.execute(lost).fetchall() == []


def test_an_equality_in_every_branch_is_the_key_of_the_join(
    cursor: duckdb.DuckDBPyConnection,
) -> None:
    query = (
        "SELECT t.k FROM t, u WHERE (t.k = u.k AND t.g = 'a' AND u.name = 'b') "
        "OR (u.name = 'c' AND t.k = u.k AND t.g = 'b')"
    )
    found = rewritten(cursor, query)
    (join,) = [n for n in found if isinstance(n, Join)]
    assert len(join.left_keys) == 1
    assert join.residual is not None
    assert [type(n.input) for n in found if isinstance(n, Filter)] == [Scan, Scan]


def test_a_term_that_may_fail_is_not_tested_without_its_partner() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE a (kind VARCHAR); CREATE TABLE b (v VARCHAR)")
        db.execute(
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM a, b WHERE "
            "(kind = 'int' AND v = 1) OR (kind = 'text' AND v = 'x')"
        )
        db.execute("INSERT INTO b VALUES ('x'), ('1')")
        assert db.execute("FROM m").fetchall() == []

"""Binding: the plan of a query, rendered back, is the query."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.plan.render import render
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from tests.corpus.plan_corpus import QUERIES, REFUSED, build
from tests.support.plan_oracle import assert_means
from tests.support.plans import bound


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=1)
        yield connection


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize("query", [q for group in QUERIES.values() for q in group])
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    assert_means(cursor, bound(query, cursor), query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x.* FROM (u) AS x, t AS y WHERE x.k = y.k",
        """SELECT j->('a'->>'b') FROM (SELECT '{"a": {"b": 1}, "$": 2}'::JSON AS j)""",
        """SELECT j->('{"c": "a"}'->>'c') FROM (SELECT '{"a": {"b": 1}}'::JSON AS j)""",
    ],
)
def test_what_releases_of_duckdb_read_otherwise_means_what_this_one_reads(
    cursor: Cursor, query: str
) -> None:
    """A parenthesis that some do not take, and one that some do not heed."""
    try:
        rows(cursor, query)
    except duckdb.Error as refused:
        with pytest.raises((NotIncremental, type(refused))):
            rows(cursor, render(bound(query, cursor)))
    else:
        assert_means(cursor, bound(query, cursor), query)


@pytest.mark.parametrize(("query", "reason"), list(REFUSED.items()))
def test_what_has_no_plan_is_named(cursor: Cursor, query: str, reason: str) -> None:
    with pytest.raises(NotIncremental, match=reason):
        bound(query, cursor)


def test_functions_of_pg_catalog_have_plans(cursor: Cursor) -> None:
    query = "SELECT pg_typeof(k), pg_size_pretty(k) FROM t WHERE pg_typeof(v) <> 'x'"
    assert_means(cursor, bound(query, cursor), query)


@pytest.mark.parametrize("value", ["(SELECT max(k) FROM t)", "(SELECT 1)", "(VALUES (1))"])
def test_a_subquery_may_have_any_alias(cursor: Cursor, value: str) -> None:
    query = f"SELECT {value} AS _values FROM t"
    assert_means(cursor, bound(query, cursor), query)


def test_comments_are_no_part_of_a_plan(cursor: Cursor) -> None:
    query = "SELECT k /* a */ + 1 AS q, /* b */ upper('x') FROM t WHERE k = 1 -- c\n OR k > 2"
    assert "/*" not in render(bound(query, cursor))

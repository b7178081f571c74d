"""Binding: the plan of a query, rendered back, is the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.plan import NotIncremental
from ivm.sql.render import render
from ivm.storage.duck import Cursor, describe, rows
from tests.plan_corpus import QUERIES, REFUSED, build


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=1)
        yield connection


def multiset(cursor: Cursor, query: str) -> Counter[str]:
    return Counter(repr(row) for row in rows(cursor, query))


@pytest.mark.parametrize("query", [q for group in QUERIES.values() for q in group])
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    rendered = render(bind(query, DuckCatalog(cursor), cursor))
    assert describe(cursor, rendered) == describe(cursor, query)
    assert multiset(cursor, rendered) == multiset(cursor, query)


@pytest.mark.parametrize(("query", "reason"), list(REFUSED.items()))
def test_what_has_no_plan_is_named(cursor: Cursor, query: str, reason: str) -> None:
    with pytest.raises(NotIncremental, match=reason):
        bind(query, DuckCatalog(cursor), cursor)


def test_functions_of_pg_catalog_have_plans(cursor: Cursor) -> None:
    query = "SELECT pg_typeof(k), pg_size_pretty(k) FROM t WHERE pg_typeof(v) <> 'x'"
    rendered = render(bind(query, DuckCatalog(cursor), cursor))
    assert multiset(cursor, rendered) == multiset(cursor, query)

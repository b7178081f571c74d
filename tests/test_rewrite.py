"""Rewriting: every rule keeps content, names and types; each does what it is for."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.render import render
from ivm.sql.rewrite import rewrite
from ivm.storage.duck import Cursor, describe
from tests.plan_corpus import QUERIES, build
from tests.test_bind import multiset


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=2)
        yield connection


@pytest.mark.parametrize("query", [q for group in QUERIES.values() for q in group])
def test_rewritten_plan_is_the_query(cursor: Cursor, query: str) -> None:
    rendered = render(rewrite(bind(query, DuckCatalog(cursor), cursor)))
    assert describe(cursor, rendered) == describe(cursor, query)
    assert multiset(cursor, rendered) == multiset(cursor, query)

"""What DuckDB keeps of views and macros is read as the user's own query is."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind.bind import bind
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.sql.statements.text.stored_text import bare_lambdas, view_query
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus.from_corpus import fill
from tests.support.plan_oracle import assert_means, multiset

# DuckDB keeps "position"(g, 'b'), (lambda x: …), to_months(…), joins in parentheses, FOR (g) IN ….
BODIES = [
    "SELECT k, position('b' IN g) AS p FROM t WHERE position('b' IN g) > 1",
    "SELECT js->>'a.b' AS p, js->'a.b' AS q, json_extract(js, 'a.b') AS r, js->'a'->>0 AS s FROM j",
    "SELECT list_filter(l, lambda x: x > 1) AS f, 'a (lambda b)' AS \"(lambda\" FROM t",
    "SELECT [x + k for x in l if x > 1] AS f, list_reduce(l, lambda x, y: x + y, 0) AS r FROM t",
    "SELECT date_add(day, INTERVAL 1 MONTH) AS d, day + INTERVAL (k) DAY AS e FROM t",
    "SELECT extract(year FROM day) AS y, substring(g FROM 1 FOR 1) AS s FROM t",
    "SELECT trim(BOTH 'b' FROM g), overlay(g PLACING 'x' FROM 1), ts AT TIME ZONE 'UTC' FROM t, u",
    "SELECT t.k, u.name, w.g FROM t JOIN u ON t.k = u.k LEFT JOIN w ON u.v = w.k2",
    "SELECT k, k2, name FROM t FULL JOIN u USING (k) FULL JOIN w ON w.k2 = k",
    "SELECT x.k, w.g FROM (SELECT k FROM t) x JOIN w ON x.k = w.k2, u WHERE u.k = x.k",
    "SELECT * FROM (t JOIN u USING (k)) AS x JOIN w ON k2 = x.k",
    "PIVOT t ON g IN ('a', 'b') USING sum(v) GROUP BY k",
    "SELECT * NOT LIKE '%k%' AS z FROM u",
    "SELECT .5 AS x, typeof(.34) AS y, x'AA' AS z FROM t",
    "WITH m(a, b) AS (VALUES (1, 2)) SELECT m.a, t.k FROM m JOIN t ON t.k = m.b",
    "SELECT k AS z, k IN l AS i, ARRAY[k, v] AS a FROM t WHERE alias.z > 1",
]


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        fill(connection, seed=5)
        yield connection


@pytest.mark.parametrize("body", BODIES)
def test_a_view_over_a_plain_view_is_planned_as_its_query(cursor: Cursor, body: str) -> None:
    cursor.execute(f'CREATE OR REPLACE VIEW "a AS (b" AS {body}')
    query = 'SELECT * FROM "a AS (b"'
    assert multiset(cursor, query) == multiset(cursor, body)
    assert_means(cursor, rewrite(bind(query, DuckCatalog(cursor), cursor)), query)


def test_the_query_of_a_view_begins_behind_its_own_as() -> None:
    head = 'CREATE SECURE VIEW "s as"."v as (" (a, "b as", "as") AS /* as */'
    assert view_query(f"{head} SELECT 1 AS x, 'as;';") == "/* as */ SELECT 1 AS x, 'as;'"


def test_only_lambdas_lose_their_parentheses() -> None:
    text = "f(l, (lambda x: g(x, (lambda y: (y)))), '(lambda)', \"(lambda z\")"
    assert bare_lambdas(text) == ("f(l, lambda x: g(x, lambda y: (y)), '(lambda)', \"(lambda z\")")

"""Names in lambdas: a parameter, or the column of the FROM clause that hides it before a method."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.plan.nodes import NotIncremental
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from tests.support.plan_oracle import assert_means
from tests.support.plans import bound

SETUP = """
CREATE TABLE t (s VARCHAR, l VARCHAR[], y INTEGER);
INSERT INTO t VALUES ('a', ['a', 'b'], 1), ('b', ['x', 'a'], 2);
CREATE TABLE tx (x VARCHAR, l VARCHAR[]);
INSERT INTO tx VALUES ('a', ['a', 'b']);
CREATE TABLE ts (x STRUCT(a VARCHAR), l VARCHAR[]);
INSERT INTO ts VALUES ({'a': 'sa'}, ['q']);
CREATE TABLE x (a VARCHAR);
INSERT INTO x VALUES ('ta');
CREATE MACRO m(p) AS p || '!';
CREATE MACRO w(x) AS list_transform(['k'], lambda s: s.upper() || x);
CREATE MACRO w3() AS list_transform(['k'], lambda s: s.upper());
CREATE MACRO w4(x) AS list_transform(['k'], lambda s: x.upper() || s);
CREATE MACRO w5(l) AS
    list_transform(l, lambda s: list_transform([s], lambda z: s.upper() || z.upper()));
CREATE MACRO w6() AS (SELECT list_transform(['k'], lambda s: s.upper()) FROM t LIMIT 1);
CREATE MACRO w7(x) AS list_transform(['k'], lambda s: m(s.upper()) || x);
CREATE MACRO w8(x) AS list_transform(['k'], lambda z: m(z) || x);
CREATE MACRO of_tx(s) AS TABLE (SELECT list_transform(['k'], lambda s: s.upper()) AS q FROM tx);
CREATE MACRO of_t(s) AS TABLE (SELECT list_transform(['k'], lambda s: s.upper()) AS q FROM t);
CREATE SCHEMA schema_a;
CREATE MACRO schema_a.concat(x, y) AS 'of a schema: ' || x || y
"""

PLANNED = [
    # what is expanded stands apart from the lambda around it
    "SELECT s AS x, list_filter(l, lambda x: x.upper() IN ['A']) FROM t",
    "SELECT s AS x, list_filter(l, lambda X: x.upper() IN ['A']) FROM t",
    "SELECT s AS x, list_transform(l, lambda x: m(x.upper())) FROM t",
    "SELECT list_transform(l, lambda x: m(x.upper())) FROM t",
    "SELECT list_transform(l, lambda x: m(x.upper())) FROM tx",
    "SELECT s AS x, list_transform(l, lambda x: [x.upper() || z for z in ['1']]) FROM t",
    "SELECT s AS x, list_transform([{'a': s}], lambda x: x.a.upper() IN ['A']) FROM t",
    "SELECT list_transform(l, lambda x: CASE WHEN x.upper() IN ['A'] THEN s.lower() END) FROM t",
    # columns hide the parameters of comprehensions, too
    "SELECT [s.upper() for s in l] FROM t",
    "SELECT s AS z, [z.upper() for z in l if z.upper() = 'A'] FROM t",
    "SELECT [x for x in l if x.upper() = 'A'] FROM tx",
    "SELECT [[x.upper() || z for z in ['1']] for x in l] FROM tx",
    "SELECT s AS x, [x for x in x.string_split('')] FROM t",
    # of a name alone, or of fields of it
    "SELECT list_transform(['k'], lambda x: x.upper() || (x || '').upper()) FROM tx",
    "SELECT list_transform(['k'], lambda x: (x).upper() || x[1:1].upper()) FROM tx",
    "SELECT list_transform(['k'], lambda x: x.concat((x).upper())) FROM tx",
    "SELECT list_transform([{'a': 'k'}], lambda x: x.a.upper() || x['a'].upper()) FROM ts",
    "SELECT list_transform([{'a': 'k'}], lambda x: x.a.upper() || (x).a.upper()) FROM x",
    "SELECT list_transform(['k'], lambda x: [x].list_transform(lambda z: z || x.upper())) FROM tx",
    # only of the FROM clause they stand over
    "SELECT (SELECT list_transform(['k'], lambda s: s.upper()) FROM tx) FROM t",
    "SELECT (SELECT max(list_transform(['k'], lambda s: s.upper())) FROM tx) FROM t",
    "SELECT (SELECT max(list_transform(['k'], lambda s: s.upper() || t.s)) FROM tx) FROM t",
    "SELECT * FROM t, unnest(list_transform(l, lambda s: s.upper())) AS u",
    "SELECT unnest(list_transform(['k'], lambda x: x.upper())) FROM tx",
    # in macros
    "SELECT s, w(v), w3(), w4(v), w5(l), w7(v), w8(v) FROM (SELECT *, s || '!' AS v FROM t)",
    "SELECT w6() FROM t",
    "FROM of_tx('z')",
    "FROM of_t('z')",
    # small letters of A to Z alone
    """SELECT 's' AS "ä", list_transform(['k'], lambda "Ä": "Ä".upper()) FROM t""",
    """SELECT list_transform(['k'], lambda "Ä": "Ä".upper()) FROM (SELECT 's' AS "ä")""",
    """SELECT ["Ä" || "ä" for "Ä" in ['k']] FROM (SELECT 's' AS "ä")""",
]
# Where x.a is no method, DuckDB takes the column in some clauses and the parameter in others.
REFUSED = [
    "SELECT w(s) FROM t",
    "SELECT s AS z, w8(z) FROM t",
    "SELECT w8(z) FROM (SELECT s AS z FROM t)",
    "SELECT 1 FROM (SELECT s AS z FROM t) WHERE w8(z.upper()) = ['k!k']",
    "SELECT list_transform([{'a': 'k'}], lambda x: x.a) FROM ts",
    "SELECT list_transform([{'a': 'k'}], lambda x: x.a) FROM x",
    "SELECT list_transform([{'a': 'k'}], lambda x: list_transform([1], lambda z: x.a)) FROM x",
    "SELECT [x.a for x in [{'a': 'k'}]] FROM ts",
    "SELECT list_transform([{'x': {'a': 'k'}}], lambda q: q.x['a']) FROM ts AS q",
    "SELECT list_transform([{'x': {'a': 'k'}}], lambda main: main.x.a) FROM x",
    "SELECT 1 FROM ts WHERE list_transform([{'a': 'k'}], lambda x: x.a) = ['k']",
    "SELECT count(*) FROM ts HAVING first(list_transform([{'a': 'k'}], lambda x: x.a)) = ['k']",
]
# Behind a dot, a function of the schema or database hides the method of a column.
QUALIFIED = [
    "SELECT schema_a.concat(s, s) FROM t AS schema_a",
    "SELECT schema_a.concat(a, a) FROM (SELECT s AS schema_a, s AS a FROM t)",
    "SELECT main.concat(main) FROM (SELECT s AS main FROM t)",
    "SELECT memory.m(s) FROM t AS memory",
    "SELECT list_transform(['k'], lambda schema_a: schema_a.concat(schema_a, 'z')) FROM t",
]


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        yield connection


@pytest.mark.cases(3)
@pytest.mark.parametrize("query", PLANNED)
def test_a_name_in_a_lambda_means_what_it_means_to_duckdb(cursor: Cursor, query: str) -> None:
    assert_means(cursor, bound(query, cursor), query)


@pytest.mark.parametrize("query", REFUSED)
def test_a_field_that_may_be_a_column_has_no_plan(cursor: Cursor, query: str) -> None:
    rows(cursor, query)
    with pytest.raises(NotIncremental, match="a lambda"):
        bound(query, cursor)


@pytest.mark.parametrize("query", QUALIFIED)
def test_a_method_that_may_be_a_function_of_a_schema_has_no_plan(
    cursor: Cursor, query: str
) -> None:
    rows(cursor, query)
    with pytest.raises(NotIncremental, match="a schema or database"):
        bound(query, cursor)

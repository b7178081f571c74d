"""Rules that go by primary keys: lookups above aggregates, semi-joins below joins, unique keys."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.sql.bind.bind import bind
from ivm.sql.plan.nodes import Aggregate, Join, Plan, Scan
from ivm.sql.plan.render import render
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows, run
from tests.support.plan_oracle import multiset
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TABLES = """
CREATE TABLE nation (n INTEGER PRIMARY KEY, name VARCHAR);
CREATE TABLE customer (c INTEGER PRIMARY KEY, name VARCHAR, n INTEGER, balance INTEGER);
CREATE TABLE orders (o INTEGER PRIMARY KEY, c INTEGER, day INTEGER);
CREATE TABLE line (o INTEGER, number INTEGER, part INTEGER, supplier INTEGER, x DECIMAL(9,2),
    PRIMARY KEY (o, number));
CREATE TABLE partsupp (part INTEGER, supplier INTEGER, cost INTEGER, PRIMARY KEY (part, supplier));
CREATE TABLE loose (o INTEGER, c INTEGER, word VARCHAR);
"""
_ALL = "customer, orders, line, nation"
_JOINED = "customer.c = orders.c AND orders.o = line.o AND customer.n = nation.n"
LIFTED = {  # the columns by which the aggregate groups in the end, and the query
    "q10": (
        1,
        f"""SELECT customer.c, customer.name, sum(x * (1 - x)) AS total, balance, nation.name
        FROM {_ALL} WHERE {_JOINED} AND day > 1 AND number = 1
        GROUP BY customer.c, customer.name, balance, nation.name""",
    ),
    "q18": (
        3,
        """SELECT customer.name, customer.c, orders.o, day, sum(x) FROM customer, orders, line
        WHERE orders.o IN (SELECT o FROM line GROUP BY o HAVING sum(x) > 3)
          AND customer.c = orders.c AND orders.o = line.o
        GROUP BY customer.name, customer.c, orders.o, day HAVING count(*) > 1""",
    ),
    "key of two columns": (
        2,
        """SELECT line.part, line.supplier, cost, count(*), max(x)
        FROM line JOIN partsupp USING (part, supplier)
        GROUP BY line.part, line.supplier, cost""",
    ),
    "of all orders": (
        1,
        """SELECT orders.o, day, orders.c, count(*), min(CASE WHEN x > 1 THEN x END) FROM orders
        JOIN line ON orders.o = line.o GROUP BY ALL""",
    ),
    "twice": (
        1,
        """SELECT loose.c, customer.name, balance, count(word) FROM loose
        JOIN customer ON customer.c = loose.c GROUP BY ALL""",
    ),
    "two lookups": (
        2,
        """SELECT loose.c, loose.o, day, customer.name, sum(loose.o) FROM loose, customer, orders
        WHERE customer.c = loose.c AND orders.o = loose.o GROUP BY ALL""",
    ),
}
KEPT = {  # why the lookup stays below, and the query
    "it chooses rows": """SELECT customer.c, customer.name, sum(day) FROM customer, orders
        WHERE customer.c = orders.c AND customer.name = 'a' GROUP BY ALL""",
    "the group does not determine it": """SELECT customer.name, sum(day) FROM customer, orders
        WHERE customer.c = orders.c GROUP BY ALL""",
    "an aggregate reads it": """SELECT customer.c, customer.name, sum(balance)
        FROM customer, orders WHERE customer.c = orders.c GROUP BY ALL""",
    "it has no key": """SELECT loose.o, loose.word, sum(x) FROM loose, line
        WHERE loose.o = line.o GROUP BY ALL""",
    "an expression could fail without it": """SELECT customer.c, customer.name,
        sum(CAST(word AS INTEGER)) FROM customer, loose WHERE customer.c = loose.c GROUP BY ALL""",
    "integers could overflow without it": """SELECT customer.c, customer.name, sum(day * day)
        FROM customer, orders WHERE customer.c = orders.c GROUP BY ALL""",
    "other types": """SELECT customer.c, customer.name, count(*) FROM customer, loose
        WHERE customer.c = CAST(loose.o AS BIGINT) GROUP BY ALL""",
    "it holds others together": """SELECT line.part, loose.c, cost, count(*)
        FROM line, loose, partsupp WHERE partsupp.part = line.part AND partsupp.supplier = loose.c
        GROUP BY ALL""",
}


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        run(connection, TABLES)
        yield connection


few, some = st.integers(0, 4), st.none() | st.integers(0, 5)
words = st.sampled_from([None, "a", "b"])
contents = st.fixed_dictionaries(
    {
        "nation": st.dictionaries(few, st.tuples(words), max_size=4),
        "customer": st.dictionaries(few, st.tuples(words, some, some), max_size=5),
        "orders": st.dictionaries(few, st.tuples(some, some), max_size=5),
        "line": st.dictionaries(st.tuples(few, few), st.tuples(some, some, some), max_size=12),
        "partsupp": st.dictionaries(st.tuples(few, few), st.tuples(some), max_size=12),
        "loose": st.lists(st.tuples(some, some, st.sampled_from([None, "1", "2"])), max_size=8),
    }
)


def fill(cursor: Cursor, data: dict[str, object]) -> None:
    for table, content in data.items():
        run(cursor, f"DELETE FROM {table}")
        found = content
        if isinstance(content, dict):
            keyed = [(k if isinstance(k, tuple) else (k,), v) for k, v in content.items()]
            found = [(*key, *values) for key, values in keyed]
        for row in found:  # type: ignore[attr-defined]
            run(cursor, f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row))


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in inputs(plan):
        yield from nodes(part)


def rewritten(cursor: Cursor, query: str) -> Plan:
    return rewrite(bind(query, DuckCatalog(cursor), cursor))


@pytest.fixture(scope="module")
def plans(cursor: Cursor) -> dict[str, Plan]:
    queries = [*[query for _, query in LIFTED.values()], *KEPT.values(), *SUNK]
    found = {query: rewritten(cursor, query) for query in queries}
    for query, plan in found.items():
        assert describe(cursor, render(plan)) == describe(cursor, query)
    return found


@pytest.mark.full
@settings(max_examples=examples(20), deadline=None)
@given(data=contents)
def test_the_rules_keep_the_content(
    cursor: Cursor, plans: dict[str, Plan], data: dict[str, object]
) -> None:
    fill(cursor, data)
    for query, plan in plans.items():
        assert multiset(cursor, render(plan)) == multiset(cursor, query), query


@pytest.mark.full
@settings(max_examples=examples(8), deadline=None)
@given(data=contents)
def test_keys_are_unique(cursor: Cursor, plans: dict[str, Plan], data: dict[str, object]) -> None:
    fill(cursor, data)
    for plan in plans.values():
        for node in nodes(plan):
            names = ", ".join(f"c{i}" for i in range(len(node.schema)))
            for key in unique_keys(node):
                by = f"GROUP BY {', '.join(f'c{i}' for i in key)}" if key else ""
                counts = f"SELECT count(*) AS n FROM ({render(node)}) AS t({names}) {by}"
                assert rows(cursor, f"SELECT count(*) FROM ({counts}) WHERE n > 1") == [(0,)]


@pytest.mark.full
@pytest.mark.parametrize("name", LIFTED)
def test_lookups_stand_above_the_aggregate(cursor: Cursor, name: str) -> None:
    width, query = LIFTED[name]
    found = [n for n in nodes(rewritten(cursor, query)) if isinstance(n, Aggregate)]
    assert len(found[0].groups) == width
    joined = [n for n in nodes(found[0]) if isinstance(n, Scan)]
    assert not any("customer" in scan.relation for scan in joined)


@pytest.mark.parametrize("why", KEPT)
def test_other_joins_stay_below(cursor: Cursor, why: str) -> None:
    plan = rewritten(cursor, KEPT[why])
    above = next(n for n in nodes(plan) if isinstance(n, (Join, Aggregate)))
    assert isinstance(above, Aggregate)


SUNK = [
    "SELECT customer.c, x FROM customer, orders, line WHERE customer.c = orders.c"
    " AND orders.o = line.o AND orders.o IN (SELECT o FROM loose WHERE c > 1)",
    "SELECT customer.c, x FROM customer, orders, line WHERE customer.c = orders.c"
    " AND orders.o = line.o AND day > 0"
    " AND EXISTS (FROM loose WHERE loose.o = orders.o AND loose.word = '1')",
    "SELECT cost, x FROM partsupp, line WHERE partsupp.part = line.part"
    " AND (partsupp.part, partsupp.supplier) IN (SELECT o, c FROM loose)",
]


@pytest.mark.parametrize("query", SUNK)
def test_a_semi_join_stands_on_the_relation_whose_key_it_has(cursor: Cursor, query: str) -> None:
    (semi,) = [
        n for n in nodes(rewritten(cursor, query)) if isinstance(n, Join) and n.kind == "semi"
    ]
    assert not any(isinstance(n, Join) for n in nodes(semi.left))


def test_a_semi_join_by_other_columns_stays(cursor: Cursor) -> None:
    query = """SELECT o FROM customer, orders WHERE customer.c = orders.c
        AND orders.day IN (SELECT o FROM loose)"""
    (semi,) = [
        n for n in nodes(rewritten(cursor, query)) if isinstance(n, Join) and n.kind == "semi"
    ]
    assert any(isinstance(n, Join) for n in nodes(semi.left))


@pytest.mark.full
@settings(max_examples=examples(6), deadline=None)
@given(history=st.lists(contents, min_size=2, max_size=3))
def test_views_follow_their_tables(history: list[dict[str, object]]) -> None:
    with ivm.connect() as db:
        db.execute(TABLES)
        for number, query in enumerate([*[q for _, q in LIFTED.values()], *SUNK]):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        for data in history:
            with db.transaction():
                for table, content in data.items():
                    db.execute(f"DELETE FROM {table}")
                    pairs = content.items() if isinstance(content, dict) else []
                    found = [(*(k if isinstance(k, tuple) else (k,)), *v) for k, v in pairs]
                    for row in found or (content if isinstance(content, list) else []):
                        marks = ", ".join("?" * len(row))
                        db.execute(f"INSERT INTO {table} VALUES ({marks})", list(row))
            assert_verified(db)

"""What is computed for rows without a partner in a looked-up table fails for none of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import ivm
from ivm.sql.rewrite.cannot_fail import cannot_fail
from ivm.storage.values.types import type_of
from tests.support.view_oracle import assert_views_right
from tests.tiers import examples

TYPES = [
    "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "FLOAT", "DECIMAL(9,2)", "DECIMAL(20,4)",
    "DECIMAL(38,10)", "VARCHAR", "DATE", "BOOLEAN",
]  # fmt: skip
EXTREMES = {
    "INTEGER": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["-170141183460469231731687303715884105728",
                "170141183460469231731687303715884105727"],
    "DOUBLE": ["-1e308", "'nan'"],
    "FLOAT": ["3e38", "'-inf'"],
    "DECIMAL(9,2)": ["-9999999.99", "9999999.99"],
    "DECIMAL(20,4)": ["9999999999999999.9999", "-9999999999999999.9999"],
    "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-1"],
    "VARCHAR": ["''", "'x'"],
    "DATE": ["'infinity'", "'0001-01-01'"],
    "BOOLEAN": ["false", "true"],
}  # fmt: skip

_leaves = st.sampled_from(
    [f"c{i}" for i in range(len(TYPES))] + ["1", "-7", "3000000000", "0.25", "1e300", "'5'", "NULL"]
)


def _larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = ["+", "-", "*", "=", "<", "AND", "OR", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    return st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(signs), part),
        st.builds("(- {})".format, part),
        st.builds("({} IS NULL)".format, part),
        st.builds("coalesce({}, {}, {})".format, part, part, part),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, part, part, part),
        st.builds("CASE WHEN {} THEN {} END".format, part, part),
    )


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows that mix the least and the greatest values and NULL."""
    random = Random(1)
    with duckdb.connect() as connection:
        made = [
            [f"CAST({random.choice([*EXTREMES[t], 'NULL'])} AS {t})" for t in TYPES]
            for _ in range(60)
        ]
        columns = ", ".join(f"c{i}" for i in range(len(TYPES)))
        values = ", ".join(f"({', '.join(row)})" for row in made)
        connection.execute(f"CREATE TABLE r AS FROM (VALUES {values}) AS r({columns})")
        connection.execute("PRAGMA disable_optimizer")
        yield connection


@settings(max_examples=examples(300), deadline=None)
@given(st.recursive(_leaves, _larger, max_leaves=6))
def test_no_extreme_value_makes_it_fail(rows: duckdb.DuckDBPyConnection, text: str) -> None:
    expr = sqlglot.parse_one(text, dialect="duckdb")
    if not cannot_fail(expr, [type_of(t) for t in TYPES]):
        return
    try:
        rows.execute(f"EXPLAIN SELECT {text} FROM r")
    except duckdb.BinderException:
        return  # of no rows at all
    try:
        rows.execute(f"SELECT {text} FROM r").fetchall()
    except duckdb.OutOfRangeException as error:
        if "multiplication of DECIMAL(18)" not in str(error):  # the limit the module tells of
            raise


@pytest.mark.parametrize(
    "text",
    ["c8 * (1 - c8)", "c6 + c7", "-c6", "c4 * c5 - 1", "c6 * 2", "CASE WHEN c0 < 5 THEN 1 END",
     "CASE WHEN c9 = 'x' OR c11 THEN c6 ELSE 0 END", "c1 > c2", "c10 IS NULL",
     "c6 IS DISTINCT FROM c7", "coalesce(c6, 0) IS NOT DISTINCT FROM 1"],
)  # fmt: skip
def test_what_is_taken(text: str) -> None:
    types = [*TYPES[:8], "DECIMAL(15,2)", *TYPES[9:]]
    expr = sqlglot.parse_one(text, dialect="duckdb")
    assert cannot_fail(expr, [type_of(t) for t in types])


@pytest.mark.parametrize(
    "text",
    ["c0 + 1", "-c0", "c0 * c1", "c9 = 5", "c8 + c8", "c7 * c8", "c3 > c6", "c0 IS TRUE",
     "c10 < '5'", "CASE WHEN c0 THEN 1 END", "CASE c9 WHEN 5 THEN 1 END", "abs(c0)",
     "CASE WHEN c11 THEN 'x' ELSE c0 END", "c9 IS DISTINCT FROM 5", "coalesce(c9, 5)"],
)  # fmt: skip
def test_what_is_not_taken(text: str) -> None:
    expr = sqlglot.parse_one(text, dialect="duckdb")
    assert isinstance(expr, exp.Expr)
    assert not cannot_fail(expr, [type_of(t) for t in TYPES])


SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, n INTEGER, code VARCHAR, h HUGEINT);
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("sum(n * n)", "7, 1000000, NULL, NULL"),
        ("sum(CASE WHEN code = 5 THEN 1 END)", "7, 1, 'x', NULL"),
        ("sum(h)", "7, 1, NULL, 170141183460469231731687303715884105727"),
        ("max(-n)", "7, -2147483648, NULL, NULL"),
    ],
)
def test_rows_without_a_partner_do_not_refuse_a_commit(call: str, values: str) -> None:
    query = f"SELECT c.id, name, {call} AS x FROM orders JOIN customers c ON customer = c.id"
    with ivm.connect() as db, duckdb.connect() as twin:
        for one in (db, twin):
            one.execute(SCHEMA)
            one.execute("INSERT INTO customers VALUES (1, 'a')")
            one.execute("INSERT INTO orders VALUES (1, 1, 2, '5', 3)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query} GROUP BY c.id, name")
        for one in (db, twin):
            one.execute(f"INSERT INTO orders VALUES (2, {values}), (3, {values})")
        assert_views_right(db, twin)


def test_amounts_times_rates_are_summed_below_the_lookup() -> None:
    """The customer's name is looked up above the aggregate."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR)")
        db.execute(
            "CREATE TABLE sales (customer INTEGER, amount DECIMAL(15,2), rate DECIMAL(15,2))"
        )
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT c.id, name, sum(amount * (1 - rate)) AS net"
            " FROM sales JOIN customers c ON customer = c.id GROUP BY c.id, name"
        )
        plan = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()[0][1]
        assert plan.index("Join") < plan.index("Aggregate")

"""Rewriting: every rule keeps content, names and types; each does what it is for."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.plan.nodes import Filter, Join, Plan, Scan, TopK
from ivm.sql.plan.walks import inputs
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus.plan_corpus import QUERIES, build
from tests.support.plan_oracle import assert_means
from tests.support.plans import planned


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=2)
        yield connection


@pytest.mark.cases(8)
@pytest.mark.parametrize("query", [q for group in QUERIES.values() for q in group])
def test_rewritten_plan_is_the_query(cursor: Cursor, query: str) -> None:
    assert_means(cursor, planned(query, cursor), query)


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in inputs(plan):
        yield from nodes(part)


def rewritten(cursor: Cursor, query: str) -> list[Plan]:
    """All nodes of a query's rewritten plan, from the top."""
    return list(nodes(planned(query, cursor)))


def test_filters_stand_on_their_scans_and_scans_hold_what_is_read(cursor: Cursor) -> None:
    query = "SELECT t.g FROM t, u WHERE t.k = u.k AND t.v > 1 AND u.name = 'a'"
    found = rewritten(cursor, query)
    filters = [n for n in found if isinstance(n, Filter)]
    assert [type(f.input) for f in filters] == [Scan, Scan]
    scans = [[name for name, _ in n.schema] for n in found if isinstance(n, Scan)]
    assert scans == [["k", "g", "v"], ["k", "name"]]


def test_a_comma_join_has_no_cross_product_where_equalities_connect(cursor: Cursor) -> None:
    query = "SELECT t.k FROM t, w, u WHERE t.k = u.k AND u.v = w.k2 AND t.v > u.v"
    joins = [n for n in rewritten(cursor, query) if isinstance(n, Join)]
    assert [len(j.left_keys) for j in joins] == [1, 1]
    assert sum(j.residual is not None for j in joins) == 1


SNOWFLAKE = """
    CREATE OR REPLACE TABLE area (aid INTEGER PRIMARY KEY, name VARCHAR);
    CREATE OR REPLACE TABLE shop (sid INTEGER PRIMARY KEY, area INTEGER, kind INTEGER);
    CREATE OR REPLACE TABLE item (iid INTEGER PRIMARY KEY, twin INTEGER, color VARCHAR);
    CREATE OR REPLACE TABLE twins (tid INTEGER PRIMARY KEY);
    CREATE OR REPLACE TABLE sale (shop INTEGER, item INTEGER, n INTEGER)"""


def shape(plan: Plan) -> str:
    """The tables of a plan, each join in parentheses."""
    if isinstance(plan, Scan):
        return plan.relation.split(".")[-1].strip('"')
    parts = " ".join(shape(part) for part in inputs(plan))
    return f"({parts})" if isinstance(plan, Join) else parts


@pytest.mark.parametrize(
    ("tables", "condition", "expected"),
    [
        ("area, shop, sale", "aid = area AND sid = shop", "(sale (shop area))"),
        ("shop, item, sale", "sid = shop AND iid = item", "((sale shop) item)"),
        ("shop, item, sale", "sid = shop AND iid = item AND color = 'r'", "((sale item) shop)"),
        ("shop, area, item, sale", "sid = shop AND aid = area AND iid = item AND name = 'n'",
         "((sale (shop area)) item)"),
        ("item, twins, sale", "iid = tid AND iid = item", "(sale (twins item))"),
        ("item, area, sale", "iid = item AND aid = item", "((sale item) area)"),
        ("sale, shop", "shop.kind = n", "(sale shop)"),
        ("shop, area, sale", "aid = area", "((shop area) sale)"),
        ("item a, item b, item c", "a.twin = b.iid AND b.twin = c.iid AND c.twin = a.iid",
         "((item item) item)"),
    ],
)  # fmt: skip
def test_what_is_looked_up_meets_its_own_lookups_first(
    cursor: Cursor, tables: str, condition: str, expected: str
) -> None:
    cursor.execute(SNOWFLAKE).fetchall()
    query = f"SELECT count(*) FROM {tables} WHERE {condition}"
    assert shape(planned(query, cursor)) == expected


def test_keys_of_different_types_meet_in_the_type_duckdb_compares_in(cursor: Cursor) -> None:
    found = rewritten(cursor, "SELECT t.k FROM t JOIN u ON t.k = u.d AND t.day = u.ts")
    (join,) = [n for n in found if isinstance(n, Join)]
    for side, keys in ((join.left, join.left_keys), (join.right, join.right_keys)):
        assert [side.schema[i][1].sql for i in keys] == ["DECIMAL(13,3)", "TIMESTAMP"]


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [("rn <= 3", (0, 3)), ("rn < 3", (0, 2)), ("rn = 2", (1, 1)), ("2 >= rn AND rn > 1", (1, 1)),
     ("rn BETWEEN 2 AND 5", (1, 4)), ("rn > 4 AND rn < 3", (4, 0))],
)  # fmt: skip
def test_a_bound_on_row_number_bounds_the_top_k(
    cursor: Cursor, condition: str, bounds: tuple[int, int]
) -> None:
    query = "SELECT g FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY v) rn FROM t)"
    found = rewritten(cursor, f"{query} WHERE {condition}")
    (top,) = [n for n in found if isinstance(n, TopK)]
    assert (top.offset, top.limit) == bounds
    assert not top.rank
    assert not any(isinstance(n, Filter) for n in found)


def test_a_grouped_filter_passes_below_unless_equal_values_can_differ(cursor: Cursor) -> None:
    below = rewritten(cursor, "SELECT g, count(*) FROM t GROUP BY g HAVING g > 'a'")
    assert isinstance(below[-2], Filter)
    # 1 / -0.0 is not 1 / 0.0, though both are one group.
    above = rewritten(cursor, "SELECT f, count(*) FROM t GROUP BY f HAVING 1 / f > 0")
    assert isinstance(above[-1], Scan)
    assert not isinstance(above[-2], Filter)

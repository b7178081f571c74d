"""What stands in FROM and around it: planned as DuckDB answers, and maintained by deltas.

Every query of the corpus is a view of one circuit; after every change its rows are compared with
its rendering, and the rendering with the query itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

import ivm
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, table
from tests.corpus.from_corpus import QUERIES, fill
from tests.support.circuit_world import Epochs, World, followed, worlds
from tests.support.plan_oracle import assert_means
from tests.support.plans import bound
from tests.tiers import examples, some

ALL = some([q for group in QUERIES.values() for q in group], 7)
STEPS = examples(4)
BOTH = (World.rendered, World.wanted)


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        fill(connection, seed=3)
        yield connection


@pytest.mark.parametrize("query", ALL)
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    assert_means(cursor, bound(query, cursor), query)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[World, Epochs]]:
    with worlds(fill, 4, ALL) as (world, spare):
        yield world, followed(world, spare, ("t", "u", "w", "j"), STEPS, BOTH)


@pytest.mark.cases(4)
@pytest.mark.parametrize("query", ALL)
def test_view_follows_its_tables(world: tuple[World, Epochs], query: str) -> None:
    for epoch in world[1]:
        maintained, rendered, wanted = epoch[query]
        assert maintained == rendered
        assert rendered == wanted


def test_unnest_and_range_hold_no_state(
    world: tuple[World, Epochs],
) -> None:
    circuit = world[0].circuit
    linear = ("SELECT k, unnest(range(k)), unnest(NULL) FROM t", *QUERIES["unnest in FROM"][:4])
    taken = [query for query in linear if query in ALL]
    assert taken
    for query in taken:
        nodes = circuit.nodes_of(query)
        assert {circuit.node(n).operator.strategy for n in nodes} == {"linear"}


def test_an_asof_join_touches_the_rows_up_to_the_neighbour() -> None:
    query = "SELECT l.v, r.j FROM l ASOF JOIN r ON l.v >= r.v"
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        cursor.execute("CREATE TABLE l AS SELECT i AS v FROM range(2000) s(i)")
        cursor.execute("CREATE TABLE r AS SELECT i AS j, 100 * i AS v FROM range(20) s(i)")
        world = World(cursor, [query])
        cursor.execute("INSERT INTO r VALUES (99, 150)")
        schema = DuckCatalog(cursor).schema('"main"."r"')
        assert schema is not None
        world.step({'"main"."r"': from_arrow(table(cursor, "FROM r WHERE j = 99"), schema)})
        assert world.rows[query] == world.wanted(query)
        nodes = [world.circuit.node(n) for n in world.circuit.nodes_of(query)]
        (join,) = [n for n in nodes if n.operator.describe().startswith("NearestJoin")]
        assert join.work.rows_out == 100  # 150 … 199, from the row at 100 to the one at 150
        assert sum(n.work.rows_out for n in nodes) < 120


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize("operator", [">=", ">", "<", "<="])
def test_of_equal_right_rows_an_asof_join_takes_the_first(operator: str) -> None:
    """The first in the order of all columns; there are NULLs, and rows that stand twice."""
    query = "SELECT l.k, l.v, r.* FROM l ASOF LEFT JOIN {} AS r ON l.k = r.k AND l.v {} r.v"
    one = "(SELECT DISTINCT ON (k, v) * FROM r ORDER BY k, v, s NULLS LAST, n NULLS LAST)"
    random = np.random.default_rng(5)
    with ivm.connect() as db:
        db.execute("CREATE TABLE l AS SELECT i % 3 AS k, i % 7 AS v FROM range(21) t(i)")
        db.execute("CREATE TABLE r(k BIGINT, v BIGINT, s VARCHAR, n BIGINT)")
        db.execute(f"CREATE MATERIALIZED VIEW m AS {query.format('r', operator)}")
        for _ in range(30):
            k, v, s, n = random.integers(0, [3, 5, 3, 3]).tolist()
            row = f"({k}, {v}, {('NULL', repr('a'), repr('b'))[s]}, {n or 'NULL'})"
            db.execute(f"INSERT INTO r VALUES {', '.join([row] * max(n, 1))}")
            if random.random() < 0.4:
                db.execute(f"DELETE FROM r WHERE k = {k} AND v = {v} AND s = 'a'")
            wanted = db.execute(f"{query.format(one, operator)} ORDER BY ALL").fetchall()
            assert db.execute("FROM m ORDER BY ALL").fetchall() == wanted

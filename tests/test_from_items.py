"""What stands in FROM and around it: planned as DuckDB answers, and maintained by deltas.

Every query of the corpus is a view of one circuit; after every change its rows are compared with
its rendering, and the rendering with the query itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.render import render
from ivm.storage.duck import Cursor, describe, table
from ivm.storage.zset import from_arrow
from tests.from_corpus import QUERIES, fill
from tests.view_world import Epochs, World, followed, multiset, worlds

ALL = [q for group in QUERIES.values() for q in group]
STEPS = 4
BOTH = (World.rendered, World.wanted)


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        fill(connection, seed=3)
        yield connection


@pytest.mark.parametrize("query", ALL)
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    rendered = render(bind(query, DuckCatalog(cursor), cursor))
    assert describe(cursor, rendered) == describe(cursor, query)
    assert multiset(cursor, rendered) == multiset(cursor, query)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[World, Epochs]]:
    with worlds(fill, 4, ALL) as (world, spare):
        yield world, followed(world, spare, ("t", "u", "w", "j"), STEPS, BOTH)


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
    for query in (
        "SELECT k, unnest(range(k)), unnest(NULL) FROM t",
        *QUERIES["unnest in FROM"][:4],
    ):
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
        (join,) = [n for n in nodes if n.operator.describe().startswith("RangeJoin")]
        assert join.work.rows_out == 100  # 150 … 199, from the row at 100 to the one at 150
        assert sum(n.work.rows_out for n in nodes) < 120

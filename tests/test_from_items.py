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
from ivm.storage.duck import Cursor, describe
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

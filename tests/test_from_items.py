"""What stands in FROM and around it: planned as DuckDB answers, and maintained by deltas.

Every query of the corpus is a view of one circuit; after every change its rows are compared with
its rendering, and the rendering with the query itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.render import render
from ivm.storage.duck import Cursor, describe, rows
from tests.from_corpus import QUERIES, fill
from tests.test_compile import Rows, World, change, rounded

ALL = [q for group in QUERIES.values() for q in group]
STEPS = 4


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        fill(connection, seed=3)
        yield connection


def multiset(cursor: Cursor, query: str) -> Rows:
    return Counter(repr(rounded(row)) for row in rows(cursor, query))


@pytest.mark.parametrize("query", ALL)
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    rendered = render(bind(query, DuckCatalog(cursor), cursor))
    assert describe(cursor, rendered) == describe(cursor, query)
    assert multiset(cursor, rendered) == multiset(cursor, query)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[World, list[dict[str, tuple[Rows, Rows, Rows]]]]]:
    """The circuit; per epoch and view its rows by deltas, its rendering's and its query's."""
    random = Random(11)
    with duckdb.connect() as cursor, duckdb.connect() as spare:
        fill(cursor, seed=4)
        fill(spare, seed=5)
        world = World(cursor, ALL)
        epochs = []
        for _ in range(STEPS):
            names = [f'"main"."{n}"' for n in ("t", "u", "w", "j") if random.random() < 0.7]
            world.step({name: change(cursor, random, name, spare) for name in names})
            epochs.append(
                {q: (Counter(world.rows[q]), world.answer(q), multiset(cursor, q)) for q in ALL}
            )
        yield world, epochs


@pytest.mark.parametrize("query", ALL)
def test_view_follows_its_tables(
    world: tuple[World, list[dict[str, tuple[Rows, Rows, Rows]]]], query: str
) -> None:
    for epoch in world[1]:
        maintained, rendered, wanted = epoch[query]
        assert maintained == rendered
        assert rendered == wanted


def test_unnest_and_range_hold_no_state(
    world: tuple[World, list[dict[str, tuple[Rows, Rows, Rows]]]],
) -> None:
    circuit = world[0].circuit
    for query in (
        "SELECT k, unnest(range(k)), unnest(NULL) FROM t",
        *QUERIES["unnest in FROM"][:4],
    ):
        nodes = circuit.nodes_of(query)
        assert {circuit.node(n).operator.strategy for n in nodes} == {"linear"}

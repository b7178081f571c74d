"""Window functions in views: planned as DuckDB answers, and maintained by deltas.

Every query of the corpus is a view of one circuit; after every change its rows are compared with
its rendering, and the rendering with the query itself where SQL leaves nothing open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.plan import TopK, Window, inputs
from ivm.sql.render import render
from ivm.sql.rewrite import rewrite
from ivm.storage.duck import Cursor, describe, rows
from tests.plan_corpus import build
from tests.test_compile import Rows, World, change, rounded
from tests.window_corpus import INDEXED, OPEN, RECOMPUTED

FIXED = INDEXED + RECOMPUTED
ALL = FIXED + OPEN
STEPS = 6


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, 3)
        yield connection


def multiset(cursor: Cursor, query: str) -> Rows:
    return Counter(repr(rounded(row)) for row in rows(cursor, query))


@pytest.mark.parametrize("query", ALL)
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    rendered = render(rewrite(bind(query, DuckCatalog(cursor), cursor)))
    assert describe(cursor, rendered) == describe(cursor, query)
    if query in FIXED:
        assert multiset(cursor, rendered) == multiset(cursor, query)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[World, list[dict[str, tuple[Rows, Rows, Rows]]]]]:
    """The circuit; per epoch and view its rows by deltas, its rendering's and its query's."""
    random = Random(11)
    with duckdb.connect() as cursor, duckdb.connect() as spare:
        build(cursor, 4)
        build(spare, 5)
        world = World(cursor, ALL)
        epochs = []
        for _ in range(STEPS):
            names = [f'"main"."{n}"' for n in ("t", "u") if random.random() < 0.8]
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
        if query in FIXED:
            assert rendered == wanted


@pytest.mark.parametrize("query", ALL)
def test_strategy(
    world: tuple[World, list[dict[str, tuple[Rows, Rows, Rows]]]], query: str
) -> None:
    circuit = world[0].circuit
    found = {circuit.node(n).operator.strategy for n in circuit.nodes_of(query)}
    assert ("group recompute" in found) == (query in RECOMPUTED)


def _nodes(cursor: Cursor, query: str) -> set[type]:
    found: set[type] = set()
    waiting = [rewrite(bind(query, DuckCatalog(cursor), cursor))]
    while waiting:
        node = waiting.pop()
        found.add(type(node))
        waiting += inputs(node)
    return found


def test_bounded_row_number_is_a_top_k(cursor: Cursor) -> None:
    ranked = "SELECT k, v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t"
    assert TopK in _nodes(cursor, f"SELECT * FROM ({ranked}) WHERE n <= 2")
    assert TopK in _nodes(cursor, f"{ranked} QUALIFY n = 1")
    assert Window in _nodes(cursor, f"SELECT * FROM ({ranked}) WHERE n > 2")
    assert Window not in _nodes(cursor, f"SELECT k FROM ({ranked})")

"""Random queries: the plan says what DuckDB says, and the circuit follows every change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.plan import NotIncremental, Plan
from ivm.sql.render import render
from ivm.sql.rewrite import rewrite
from ivm.storage.duck import Cursor, rows
from tests.plan_corpus import build
from tests.random_queries import Query
from tests.test_compile import World, change, rounded

SEEDS = st.integers(0, 10**9)
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))
MANY = 3000  # rows of an answer that is still worth comparing


@pytest.fixture(scope="module")
def cursors() -> Iterator[tuple[Cursor, Cursor]]:
    with duckdb.connect() as cursor, duckdb.connect() as spare:
        for seed, connection in enumerate((cursor, spare)):
            connection.execute("SET arrow_lossless_conversion = true")
            connection.execute("SET threads = 1")
            build(connection, seed=seed, rows=14)
        yield cursor, spare


def planned(cursor: Cursor, query: str) -> Plan | None:
    """The plan of a query, if DuckDB accepts it and there is one."""
    try:
        if len(rows(cursor, query)) > MANY:
            return None
        return rewrite(bind(query, DuckCatalog(cursor), cursor))
    except (duckdb.Error, NotIncremental):
        return None


@given(SEEDS)
@settings(SLOW, max_examples=150)
def test_plan_of_a_random_query_is_the_query(cursors: tuple[Cursor, Cursor], seed: int) -> None:
    cursor, query = cursors[0], Query(seed).text
    plan = planned(cursor, query)
    assume(plan is not None)
    assert plan is not None
    answers = [rows(cursor, text) for text in (query, render(plan))]
    wanted, found = [Counter(repr(rounded(row)) for row in answer) for answer in answers]
    assert found == wanted, query


@given(SEEDS)
@settings(SLOW, max_examples=12)
def test_random_views_follow_their_tables(cursors: tuple[Cursor, Cursor], seed: int) -> None:
    cursor, spare = cursors
    random = Random(seed)
    queries = list({Query(random.randrange(10**9)).text for _ in range(12)})
    world = World(cursor, [q for q in queries if planned(cursor, q) is not None])
    for _ in range(2):
        names = [f'"main"."{n}"' for n in ("t", "u", "w") if random.random() < 0.7]
        changes = {name: change(cursor, random, name, spare) for name in names}
        try:
            answers = {query: world.answer(query) for query in world.plans}
        except duckdb.Error:
            return  # a cast or an overflow on the new rows: such a change is refused
        world.step(changes)
        assert {q: Counter(r) for q, r in world.rows.items()} == answers

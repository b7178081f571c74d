"""Random queries: the plan says what DuckDB says, and the circuit follows every change."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.sql.plan.render import render
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from tests.corpus.plan_corpus import build
from tests.random_sql.names_grammar import Query
from tests.random_sql.random_select import Select
from tests.support import ROOT, plans
from tests.support.circuit_world import World, change, rounded
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=8)

FOUND = ROOT / "tests" / "golden" / "found_queries.sql"
SEEDS = st.integers(0, 10**9)
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))
MANY = 3000  # rows of an answer that is still worth comparing
SOON = 10.0  # seconds that one is worth waiting for


def found() -> list[str]:
    """Queries that random search found wrong, one a line."""
    lines = FOUND.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("--")]


def connect() -> tuple[Cursor, Cursor]:
    """Two databases of the same tables with other rows."""
    cursor, spare = duckdb.connect(), duckdb.connect()
    for seed, connection in enumerate((cursor, spare)):
        connection.execute("SET arrow_lossless_conversion = true")
        connection.execute("SET threads = 1")
        build(connection, seed=seed, rows=14)
    return cursor, spare


class Databases:
    """Two databases, made anew where an internal error of DuckDB has ended one."""

    def __init__(self) -> None:
        self._cursors = connect()

    def cursors(self) -> tuple[Cursor, Cursor]:
        try:
            for cursor in self._cursors:
                rows(cursor, "SELECT 1")
        except duckdb.FatalException:
            self.close()
            self._cursors = connect()
        return self._cursors

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    found = Databases()
    yield found
    found.close()


def plan_of(cursor: Cursor, query: str) -> Plan | None:
    """The plan of a query, if DuckDB accepts it and there is one."""
    try:
        return plans.planned(query, cursor)
    except (duckdb.Error, NotIncremental):
        return None


def planned(cursor: Cursor, query: str) -> Plan | None:
    """The plan of a query that DuckDB answers soon, with rows that are not too many."""
    stop = threading.Timer(SOON, cursor.interrupt)  # products of many tables have no end
    stop.start()
    try:
        return plan_of(cursor, query) if len(rows(cursor, query)) <= MANY else None
    except duckdb.Error:
        return None
    finally:
        stop.cancel()


def text_of(seed: int) -> str:
    """Two grammars: names and clauses, and the whole of SELECT."""
    return (Query if seed % 3 == 0 else Select)(seed).text


def assert_plan_is(cursor: Cursor, query: str, plan: Plan) -> None:
    answers = [rows(cursor, text) for text in (query, render(plan))]
    wanted, found = [Counter(repr(rounded(row)) for row in answer) for answer in answers]
    assert found == wanted, query


def assert_views_follow(cursor: Cursor, spare: Cursor, random: Random, queries: list[str]) -> None:
    """Two changes of the tables, each view compared after each."""
    world = World(cursor, queries)
    for _ in range(2):
        names = [f'"main"."{n}"' for n in ("t", "u", "w") if random.random() < 0.7]
        changes = {name: change(cursor, random, name, spare) for name in names}
        try:
            answers = {query: world.rendered(query) for query in world.plans}
        except duckdb.Error:
            return  # a cast or an overflow on the new rows: such a change is refused
        world.step(changes)
        for query, answer in answers.items():
            assert Counter(world.rows[query]) == answer, query


@given(SEEDS)
@settings(SLOW, max_examples=examples(120))
def test_plan_of_a_random_query_is_the_query(databases: Databases, seed: int) -> None:
    (cursor, _), query = databases.cursors(), text_of(seed)
    plan = planned(cursor, query)
    assume(plan is not None)
    assert plan is not None
    assert_plan_is(cursor, query, plan)


@pytest.mark.full
@given(SEEDS)
@settings(SLOW, max_examples=examples(12))
def test_random_views_follow_their_tables(databases: Databases, seed: int) -> None:
    cursor, spare = databases.cursors()
    random = Random(seed)
    queries = list({text_of(random.randrange(10**9)) for _ in range(12)})
    queries = [q for q in queries if planned(cursor, q) is not None]
    assert_views_follow(cursor, spare, random, queries)


@pytest.mark.full
def test_most_random_queries_have_a_plan(databases: Databases) -> None:
    """What is left to whole recompute must stay rare, or the tests above see nothing."""
    cursor, _ = databases.cursors()
    accepted = planned_too = 0
    for seed in range(200):
        query = text_of(seed)
        try:
            rows(cursor, f"DESCRIBE {query}")
        except duckdb.Error:
            continue
        accepted += 1
        planned_too += plan_of(cursor, query) is not None
    assert accepted > 170
    assert planned_too > 0.9 * accepted


@pytest.mark.parametrize("query", found())
def test_queries_that_once_were_wrong(databases: Databases, query: str) -> None:
    cursor, spare = databases.cursors()
    plan = planned(cursor, query)
    if plan is None:  # recomputed, hence right; DuckDB at least must know it
        rows(cursor, f"DESCRIBE {query}")
        return
    assert_plan_is(cursor, query, plan)
    assert_views_follow(cursor, spare, Random(1), [query])

"""Plans on Spark: every query of the corpora has DuckDB's rows there, or is refused, never others.

The oracle is DuckDB's answer to the plan's SQL, which other tests compare with the user's own text.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.plan.render import render
from ivm.storage.errors import UnsupportedError
from tests.corpus import nexmark
from tests.sql.test_spelling import CORPORA
from tests.support import plans
from tests.support.plan_oracle import multiset
from tests.support.spark import World, in_utc
from tests.tiers import some

pytestmark = pytest.mark.full(smoke=3)


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[str, World]]:
    made: dict[str, World] = {}
    for name, (build, _) in CORPORA.items():
        cursor = duckdb.connect()
        build(cursor, 7)
        made[name] = World(in_utc(cursor))
    cursor = duckdb.connect()
    cursor.execute(nexmark.SCHEMA)
    for statement in nexmark.changes(3, 40):
        cursor.execute(statement)
    made["nexmark"] = World(in_utc(cursor))
    yield made
    for world in made.values():
        world.close()
        world.cursor.close()


CASES = [(name, query) for name, (_, queries) in CORPORA.items() for query in queries]
CASES += [("nexmark", query) for query in nexmark.QUERIES.values()]


@pytest.mark.full
@pytest.mark.parametrize(("corpus", "query"), some(CASES, of=40))
def test_rows_are_those_of_duckdb(corpus: str, query: str, worlds: dict[str, World]) -> None:
    world = worlds[corpus]
    try:
        plan = plans.planned(query, world.cursor)
    except NotIncremental:
        return  # there is no plan to be computed anywhere
    refusal = ""
    try:
        found = world.answer(plan)
    except UnsupportedError as error:
        refusal = str(error)
    if refusal:
        assert "plus() is no function" in refusal
    else:
        assert found == multiset(world.cursor, render(plan))


def test_what_spark_computes_and_what_the_workers_do(worlds: dict[str, World]) -> None:
    world = worlds["plan"]
    said = """SELECT g, count(*), sum(t.v), max(u.name), min(day) FROM t JOIN u ON t.k = u.k
        WHERE t.v > 1 AND g LIKE 'a%' AND day < '2021-01-01' GROUP BY g"""
    assert workers(world, said) == []
    assert workers(world, "SELECT upper(g) FROM t") == [("Project", "upper")]
    assert workers(world, "SELECT k FROM t WHERE v IN (1, 2.5)") == []
    ((kind, _),) = workers(world, "SELECT k, rank() OVER (ORDER BY v) FROM t")
    assert kind == "Window"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM t WHERE k - 2",
        "SELECT k FROM t WHERE (SELECT count(*) FROM u WHERE u.k = t.k)",
        "SELECT t.k FROM t LEFT JOIN u ON t.k = u.k AND t.v - u.k",
        "SELECT g, count(*) FILTER (k - 1) FROM t GROUP BY g",
    ],
)
def test_conditions_that_are_numbers(query: str, worlds: dict[str, World]) -> None:
    world = worlds["plan"]
    plan = plans.planned(query, world.cursor)
    assert world.answer(plan) == multiset(world.cursor, render(plan))


def workers(world: World, query: str) -> list[tuple[str, str]]:
    """The nodes of a query that DuckDB computes in the workers, and why."""
    plan = plans.planned(query, world.cursor)
    frames = world.frames(plan)
    frames.frame(plan)
    frames.close()
    return frames.said.workers

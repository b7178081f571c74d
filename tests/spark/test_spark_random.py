"""Random queries on Spark: the rows are those of DuckDB's answer to the user's own text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings

from ivm.storage.warehouse.duckdb.duck import rows
from tests.support.circuit_world import rounded
from tests.support.spark import World, in_utc
from tests.tiers import examples
from tests.whole.test_random_queries import SEEDS, SLOW, connect, planned, text_of

pytestmark = pytest.mark.full(smoke=1)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    cursor, spare = connect()
    spare.close()
    with World(in_utc(cursor)) as made:
        yield made
    cursor.close()


@pytest.mark.full
@given(SEEDS)
@settings(SLOW, max_examples=examples(150))
def test_rows_of_a_random_query(world: World, seed: int) -> None:
    query = text_of(seed)
    plan = planned(world.cursor, query)
    assume(plan is not None)
    assert plan is not None
    found = world.rows(plan)
    wanted = Counter(repr(rounded(row)) for row in rows(world.cursor, query))
    assert Counter(repr(rounded(row)) for row in found) == wanted, query

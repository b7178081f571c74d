"""Nexmark: q0 to q22 are maintained by deltas, and right after every change, so are windows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import ivm
from tests.corpus.nexmark import NEWCOMERS, QUERIES, SCHEMA, WINDOWED, changes
from tests.support.golden_explain import check
from tests.support.view_oracle import assert_same_rows, assert_views_right

pytestmark = pytest.mark.full(smoke=3)


@pytest.fixture(scope="module")
def empty() -> Iterator[ivm.Database]:
    """The tables without rows."""
    with ivm.connect() as db:
        db.execute(SCHEMA)
        yield db


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_is_recomputed(empty: ivm.Database, name: str) -> None:
    check(empty, f"nexmark_{name}", QUERIES[name])


@pytest.mark.parametrize("name", WINDOWED)
def test_no_windowed_query_is_recomputed(empty: ivm.Database, name: str) -> None:
    check(empty, f"nexmark_{name}_windowed", WINDOWED[name])


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_all_views_are_right_after_every_change(seed: int) -> None:
    statements = [NEWCOMERS, *changes(seed, 25)]
    with ivm.connect() as db, duckdb.connect() as twin:
        for one in (db, twin):
            one.execute(SCHEMA)
            one.execute("INSERT INTO side SELECT i, 'v' || i FROM range(0, 10, 2) AS r(i)")
        for statement in statements[:5]:  # the views begin with rows
            db.execute(statement)
            twin.execute(statement)
        for name, query in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for statement in statements[5:]:
            db.execute(statement)
            twin.execute(statement)
            assert_views_right(db, twin)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_windowed_views_equal_the_plain_queries_after_every_change(seed: int) -> None:
    seen = set()
    with ivm.connect() as db, duckdb.connect() as twin:
        for one in (db, twin):
            one.execute(SCHEMA)
        for name, query in WINDOWED.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for statement in [NEWCOMERS, *changes(seed, 60)]:
            db.execute(statement)
            twin.execute(statement)
            for name in WINDOWED:
                wanted = twin.execute(QUERIES[name]).fetchall()
                assert_same_rows(db.execute(f"FROM {name}").fetchall(), wanted, name)
                seen |= {name} if wanted else set()
    assert seen == set(WINDOWED)

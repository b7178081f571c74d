"""Nexmark: q0 to q22 are maintained by deltas, and right after every change."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import ivm
from tests.corpus.nexmark import QUERIES, SCHEMA, changes
from tests.support.golden_explain import check
from tests.support.view_oracle import assert_views_right

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


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_all_views_are_right_after_every_change(seed: int) -> None:
    statements = list(changes(seed, 25))
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

"""Left joins become inner ones exactly where a condition rejects the padded rows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind.bind import bind
from ivm.sql.plan.nodes import Join, Plan
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus.plan_corpus import build
from tests.support.plan_oracle import multiset


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=2)
        yield connection


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("u.v > 1", "inner"),
        ("t.v = u.v * 2 + 1", "inner"),
        ("(u.v)::DOUBLE <> -t.f", "inner"),
        ("u.v > 1 AND t.v IS NULL", "inner"),
        ("u.v IS NULL", "left"),
        ("coalesce(u.v, 2) > 1", "left"),
        ("u.v > 1 OR t.v > 1", "left"),
        ("u.v IS DISTINCT FROM 1", "left"),
        ("t.v > 1", "left"),
        ("CASE WHEN u.v > 1 THEN u.v ELSE 3 END = 3", "left"),
        ("TRY_CAST(u.name AS INTEGER) = 1", "left"),
    ],
)
def test_a_left_join_under_a_condition(cursor: Cursor, condition: str, kind: str) -> None:
    query = f"SELECT t.k, u.name FROM t LEFT JOIN u ON t.k = u.k WHERE {condition}"
    plan = rewrite(bind(query, DuckCatalog(cursor), cursor))
    found: list[Plan] = [plan]
    for part in found:
        found += inputs(part)
    assert [part.kind for part in found if isinstance(part, Join)] == [kind]
    assert multiset(cursor, render(plan)) == multiset(cursor, query)

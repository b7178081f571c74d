"""A plan means its query: DuckDB describes and answers its SQL as it does the user's own text."""

from __future__ import annotations

from collections import Counter

from ivm.sql.plan.nodes import Plan
from ivm.sql.plan.render import render
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows


def multiset(cursor: Cursor, query: str) -> Counter[str]:
    """DuckDB's answer, bit for bit."""
    return Counter(repr(row) for row in rows(cursor, query))


def assert_means(cursor: Cursor, plan: Plan, query: str, *, one_answer: bool = True) -> None:
    """The plan's SQL has the query's columns and, where that has one answer only, its rows."""
    rendered = render(plan)
    assert describe(cursor, rendered) == describe(cursor, query)
    if one_answer:
        assert multiset(cursor, rendered) == multiset(cursor, query)

"""Expressions of a thousand terms: as a query and as a view, planned where chains allow it."""

from __future__ import annotations

import pytest

import ivm
from ivm.sql.statements.text.duckdb_tree import nodes
from ivm.storage.deep_stack import deeply
from tests.tiers import TIER

MANY = range(120 if TIER == "quick" else 990)  # DuckDB itself ends at a depth of 1000
VIEWS = {
    "SELECT id FROM t WHERE " + " OR ".join(f"id = {i}" for i in MANY): "linear",
    "SELECT id FROM t WHERE " + " AND ".join(f"id <> {i + 5}" for i in MANY): "linear",
    "SELECT count(*) FILTER (WHERE " + " OR ".join(f"id = {i}" for i in MANY) + ") AS n FROM t": (
        "indexed"
    ),
    "SELECT CASE " + " ".join(f"WHEN id = {i} THEN {-i}" for i in MANY) + " END AS z FROM t": (
        "linear"
    ),
    "SELECT " + " + ".join(["id"] * max(300, len(MANY))) + " AS z FROM t": "whole recompute",
    "SELECT " + "(" * 150 + "id" + ")" * 150 + " AS z FROM t": "whole recompute",
}


@pytest.mark.full
@pytest.mark.parametrize(("query", "strategy"), list(VIEWS.items()), ids=range(len(VIEWS)))
def test_a_long_expression_is_a_view(query: str, strategy: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER); INSERT INTO t VALUES (1), (1000), (NULL)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        db.execute("INSERT INTO t VALUES (3), (2000); DELETE FROM t WHERE id = 1")
        wanted = sorted(map(repr, db.execute(query).fetchall()))
        assert sorted(map(repr, db.execute("FROM v").fetchall())) == wanted
        assert db.views()[0].strategy == strategy


def test_twenty_full_joins_are_a_view() -> None:
    joins = " ".join(f"FULL JOIN t t{i} ON t{i}.id = t{i - 1}.id" for i in range(1, 21))
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER); INSERT INTO t VALUES (1), (2)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t t0 {joins}")
        db.execute("INSERT INTO t VALUES (3)")
        assert db.execute("FROM v").fetchall() == [(3,)]


def test_what_is_too_deep_for_the_stack_runs_on_a_larger_one() -> None:
    def depth(left: int) -> int:
        return 0 if left == 0 else 1 + depth(left - 1)

    assert deeply(lambda: depth(20_000)) == 20_000
    with pytest.raises(ZeroDivisionError):
        deeply(lambda: depth(20_000) // 0)


def test_nodes_come_in_the_order_of_the_text() -> None:
    tree = {"a": [{"b": 1}, {"c": {"d": 2}}], "e": {"f": 3}}
    assert [list(node) for node in nodes(tree)] == [["a", "e"], ["b"], ["c"], ["d"], ["f"]]

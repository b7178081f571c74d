"""Compiling: after every change the circuit's views equal their queries in DuckDB.

All views of the corpus live in one circuit, so equal subplans are shared between them; each test
looks at one view's record.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import ivm
from ivm.delta_ops.circuit import Circuit
from ivm.sql.bind.bind import bind
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan.nodes import Plan
from ivm.sql.plan.render import render
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from tests.corpus.plan_corpus import QUERIES, build
from tests.support.circuit_world import Epochs, World, followed, worlds
from tests.tiers import examples, some

COMPILED = some([q for group in QUERIES.values() for q in group], 8)
STEPS = examples(4)


@pytest.fixture(scope="module")
def epochs() -> Iterator[Epochs]:
    def fill(cursor: Cursor, seed: int) -> None:
        build(cursor, seed, rows=30)

    with worlds(fill, 0, COMPILED) as (world, spare):
        yield followed(world, spare, ("t", "u", "w"), STEPS, [World.rendered])


@pytest.mark.full
@pytest.mark.parametrize("query", COMPILED)
def test_view_follows_its_tables(epochs: Epochs, query: str) -> None:
    for epoch in epochs:
        maintained, rendered = epoch[query]
        assert maintained == rendered


class CatalogWithView(DuckCatalog):
    """Tables, and one materialized view whose rows lie in the table `low`."""

    def __init__(self, cursor: Cursor, plan: Plan) -> None:
        super().__init__(cursor)
        self._plan = plan

    def view_plan(self, name: str) -> Plan | None:
        return self._plan if name == '"main"."low"' else None


def test_view_over_a_view_shares_the_lower_views_nodes() -> None:
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        build(cursor, seed=7)
        low = rewrite(bind("SELECT g, sum(v) AS s FROM t GROUP BY g", DuckCatalog(cursor), cursor))
        run(cursor, f"CREATE TABLE low AS {render(low)}")
        catalog = CatalogWithView(cursor, low)
        high = rewrite(bind("SELECT s FROM low WHERE g > 'a'", catalog, cursor))
        compiler = CircuitCompiler(Circuit(), cursor.cursor)
        node = compiler.add_view("low", low)
        compiler.add_view("high", high)
        assert node in compiler.circuit.nodes_of("high")
        # A state is read from base tables: the view's own table may be ahead of them.
        run(cursor, "DELETE FROM low")
        assert rows(cursor, render(high)) == rows(
            cursor, "SELECT sum(v) FROM t WHERE g > 'a' GROUP BY g"
        )


def test_views_with_equal_parts_share_them() -> None:
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        build(cursor, seed=8)
        compiler = CircuitCompiler(Circuit(), cursor.cursor)
        join = "FROM t JOIN u ON t.k = u.k WHERE t.v > 1"
        for name, query in (
            ("a", f"SELECT t.g, u.name {join}"),
            ("b", f"SELECT t.g, u.name {join}"),
        ):
            compiler.add_view(name, rewrite(bind(query, DuckCatalog(cursor), cursor)))
        assert compiler.circuit.views["a"] == compiler.circuit.views["b"]


@pytest.mark.full
def test_a_view_compiled_on_its_own_shares_the_nodes_of_the_circuit_that_takes_it() -> None:
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        build(cursor, seed=9)
        join = "FROM t JOIN u ON t.k = u.k AND t.v > u.k"
        queries = {
            "a": f"SELECT t.g, u.name {join}",
            "b": f"SELECT t.g, u.name {join} WHERE t.v + 1 > 2",
            "c": f"SELECT u.name, sum(t.v) AS s {join} GROUP BY u.name",
        }
        plans = {n: rewrite(bind(q, DuckCatalog(cursor), cursor)) for n, q in queries.items()}
        at_once, taking = (CircuitCompiler(Circuit(), cursor.cursor) for _ in range(2))
        for name, plan in plans.items():
            at_once.add_view(name, plan)
            alone = CircuitCompiler(Circuit(), cursor.cursor)
            alone.add_view(name, plan)
            taking.take(name, alone)
        assert taking.circuit.views == at_once.circuit.views
        assert taking.sources() == at_once.sources()
        for name in queries:
            nodes = at_once.circuit.nodes_of(name)
            assert taking.circuit.nodes_of(name) == nodes
            assert [taking.label(n) for n in nodes] == [at_once.label(n) for n in nodes]


def test_nobody_is_warned_of_what_other_dialects_lack(caplog: pytest.LogCaptureFixture) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (ts TIMESTAMP)")
        query = "SELECT extract(era FROM ts::TIMESTAMPTZ) AS x FROM t"
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert not caplog.records

"""Compiling: after every change the circuit's views equal their queries in DuckDB.

All views of the corpus live in one circuit, so equal subplans are shared between them; each test
looks at one view's record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import numpy as np
import pytest

from ivm.delta_ops.circuit import Circuit
from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.compile import Compiler
from ivm.sql.plan import Plan
from ivm.sql.render import render
from ivm.sql.rewrite import rewrite
from ivm.storage.duck import Cursor, rows, run, table
from ivm.storage.types import Schema
from ivm.storage.zset import ZSet, add, from_arrow
from tests.plan_corpus import QUERIES, build

COMPILED = [q for group in QUERIES.values() for q in group]
STEPS = 4
Rows = Counter[str]


class World:
    """A database, all views of the corpus in one circuit, and their rows by deltas."""

    def __init__(
        self, cursor: Cursor, queries: list[str], plans: dict[str, Plan] | None = None
    ) -> None:
        self.cursor = cursor
        self.circuit = Circuit()
        self.compiler = Compiler(self.circuit, cursor.cursor)
        self.plans: dict[str, Plan] = {}
        for query in queries:
            bound = plans[query] if plans else rewrite(bind(query, DuckCatalog(cursor), cursor))
            self.plans[query] = bound
            self.compiler.add_view(query, self.plans[query])
        self.circuit.hydrate(self.compiler.fetch)
        self.rows = {query: self._contents(query) for query in queries}

    def _contents(self, query: str) -> Rows:
        rows: Rows = Counter()
        for chunk in self.circuit.contents(self.circuit.views[query], self.compiler.fetch):
            self._apply(rows, chunk, query)
        return rows

    def step(self, changes: dict[str, ZSet]) -> None:
        deltas = {
            source: changes[scan.relation].project(scan.columns)
            for source, scan in self.compiler.sources().items()
            if scan.relation in changes
        }
        for query, delta in self.circuit.step(deltas).items():
            self._apply(self.rows[query], delta, query)
        self.circuit.commit()

    def _apply(self, rows_now: Rows, delta: ZSet, query: str) -> None:
        schema = tuple((f"c{i}", t) for i, (_, t) in enumerate(self.plans[query].schema))
        self.cursor.register("delta_rows", delta.to_arrow(schema))
        casts = ", ".join(f"{name}::{t.sql}" for name, t in schema)
        found = rows(self.cursor, f"SELECT {casts} FROM delta_rows")
        self.cursor.unregister("delta_rows")
        for row, weight in zip(found, delta.weights.tolist(), strict=True):
            rows_now[repr(rounded(row))] += weight
            if not rows_now[repr(rounded(row))]:
                del rows_now[repr(rounded(row))]

    def answer(self, query: str) -> Rows:
        """What DuckDB says now."""
        found = rows(self.cursor, render(self.plans[query]))
        return Counter(repr(rounded(row)) for row in found)


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    """Sums of DOUBLE are exact here and rounded at every addition in DuckDB; -0.0 groups as 0.0."""
    return tuple(round(v, 9) + 0.0 if isinstance(v, float) else v for v in row)


def change(cursor: Cursor, random: Random, name: str, spare: Cursor) -> ZSet:
    """Delete some rows of a table, double some, insert some new ones; all as one delta."""
    schema: Schema = DuckCatalog(cursor).schema(name) or ()
    old = from_arrow(table(cursor, f"FROM {name}"), schema)
    new = from_arrow(table(spare, f"FROM {name}"), schema)
    picks = [np.array([i for i in range(len(z)) if random.random() < p], np.int64)
             for z, p in ((old, 0.2), (old, 0.05), (new, 0.3))]  # fmt: skip
    gone, twice, come = picks
    delta = add([old.take(gone).negate(), old.take(twice), new.take(come)])
    kept = np.setdiff1d(np.arange(len(old)), gone)
    cursor.register(
        "after_rows", add([old.take(kept), old.take(twice), new.take(come)]).to_arrow(schema)
    )
    run(cursor, f"DELETE FROM {name}")
    run(cursor, f"INSERT INTO {name} FROM after_rows")
    cursor.unregister("after_rows")
    return delta


@pytest.fixture(scope="module")
def records() -> Iterator[list[dict[str, tuple[Rows, Rows]]]]:
    """Per epoch and view: its rows by deltas, and DuckDB's answer."""
    random = Random(5)
    with duckdb.connect() as cursor, duckdb.connect() as spare:
        for seed, connection in enumerate((cursor, spare)):
            connection.execute("SET arrow_lossless_conversion = true")
            build(connection, seed=seed, rows=30)
        world = World(cursor, COMPILED)
        epochs = []
        for _ in range(STEPS):
            names = [f'"main"."{n}"' for n in ("t", "u", "w") if random.random() < 0.7]
            world.step({name: change(cursor, random, name, spare) for name in names})
            epochs.append({q: (Counter(world.rows[q]), world.answer(q)) for q in COMPILED})
        yield epochs


@pytest.mark.parametrize("query", COMPILED)
def test_view_follows_its_tables(records: list[dict[str, tuple[Rows, Rows]]], query: str) -> None:
    for epoch in records:
        maintained, answer = epoch[query]
        assert maintained == answer


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
        compiler = Compiler(Circuit(), cursor.cursor)
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
        compiler = Compiler(Circuit(), cursor.cursor)
        join = "FROM t JOIN u ON t.k = u.k WHERE t.v > 1"
        for name, query in (
            ("a", f"SELECT t.g, u.name {join}"),
            ("b", f"SELECT t.g, u.name {join}"),
        ):
            compiler.add_view(name, rewrite(bind(query, DuckCatalog(cursor), cursor)))
        assert compiler.circuit.views["a"] == compiler.circuit.views["b"]

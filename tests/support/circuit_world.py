"""A database whose queries are all views of one circuit, followed through random changes.

After every change each view's rows by deltas are kept beside DuckDB's answers to the plan written
back as SQL and to the query itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import duckdb
import numpy as np

from ivm.delta_ops.circuit import Circuit
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan.nodes import Plan
from ivm.sql.plan.render import render
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run, table
from tests.support.plans import planned

Rows = Counter[str]


class World:
    """A database, all views of the corpus in one circuit, and their rows by deltas."""

    def __init__(
        self, cursor: Cursor, queries: list[str], plans: dict[str, Plan] | None = None
    ) -> None:
        self.cursor = cursor
        self.circuit = Circuit()
        self.compiler = CircuitCompiler(self.circuit, cursor.cursor)
        self.plans: dict[str, Plan] = {}
        for query in queries:
            bound = plans[query] if plans else planned(query, cursor)
            self.plans[query] = bound
            alone = CircuitCompiler(Circuit(), cursor.cursor)  # as a view is before its commit
            alone.add_view(query, self.plans[query])
            self.compiler.take(query, alone)
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

    def rendered(self, query: str) -> Rows:
        """What DuckDB says now to the plan written back."""
        return multiset(self.cursor, render(self.plans[query]))

    def wanted(self, query: str) -> Rows:
        """What DuckDB says now to the query."""
        return multiset(self.cursor, query)


def multiset(cursor: Cursor, query: str) -> Rows:
    """DuckDB's answer, doubles at nine digits."""
    return Counter(repr(rounded(row)) for row in rows(cursor, query))


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


def changes(
    world: World, random: Random, tables: Sequence[str], spare: Cursor, share: float
) -> None:
    """One epoch: a change of each table with that probability."""
    names = [f'"main"."{name}"' for name in tables if random.random() < share]
    world.step({name: change(world.cursor, random, name, spare) for name in names})


@contextmanager
def worlds(
    fill: Callable[[Cursor, int], None], seed: int, queries: Sequence[str]
) -> Iterator[tuple[World, Cursor]]:
    """A world over filled tables, and tables filled otherwise that new rows come from."""
    with duckdb.connect() as cursor, duckdb.connect() as spare:
        for number, connection in enumerate((cursor, spare)):
            connection.execute("SET arrow_lossless_conversion = true")
            connection.execute("SET threads = 1")
            fill(connection, seed + number)
        yield World(cursor, list(queries)), spare


Oracle = Callable[[World, str], Rows]
Epochs = list[dict[str, tuple[Rows, ...]]]
"""Per epoch and view: its rows by deltas, then what each oracle says."""


def followed(
    world: World,
    spare: Cursor,
    tables: Sequence[str],
    steps: int,
    oracles: Sequence[Oracle] = (World.wanted,),
    share: float = 0.7,
    seed: int = 11,
) -> Epochs:
    """What every view shows after each of some random epochs."""
    random = Random(seed)
    epochs = []
    for _ in range(steps):
        changes(world, random, tables, spare, share)
        epochs.append(shown(world, oracles))
    return epochs


def shown(world: World, oracles: Sequence[Oracle] = (World.wanted,)) -> dict[str, tuple[Rows, ...]]:
    """Every view as it is now."""
    return {
        query: (Counter(rows), *[oracle(world, query) for oracle in oracles])
        for query, rows in world.rows.items()
    }

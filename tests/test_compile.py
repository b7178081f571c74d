"""Compiling: after every change the circuit's views equal their queries in DuckDB."""

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

COMPILED = [q for name, group in QUERIES.items() if name != "outer join" for q in group]


@pytest.fixture
def database() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        build(connection, seed=3, rows=30)
        yield connection


def _rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    """Sums of DOUBLE are exact here and rounded at every addition in DuckDB; -0.0 groups as 0.0."""
    return tuple(round(v, 9) + 0.0 if isinstance(v, float) else v for v in row)


class Maintained:
    """One view in a circuit of its own, and its rows as the deltas make them."""

    def __init__(self, cursor: Cursor, query: str) -> None:
        self.plan: Plan = rewrite(bind(query, DuckCatalog(cursor), cursor))
        self.circuit = Circuit()
        self.compiler = Compiler(self.circuit, cursor.cursor)
        self.node = self.compiler.add_view("v", self.plan)
        self.circuit.hydrate(self.compiler.fetch)
        self.rows: Counter[str] = Counter()
        for chunk in self.circuit.contents(self.node, self.compiler.fetch):
            self._apply(cursor, chunk)

    def step(self, cursor: Cursor, changes: dict[str, ZSet]) -> None:
        deltas = {}
        for source, scan in self.compiler.sources().items():
            if scan.relation in changes:
                deltas[source] = changes[scan.relation].project(scan.columns)
        for _, delta in self.circuit.step(deltas).items():
            self._apply(cursor, delta)
        self.circuit.commit()

    def _apply(self, cursor: Cursor, delta: ZSet) -> None:
        lent = delta.to_arrow(tuple((f"c{i}", t) for i, (_, t) in enumerate(self.plan.schema)))
        casts = ", ".join(f"c{i}::{t.sql}" for i, (_, t) in enumerate(self.plan.schema))
        cursor.register("delta_rows", lent)
        found = rows(cursor, f"SELECT {casts} FROM delta_rows")
        cursor.unregister("delta_rows")
        for row, weight in zip(found, delta.weights.tolist(), strict=True):
            self.rows[repr(_rounded(row))] += weight
        assert min(self.rows.values(), default=0) >= 0
        self.rows = +self.rows


def change(cursor: Cursor, random: Random, name: str) -> ZSet:
    """Delete some rows of a table and insert some new and some old ones, as one delta."""
    schema: Schema = DuckCatalog(cursor).schema(name) or ()
    old = from_arrow(table(cursor, f"FROM {name}"), schema)
    with duckdb.connect() as other:
        build(other, seed=random.randrange(10**6), rows=4)
        other.execute("SET arrow_lossless_conversion = true")
        new = from_arrow(table(other, f"FROM {name}"), schema)
    gone = np.array([i for i in range(len(old)) if random.random() < 0.15], np.int64)
    twice = np.array([i for i in range(len(old)) if random.random() < 0.05], np.int64)
    delta = add([old.take(gone).negate(), old.take(twice), new])
    keep = np.setdiff1d(np.arange(len(old)), gone)
    after = add([old.take(keep), old.take(twice), new])
    cursor.register("after_rows", after.to_arrow(schema))
    run(cursor, f"DELETE FROM {name}")
    run(cursor, f"INSERT INTO {name} FROM after_rows")
    cursor.unregister("after_rows")
    return delta


@pytest.mark.parametrize("query", COMPILED)
def test_view_follows_its_tables(database: Cursor, query: str) -> None:
    view = Maintained(database, query)
    random = Random(5)
    for _ in range(3):
        names = [f'"main"."{n}"' for n in ("t", "u", "w") if random.random() < 0.7]
        view.step(database, {name: change(database, random, name) for name in names})
        answer = rows(database, render(view.plan))
        assert view.rows == Counter(repr(_rounded(row)) for row in answer)

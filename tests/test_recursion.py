"""Recursive queries under inserts and deletes: after every change what DuckDB says.

The graphs are small and full of cycles, duplicates and NULLs; `dag` holds the edges that go up.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from random import Random

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.plan import Plan
from ivm.sql.rewrite import rewrite
from ivm.storage.duck import Cursor, rows, run
from ivm.storage.duck import table as table_of
from ivm.storage.zset import ZSet, add, from_arrow
from tests.recursion_corpus import ALL, TABLES
from tests.test_compile import Rows, World, rounded

_VALUES: dict[str, Callable[[Random], tuple[object, ...]]] = {
    "e": lambda r: (
        r.randint(0, 6),
        r.randint(0, 6),
        r.randint(-1, 3),
        r.choice([0.0, -0.0, 1, 2.5]),
    ),
    "n": lambda r: (r.randint(0, 6), r.choice(["a", "ab", "b", "ab"]), r.randint(0, 5)),
    "s": lambda r: (r.randint(0, 6),),
}


@functools.cache
def plans() -> dict[str, Plan]:
    """The plans of the whole corpus."""
    with database() as cursor:
        catalog = DuckCatalog(cursor)
        return {query: rewrite(bind(query, catalog, cursor)) for query in ALL}


def database() -> duckdb.DuckDBPyConnection:
    cursor = duckdb.connect()
    cursor.execute("SET arrow_lossless_conversion = true")
    cursor.execute("SET threads = 1")
    cursor.execute(TABLES)
    return cursor


class Graphs:
    """A database with a graph, and views of it in one circuit."""

    def __init__(self, seed: int, queries: list[str]) -> None:
        self.random = Random(seed)
        self.cursor: Cursor = database()
        self.data: dict[str, list[tuple[object, ...]]] = {t: [] for t in _VALUES}
        self.change({"e": 9, "n": 5, "s": 2}, 0.0)
        self.queries = queries
        self.world = World(self.cursor, queries, plans())

    def change(self, more: dict[str, int], less: float) -> dict[str, ZSet]:
        """Delete some rows and insert others in DuckDB; the same as deltas."""
        changes = {}
        for table, count in more.items():
            gone = [row for row in self.data[table] if self.random.random() < less]
            come = [self._row(table) for _ in range(count)]
            for row in gone:
                self.data[table].remove(row)
            self.data[table] += come
            changes[f'"main"."{table}"'] = add(
                [self._zset(table, gone).negate(), self._zset(table, come)]
            )
            run(self.cursor, f"DELETE FROM {table}")
            self._insert(table, self.data[table])
        return changes

    def _row(self, table: str) -> tuple[object, ...]:
        values = _VALUES[table](self.random)
        return tuple(None if self.random.random() < 0.05 else v for v in values)

    def _insert(self, table: str, data: list[tuple[object, ...]]) -> None:
        if data:
            marks = ", ".join("?" for _ in data[0])
            self.cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", data)

    def _zset(self, table: str, data: list[tuple[object, ...]]) -> ZSet:
        run(self.cursor, f"CREATE OR REPLACE TEMP TABLE part AS FROM {table} LIMIT 0")
        self._insert("part", data)
        schema = DuckCatalog(self.cursor).schema(f'"main"."{table}"')
        assert schema is not None
        return from_arrow(table_of(self.cursor, "FROM part"), schema)

    def random_change(self) -> dict[str, ZSet]:
        kind = self.random.choice(["one", "one", "few", "emptied", "many"])
        if kind == "one":
            table = self.random.choice("een")
            insert = self.random.random() < 0.5
            return self.change({table: int(insert)}, 0.0 if insert else 0.15)
        if kind == "emptied":
            return self.change({self.random.choice("es"): 0}, 1.0)
        count = 2 if kind == "few" else 6
        return self.change({t: self.random.randint(0, count) for t in "ens"}, 0.25)

    def answers(self) -> dict[str, Rows]:
        """What DuckDB says to the users' queries."""
        return {q: Counter(repr(rounded(r)) for r in rows(self.cursor, q)) for q in self.queries}

    def step(self, changes: dict[str, ZSet], *, rollback_first: bool) -> None:
        if rollback_first:
            deltas = {
                source: changes[scan.relation].project(scan.columns)
                for source, scan in self.world.compiler.sources().items()
                if scan.relation in changes
            }
            self.world.circuit.step(deltas)
            self.world.circuit.rollback()
        self.world.step(changes)


@pytest.mark.parametrize("seed", range(3))
def test_recursive_views_follow_their_tables(seed: int) -> None:
    graphs = Graphs(seed, ALL)
    for number in range(6):
        graphs.step(graphs.random_change(), rollback_first=number % 2 == 1)
        wanted = graphs.answers()
        wrong = {
            q: (graphs.world.rows[q], wanted[q]) for q in ALL if graphs.world.rows[q] != wanted[q]
        }
        assert wrong == {}
        if number == 2:
            before = graphs.world.rows
            graphs.world = World(graphs.cursor, ALL, plans())
            assert graphs.world.rows == before

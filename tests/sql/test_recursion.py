"""Recursive queries under inserts and deletes: after every change what DuckDB says.

The graphs are small and full of cycles, duplicates and NULLs; `dag` holds the edges that go up.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import pytest

import ivm
from ivm import errors
from ivm.delta_ops.recursion import StepCircuit
from ivm.sql.bind.bind import bind
from ivm.sql.plan.nodes import Filter, Plan, Recursive
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.errors import EvaluationError
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.duckdb.duck import table as table_of
from tests.corpus.recursion_corpus import QUERIES, TABLES
from tests.support.circuit_world import Rows, World, rounded
from tests.support.plans import planned
from tests.support.view_oracle import assert_verified
from tests.tiers import examples, some

ALL = list(some([query for group in QUERIES.values() for query in group]))

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
        return {query: planned(query, cursor) for query in ALL}


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


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(2))
def test_recursive_views_follow_their_tables(seed: int) -> None:
    graphs = Graphs(seed, ALL)
    for number in range(examples(6)):
        graphs.step(graphs.random_change(), rollback_first=number % 2 == 1)
        wanted = graphs.answers()
        wrong = {
            q: (graphs.world.rows[q], wanted[q]) for q in ALL if graphs.world.rows[q] != wanted[q]
        }
        assert wrong == {}
        if number == 1:
            before = graphs.world.rows
            graphs.world = World(graphs.cursor, ALL, plans())
            assert graphs.world.rows == before


@pytest.mark.full(smoke=4)
def test_recursive_views_derived_anew_follow_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an expression fails on rows that the change itself takes away."""
    feed = StepCircuit.feed
    failed: list[Mapping[str, ZSet]] = []

    def fails_first(term: StepCircuit, changes: Mapping[str, ZSet]) -> ZSet | None:
        if changes.keys() <= term.inputs.keys() and not any(change is changes for change in failed):
            failed.append(changes)
            raise EvaluationError("on rows that are not there")
        return feed(term, changes)

    monkeypatch.setattr(StepCircuit, "feed", fails_first)
    graphs = Graphs(7, ALL)
    for number in range(6):
        graphs.step(graphs.random_change(), rollback_first=False)
        assert failed or number < 2
        failed.clear()
        wanted = graphs.answers()
        assert [q for q in ALL if graphs.world.rows[q] != wanted[q]] == []


@pytest.mark.parametrize("union", ["UNION", "UNION ALL"])
def test_an_expression_does_not_fail_on_rows_that_the_change_takes_away(
    db: ivm.Database, union: str
) -> None:
    """The new factor of the second step meets the first step's old product."""
    db.execute("CREATE TABLE e (l INTEGER, m INTEGER)")
    db.execute("INSERT INTO e VALUES (0, 100000), (1, 1)")
    db.execute(
        f"CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(x, l) AS (SELECT 1000, 0 {union} "
        "SELECT r.x * e.m, r.l + 1 FROM r JOIN e ON e.l = r.l) SELECT * FROM r"
    )
    db.execute("UPDATE e SET m = CASE l WHEN 0 THEN 1 ELSE 1000 END")
    assert view(db) == [(1000, 0), (1000, 1), (1000000, 2)]
    with pytest.raises(errors.EvaluationError, match="verflow"):
        db.execute("UPDATE e SET m = 10000")
    assert view(db) == [(1000, 0), (1000, 1), (1000000, 2)]
    db.execute("UPDATE e SET m = CASE l WHEN 0 THEN 100000 ELSE 1 END")
    assert view(db) == [(1000, 0), (100000000, 1), (100000000, 2)]


@pytest.mark.full
def test_a_leaf_touches_few_rows() -> None:
    """A new or removed edge to a new node, in a graph of any size."""
    query = "WITH RECURSIVE r(k) AS (SELECT k FROM s UNION SELECT b FROM e JOIN r ON a = k) FROM r"
    touched = []
    for size in (50, 500):
        with database() as cursor:
            cursor.execute("INSERT INTO s VALUES (0)")
            cursor.execute("SELECT setseed(0.5)")
            cursor.execute(
                f"INSERT INTO e SELECT floor(random() * i), i, 1, 1 FROM range(1, {size}) AS t(i)"
            )
            world = World(cursor, [query])
            (term,) = [t for n in range(9) if (t := world.compiler.term(n)) is not None]
            works = [term.circuit.node(n).work for n in term.circuit.nodes_of("step")]
            before = sum(work.rows_in for work in works)
            for weight in (1, -1):
                columns = from_arrow(
                    table_of(cursor, "SELECT 7::INTEGER, 9999::INTEGER"),
                    tuple((name, type_of("INTEGER")) for name in "ab"),
                ).columns
                (source,) = [n for n, s in world.compiler.sources().items() if '"e"' in s.relation]
                out = world.circuit.step({source: ZSet(columns, np.array([weight]))})
                world.circuit.commit()
                assert out[query].weights.tolist() == [weight]
            touched.append(sum(work.rows_in for work in works) - before)
    assert touched[0] == touched[1] < 20


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("CREATE TABLE edge (a INTEGER, b INTEGER)")
        yield opened


def view(db: ivm.Database) -> list[tuple[object, ...]]:
    """The view's rows, which are those of its query."""
    assert_verified(db, "v")
    return sorted(db.execute("FROM v").fetchall())


UP = (
    "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(k) AS (SELECT 1 UNION{all} "
    "SELECT b FROM edge JOIN r ON a = k) FROM r"
)


@pytest.mark.full
def test_a_cycle_loses_its_way_in(db: ivm.Database) -> None:
    """Rows of a cycle derive each other; counting derivations alone would keep them."""
    db.execute(UP.format(all=""))
    db.insert("edge", {"a": [1, 2, 3, 4], "b": [2, 3, 4, 2]})
    assert view(db) == [(1,), (2,), (3,), (4,)]
    db.delete("edge", {"a": [1], "b": [2]})
    assert view(db) == [(1,)]


@pytest.mark.full
def test_a_row_found_again_on_a_longer_way(db: ivm.Database) -> None:
    db.execute(UP.format(all=""))
    db.insert("edge", {"a": [1, 1, 2, 3, 4, 5], "b": [5, 2, 3, 4, 5, 6]})
    db.delete("edge", {"a": [1], "b": [5]})  # 5 and 6 are now 4 and 5 steps away, not 1 and 2
    assert view(db) == [(1,), (2,), (3,), (4,), (5,), (6,)]
    db.delete("edge", {"a": [3], "b": [4]})
    assert view(db) == [(1,), (2,), (3,)]


@pytest.mark.full
def test_recursion_without_end_is_refused(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivm.delta_ops.recursion.MOST_ITERATIONS", 50)
    db.execute(UP.format(all=" ALL"))
    db.insert("edge", {"a": [1, 2], "b": [2, 3]})
    with pytest.raises(errors.EvaluationError, match=r"without end.+write UNION") as caught:
        db.insert("edge", {"a": [3], "b": [2]})
    assert caught.value.views == {"v"}
    assert view(db) == [(1,), (2,), (3,)]
    db.insert("edge", {"a": [3, 2], "b": [4, 3]})
    assert view(db) == [(1,), (2,), (3,), (3,), (4,), (4,)]


def test_recursion_that_grows_without_end_is_refused(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivm.delta_ops.recursion.MOST_ROWS", 1000)
    db.execute(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(k) AS (SELECT a FROM edge UNION "
        "SELECT unnest([2 * k, 2 * k + 1]) FROM r WHERE k > 0) FROM r"
    )
    with pytest.raises(
        errors.EvaluationError, match="1,000 rows; bound the recursion in its WHERE"
    ):
        db.insert("edge", {"a": [1]})
    assert view(db) == []


def test_a_chain_may_be_longer_than_the_limit(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deep when the view was made may be twice as deep."""
    monkeypatch.setattr("ivm.delta_ops.recursion.MOST_ITERATIONS", 5)
    db.insert("edge", {"a": range(1, 20), "b": range(2, 21)})
    db.execute(UP.format(all=""))
    db.insert("edge", {"a": range(20, 30), "b": range(21, 31)})
    assert len(view(db)) == 30


@pytest.mark.full
def test_an_error_in_a_later_iteration_changes_nothing(db: ivm.Database) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(k, n) AS (SELECT 1, 1 UNION ALL "
        "SELECT b, n * 1000 FROM edge JOIN r ON a = k) FROM r"
    )
    db.insert("edge", {"a": [1, 2], "b": [2, 3]})
    for _ in range(2):
        with pytest.raises(errors.EvaluationError, match="verflow"):
            db.insert("edge", {"a": [1, 3, 4], "b": [3, 4, 5]})
        assert view(db) == [(1, 1), (2, 1000), (3, 1000000)]
    db.insert("edge", {"a": [1, 3], "b": [3, 4]})
    assert (4, 1000000) in view(db)


@pytest.mark.full
def test_recursive_views_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "graph.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE edge (a INTEGER, b INTEGER)")
        db.insert("edge", {"a": [1, 2, 3], "b": [2, 3, 1]})
        db.execute(UP.format(all=""))
        db.execute(
            "CREATE MATERIALIZED VIEW reached AS SELECT count(*) AS n, sum(k) AS s FROM v "
            "WHERE k > 1"
        )
    for change in ("DELETE FROM edge WHERE a = 2", "INSERT INTO edge VALUES (2, 7), (7, 3)"):
        with ivm.connect(path) as db:
            db.execute(change)
            found = view(db)
            assert db.execute("FROM reached").fetchall() == [
                (len(found) - 1, sum(k for (k,) in found) - 1)  # type: ignore[misc]
            ]
    assert found == [(1,), (2,), (3,), (7,)]


LINKS = {
    "found": "WITH RECURSIVE found(page, far) AS (SELECT 'p0', 0.0::DOUBLE UNION SELECT target, "
    "far + cost FROM links JOIN found ON source = page WHERE far < 3) SELECT * FROM found",
    "nearest": "SELECT page, min(far) AS far FROM found GROUP BY page",
    "ways": "WITH RECURSIVE way(page, trail) AS (SELECT 'p0', '/' UNION ALL SELECT target, "
    "trail || target || '/' FROM links JOIN way ON source = page "
    "WHERE NOT contains(trail, '/' || target || '/')) SELECT * FROM way",
    "pairs": "WITH RECURSIVE pair(x, y) AS (SELECT source, target FROM links UNION SELECT p.x, q.y "
    "FROM pair p JOIN pair q ON p.y = q.x) SELECT x, count(*) AS n, max(y) AS last FROM pair "
    "GROUP BY x",
    "lone": "SELECT DISTINCT source FROM links ANTI JOIN found ON source = page",
}


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(2))
def test_recursive_views_of_a_database(tmp_path: Path, seed: int) -> None:
    """Strings, views over views, updates, transactions, restarts."""
    random, path = Random(seed), tmp_path / "links.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE links (source VARCHAR, target VARCHAR, cost DOUBLE)")
        for name, query in LINKS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for _ in range(3):
        with ivm.connect(path) as db:
            for _ in range(6):
                _change_links(db, random)
                assert_verified(db)
            assert {view.strategy for view in db.views()} == {"indexed"}


def _change_links(db: ivm.Database, random: Random) -> None:
    def page() -> str:
        return f"p{random.randrange(5)}"

    match random.choice(["insert", "insert", "delete", "update", "rolled back", "both"]):
        case "insert":
            for _ in range(random.randrange(4)):
                link = {"source": page(), "target": page(), "cost": random.randrange(4) / 2}
                db.insert("links", [link])
        case "delete":
            db.execute("DELETE FROM links WHERE source = ? AND target > ?", [page(), page()])
        case "update":
            db.execute("UPDATE links SET target = ? WHERE source = ?", [page(), page()])
        case "rolled back":
            db.execute("BEGIN")
            db.execute("DELETE FROM links WHERE source = ?", [page()])
            db.execute("ROLLBACK")
        case _:
            with db.transaction():
                db.execute("UPDATE links SET cost = cost / 2 WHERE target = ?", [page()])
                db.insert("links", {"source": [page()], "target": [page()], "cost": [1.5]})


def test_a_recursive_view_is_explained(db: ivm.Database) -> None:
    db.execute(UP.format(all=""))
    row = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchone()
    assert row is not None
    lines = [line.split("  [")[0] for line in row[1].splitlines()]
    assert lines == [
        "Recursive UNION",
        "  its step:",
        "    Join inner l.c0 = r.c0",
        "      Arrange by (c0)",
        "        Scan input 1 (a, b)",
        "      Arrange by (c0)",
        "        Scan last rows (c0, iteration)",
        "  Project 1",
        "    Values",
        '  Scan "memory"."main"."edge" (a, b)',
    ]
    row = db.execute("EXPLAIN (FORMAT mermaid) MATERIALIZED VIEW v").fetchone()
    assert row is not None
    assert len(set(row[1].splitlines())) == len(row[1].splitlines()) > 15


@pytest.mark.full
@pytest.mark.parametrize("quantifier", ["EXISTS", "NOT EXISTS"])
def test_a_step_compares_with_many_rows(db: ivm.Database, quantifier: str) -> None:
    """DuckDB's fault `merge_joins_in_recursion` would end the database."""
    db.execute("INSERT INTO edge SELECT range, 0 FROM range(8)")
    db.execute(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(k, i) AS (SELECT a, 0 FROM edge UNION "
        f"SELECT k, i + 1 FROM r WHERE i < 3 AND {quantifier} (SELECT 1 FROM edge WHERE a > k)) "
        "FROM r"
    )
    db.execute("INSERT INTO edge VALUES (9, 0); DELETE FROM edge WHERE a = 3")
    assert_verified(db)


@pytest.mark.full
def test_two_views_share_a_recursive_query(db: ivm.Database) -> None:
    db.execute(UP.format(all=""))
    db.execute(UP.format(all="").replace(" v ", " other "))
    row = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchone()
    assert row is not None
    assert "shared by 2 views" in row[1].splitlines()[0]


@pytest.mark.full
def test_constants_alone_recur(db: ivm.Database) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL "
        "SELECT n + 1 FROM t WHERE n < 10) SELECT n FROM t"
    )
    assert view(db) == [(n,) for n in range(1, 11)]


NOT_YET = {
    "WITH RECURSIVE r(k) USING KEY (k) AS (SELECT 1 UNION SELECT b FROM edge JOIN r ON a = k) "
    "FROM r": "USING KEY",
    "SELECT a, (WITH RECURSIVE q(x) AS (SELECT b UNION SELECT max(edge.b) FROM edge JOIN q "
    "ON a = x WHERE edge.b > o.a) SELECT count(*) FROM q) FROM edge AS o": "rows of its own",
    "WITH RECURSIVE r(k) AS (SELECT 1 UNION SELECT b FROM edge JOIN recurring.r ON a = r.k) "
    "FROM r": "recurring.r",
    "WITH RECURSIVE r(k) AS (SELECT 1 UNION SELECT q.k FROM (WITH RECURSIVE q(k) AS (SELECT k "
    "FROM r UNION SELECT b FROM edge JOIN q ON a = k) FROM q) AS q) FROM r": "Recursive over the",
    "WITH RECURSIVE endless(k) AS (SELECT count(*) FROM edge UNION ALL SELECT k FROM endless) "
    "SELECT k + 1 FROM endless LIMIT 4": "LIMIT without ORDER BY over a recursive",
    "WITH RECURSIVE endless(k) AS (SELECT count(*) FROM edge UNION ALL SELECT k FROM endless) "
    "SELECT row_number() OVER () AS n, k FROM endless LIMIT 4": "LIMIT without ORDER BY over a",
    "WITH RECURSIVE endless(k) AS (SELECT count(*) FROM edge UNION ALL SELECT k FROM endless) "
    "SELECT a FROM edge WHERE EXISTS (FROM endless)": "EXISTS over a recursive query",
}


@pytest.mark.full
@pytest.mark.parametrize("query", NOT_YET)
def test_what_is_recomputed_is_right_and_says_why(db: ivm.Database, query: str) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    db.insert("edge", {"a": [1, 2, 3], "b": [2, 3, 1]})
    assert view(db) == sorted(db.execute(query).fetchall())
    row = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchone()
    assert row is not None
    assert "whole recompute" in row[1]
    assert NOT_YET[query] in row[1]


@pytest.mark.parametrize(("column", "passes"), [("x", True), ("y", False), ("c", False)], ids=str)
def test_filters_pass_into_the_base_where_the_step_carries_the_column(
    column: str, passes: bool
) -> None:
    """Of equal numbers of `c` (0.0, -0.0) the query chooses one, so all must be there."""
    query = (
        "WITH RECURSIVE t(x, y, c) AS (SELECT a, b, c FROM e UNION SELECT x, b, t.c FROM t "
        f"JOIN e ON y = a) SELECT count(*) FROM t WHERE {column} = 2"
    )
    with database() as cursor:
        plan = rewrite(bind(query, DuckCatalog(cursor), cursor))
    while not isinstance(plan, Recursive):
        (plan,) = inputs(plan)
    filters = [part for part in _parts(plan.base) if isinstance(part, Filter)]
    assert bool(filters) is passes


def _parts(plan: Plan) -> Iterator[Plan]:
    yield plan
    for part in inputs(plan):
        yield from _parts(part)

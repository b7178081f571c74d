"""Window functions in views: planned as DuckDB answers, and maintained by deltas.

Every query of the corpus is a view of one circuit; after every change its rows are compared with
its rendering, and the rendering with the query itself where SQL leaves nothing open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest

import ivm
from ivm.sql.bind.bind import bind
from ivm.sql.plan.nodes import TopK, Window
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus.plan_corpus import build
from tests.corpus.window_corpus import INDEXED, OPEN, RECOMPUTED
from tests.support.circuit_world import Epochs, World, followed, multiset, worlds
from tests.support.plan_oracle import assert_means
from tests.support.plans import planned
from tests.support.view_oracle import assert_verified
from tests.tiers import examples, some

FIXED = [*some(INDEXED, 4), *some(RECOMPUTED, 4)]
ALL = [*FIXED, *some(OPEN, 4)]
STEPS = examples(6)
BOTH = (World.rendered, World.wanted)


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, 3)
        yield connection


@pytest.mark.parametrize("query", ALL)
def test_rendered_plan_is_the_query(cursor: Cursor, query: str) -> None:
    plan = planned(query, cursor)
    assert_means(cursor, plan, query, one_answer=query in FIXED)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[World, Epochs]]:
    with worlds(build, 4, ALL) as (world, spare):
        yield world, followed(world, spare, ("t", "u"), STEPS, BOTH, 0.8)


@pytest.mark.parametrize("query", ALL)
def test_view_follows_its_tables(world: tuple[World, Epochs], query: str) -> None:
    for epoch in world[1]:
        maintained, rendered, wanted = epoch[query]
        assert maintained == rendered
        if query in FIXED:
            assert rendered == wanted


@pytest.mark.parametrize("query", ALL)
def test_strategy(world: tuple[World, Epochs], query: str) -> None:
    circuit = world[0].circuit
    found = {circuit.node(n).operator.strategy for n in circuit.nodes_of(query)}
    assert ("group recompute" in found) == (query in RECOMPUTED)


def _nodes(cursor: Cursor, query: str) -> set[type]:
    found: set[type] = set()
    waiting = [planned(query, cursor)]
    while waiting:
        node = waiting.pop()
        found.add(type(node))
        waiting += inputs(node)
    return found


def test_bounded_row_number_is_a_top_k(cursor: Cursor) -> None:
    ranked = "SELECT k, v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t"
    assert TopK in _nodes(cursor, f"SELECT * FROM ({ranked}) WHERE n <= 2")
    assert TopK in _nodes(cursor, f"{ranked} QUALIFY n = 1")
    assert Window in _nodes(cursor, f"SELECT * FROM ({ranked}) WHERE n > 2")
    assert Window not in _nodes(cursor, f"SELECT k FROM ({ranked})")


def _bounds(cursor: Cursor, query: str) -> list[int | None]:
    """What bounds the ranks of the query's windows."""
    found, waiting = [], [planned(query, cursor)]
    while waiting:
        node = waiting.pop()
        found += [node.max_rank] if isinstance(node, Window) else []
        waiting += inputs(node)
    return found


def test_bounded_ranks_keep_the_first_rows_and_their_ties(cursor: Cursor) -> None:
    for name in ("rank", "dense_rank"):
        ranked = f"SELECT k, {name}() OVER (PARTITION BY g ORDER BY v) AS n FROM t"
        assert _bounds(cursor, f"{ranked} QUALIFY n <= 2") == [2]
        assert _bounds(cursor, f"SELECT k FROM ({ranked}) WHERE n = 3 AND n < 7") == [3]
        assert _bounds(cursor, f"SELECT k FROM ({ranked}) WHERE n > 2") == [None]


SPLIT = ["count(*)", "count(v)", "sum(v)", "avg(v)", "min(v)", "max(v)", "bool_or(v > 3)",
         "first_value(v)", "last_value(v)", "any_value(v)", "sum(v) FILTER (WHERE b)"]  # fmt: skip
# Of frames that end within some rows on both sides:
LISTED = ["list(v)", "nth_value(v, 2)", "nth_value(v, 2 IGNORE NULLS)", "var_samp(v)",
          "stddev_pop(v) FILTER (WHERE b)", "string_agg(v::VARCHAR, '-')", "median(v)",
          "quantile_disc(v, 0.3)", "approx_count_distinct(v)"]  # fmt: skip
ORDERED = {
    f"{name}_value(v)": f"{short}(v ORDER BY k, v, n)"
    for name, short in (("first", "first"), ("last", "last"), ("any", "any_value"))
} | {
    "list(v)": "list(v ORDER BY k, v, n)",
    "nth_value(v, 2)": "list(v ORDER BY k, v, n)[2]",
    "nth_value(v, 2 IGNORE NULLS)": "(list(v ORDER BY k, v, n) FILTER (WHERE v IS NOT NULL))[2]",
    "string_agg(v::VARCHAR, '-')": "string_agg(v::VARCHAR, '-' ORDER BY k, v, n)",
}
EDGES = [("2 PRECEDING", "CURRENT ROW"), ("3 PRECEDING", "2 PRECEDING"),
         ("1 FOLLOWING", "4 FOLLOWING"), ("UNBOUNDED PRECEDING", "2 FOLLOWING"),
         ("1 PRECEDING", "UNBOUNDED FOLLOWING"), ("CURRENT ROW", "2 FOLLOWING"),
         ("2 PRECEDING", "1 FOLLOWING")]  # fmt: skip


@pytest.fixture(scope="module")
def numbered() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, 3)
        connection.execute(
            "CREATE TABLE numbered AS SELECT k, v, row_number() OVER () AS n, b FROM t"
        )
        yield connection


@pytest.mark.cases(3)
@pytest.mark.parametrize("exclude", ["GROUP", "TIES"])
@pytest.mark.parametrize("edges", EDGES)
def test_excluded_peers_are_those_of_the_windows_own_order(
    numbered: Cursor, edges: tuple[str, str], exclude: str
) -> None:
    """Frames count rows in the order k, v, n; each is looked up row by row here."""
    frame = f"ROWS BETWEEN {edges[0]} AND {edges[1]}"
    window = f"(PARTITION BY b ORDER BY k {frame} EXCLUDE {exclude})"
    split = SPLIT if "UNBOUNDED" in frame else SPLIT + LISTED
    calls = ", ".join(f"{call} OVER {window}" for call in split)
    query = f"SELECT k, v, n, b, {calls} FROM numbered"
    rendered = render(rewrite(bind(query, DuckCatalog(numbered), numbered)))
    kept = "r.k IS DISTINCT FROM x.k" + (" OR r.n = x.n" if exclude == "TIES" else "")
    answers = ", ".join(
        f"(SELECT {ORDERED.get(call, call)} FROM numbered AS r"
        f" WHERE list_contains(x.frame, r.n) AND ({kept}))"
        for call in split
    )
    wanted = f"""SELECT k, v, n, b, {answers} FROM (SELECT *, coalesce(list(n) OVER
        (PARTITION BY b ORDER BY k, v, n {frame}), []) AS frame FROM numbered) AS x"""
    assert multiset(numbered, rendered) == multiset(numbered, wanted)


@pytest.mark.full
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    ("held", "near", "new"),
    [("3.4999999999999996", "0.8", "4.3"), ("1.7e308", "1e308", "'inf'::DOUBLE")],
)
def test_sums_of_doubles_are_rounded(sign: str, held: str, near: str, new: str) -> None:
    """Bug: key + distance was rounded up to the new key, but new key − distance not down."""
    direction = "DESC" if sign else "ASC"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k DOUBLE)")
        db.execute(f"INSERT INTO t SELECT {sign}({held})")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) OVER (ORDER BY k"
            f" {direction} RANGE BETWEEN CURRENT ROW AND {near} FOLLOWING) AS n FROM t"
        )
        db.execute(f"INSERT INTO t SELECT {sign}({new})")
        assert db.execute("SELECT n FROM v ORDER BY n").fetchall() == [(1,), (2,)]
        assert_verified(db, "v")


@pytest.mark.full
@pytest.mark.parametrize("words", [str.lower, str.upper, str.title])
def test_words_of_a_frame_are_read_in_any_case(words: Callable[[str], str]) -> None:
    query = words(  # ties: the frame decides by which order the view completes them
        "SELECT b, v, sum(b) OVER (ORDER BY v ROWS 1 PRECEDING) AS s, first_value(b) OVER"
        " (ORDER BY v ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) AS f FROM t"
    )
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (b INTEGER, v INTEGER)")
        db.execute("INSERT INTO t SELECT range, range % 7 FROM range(20)")
        db.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
        assert db.views()[0].reason is None
        db.execute("DELETE FROM t WHERE b = 5")
        db.execute("INSERT INTO t VALUES (5, 3), (7, 1)")
        db.execute("DELETE FROM t WHERE b % 5 = 1")
        assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize("bound", ["1e0", "(1e0)", "0.5e0", "0.5"])
def test_a_distance_may_be_any_number(bound: str) -> None:
    """Bug: a bound that DuckDB casts was taken for a relation named as the type."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (x DOUBLE, a INTEGER)")
        db.execute("INSERT INTO t SELECT range / 2, range FROM range(6)")
        frame = f"RANGE BETWEEN {bound} PRECEDING AND CURRENT ROW"
        db.execute(
            f"CREATE MATERIALIZED VIEW v AS SELECT x, sum(a) OVER (ORDER BY x {frame}) FROM t"
        )
        assert db.views()[0].reason is None
        db.execute("INSERT INTO t VALUES (1.25, 9)")
        assert_verified(db, "v")

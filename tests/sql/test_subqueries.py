"""Subqueries: every form has a circuit, and its rows are DuckDB's answer after every change."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.sql.plan.nodes import Distinct, Join, Plan
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, run, table
from tests.corpus.plan_corpus import build
from tests.corpus.subquery_corpus import QUERIES
from tests.support.circuit_world import Epochs, followed, shown, worlds
from tests.support.plans import planned
from tests.tiers import some

ALL = some([query for group in QUERIES.values() for query in group], 8)
TABLES = ("t", "u", "w")


def emptied(cursor: Cursor, name: str) -> ZSet:
    """Delete all rows of a table; gives the delta."""
    gone = from_arrow(table(cursor, f"FROM {name}"), DuckCatalog(cursor).schema(name) or ())
    run(cursor, f"DELETE FROM {name}")
    return gone.negate()


def few_rows(cursor: Cursor, seed: int) -> None:
    build(cursor, seed, rows=16)


@pytest.fixture(scope="module")
def epochs() -> Iterator[Epochs]:
    """At the start, after some changes, with a table emptied, and after more changes."""
    with worlds(few_rows, 3, ALL) as (world, spare):
        epochs = [shown(world)]
        epochs += followed(world, spare, TABLES, 2)
        world.step({'"main"."u"': emptied(world.cursor, '"main"."u"')})
        epochs.append(shown(world))
        yield epochs + followed(world, spare, TABLES, 2, seed=12)


@pytest.mark.parametrize("query", ALL)
def test_view_follows_its_tables(epochs: Epochs, query: str) -> None:
    for epoch in epochs:
        maintained, wanted = epoch[query]
        assert maintained == wanted


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        build(connection, seed=2, rows=2)
        yield connection


def nodes(cursor: Cursor, query: str) -> list[Plan]:
    """All nodes of a query's rewritten plan."""
    found = [planned(query, cursor)]
    for plan in found:
        found += inputs(plan)
    return found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v <> t.v)",
        "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE u.v = t.v)",
        "SELECT k, (SELECT max(u.v) FROM u WHERE u.k = t.k) FROM t",
        "SELECT k FROM t WHERE v > (SELECT avg(u.v) FROM u WHERE u.k = t.k)",
        "SELECT t.k, x.v FROM t, LATERAL (SELECT v FROM u WHERE u.k = t.k ORDER BY v LIMIT 1) x",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS"
        " (SELECT 1 FROM w WHERE w.k2 = u.v AND w.small = t.k))",
    ],
)
def test_an_equality_needs_no_domain_and_no_cross_product(cursor: Cursor, query: str) -> None:
    found = nodes(cursor, query)
    assert not any(isinstance(plan, Distinct) for plan in found)
    assert all(plan.left_keys for plan in found if isinstance(plan, Join))


def test_a_domain_is_met_by_equality(cursor: Cursor) -> None:
    query = "SELECT k, (SELECT sum(u.v + t.v) FROM u WHERE u.k = t.k) FROM t"
    assert all(plan.left_keys for plan in nodes(cursor, query) if isinstance(plan, Join))


def test_a_subquery_that_asks_for_one_row_at_most_is_not_checked(cursor: Cursor) -> None:
    for query in (
        "SELECT k, (SELECT max(v) FROM u WHERE u.k = t.k) FROM t",
        "SELECT k, (SELECT v FROM u WHERE u.k = t.k ORDER BY v LIMIT 1) FROM t",
        "SELECT k, (SELECT c FROM (SELECT k, count(*) c FROM u GROUP BY k) x WHERE x.k = t.k)"
        " FROM t",
    ):
        plans = nodes(cursor, query)
        assert not any("error" in repr(plan).lower() for plan in plans)


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE o (k INTEGER PRIMARY KEY, v INTEGER)")
        database.execute("CREATE TABLE u (k INTEGER, x INTEGER)")
        database.execute("INSERT INTO o VALUES (1, 1), (2, 2)")
        database.execute("INSERT INTO u VALUES (1, 5), (3, 7), (3, 8)")
        yield database


@pytest.mark.full
@pytest.mark.parametrize(
    "query",
    [
        "SELECT o.k, (SELECT count(*) FROM u JOIN u w ON u.x < w.x + o.v) AS n FROM o",
        "SELECT o.k, EXISTS (SELECT 1 FROM u JOIN u w ON u.x + w.k < o.v) AS n FROM o",
        "SELECT o.k, q.* FROM o, LATERAL (SELECT DISTINCT u.x FROM u JOIN u w"
        " ON u.k + w.k > o.v + 1) q",
    ],
)
def test_a_condition_of_a_join_alone_may_read_the_outer_row(db: ivm.Database, query: str) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW near AS {query}")
    for change in (
        "INSERT INTO u VALUES (2, 6)",
        "UPDATE o SET v = 4",
        "DELETE FROM u WHERE k = 3",
    ):
        db.execute(change)
        found = db.execute("FROM near").fetchall()
        assert sorted(found) == sorted(db.execute(query).fetchall())
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][1] == "indexed"


@pytest.mark.full
def test_a_change_that_gives_a_scalar_subquery_two_rows_is_refused(db: ivm.Database) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW looked_up AS"
        " SELECT k, (SELECT x FROM u WHERE u.k = o.k) AS x FROM o"
    )
    refused = [
        "INSERT INTO u VALUES (1, 6)",
        "INSERT INTO u VALUES (2, NULL), (2, NULL)",
        "INSERT INTO o VALUES (3, 1)",
        "UPDATE u SET k = 2",
    ]
    for statement in refused:
        with pytest.raises(errors.EvaluationError, match=r"'looked_up'.*More than one row"):
            db.execute(statement)
    db.execute("INSERT INTO u VALUES (2, NULL)")
    db.execute("UPDATE u SET x = 50 WHERE k = 1")
    assert db.execute("FROM looked_up ORDER BY k").fetchall() == [(1, 50), (2, None)]


def test_a_view_over_two_rows_is_not_made(db: ivm.Database) -> None:
    with pytest.raises(errors.InputError, match="More than one row"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT k, (SELECT x FROM u) AS x FROM o")


def test_a_primary_key_makes_a_subquery_single(db: ivm.Database) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW named AS"
        " SELECT u.k, (SELECT o.v FROM o WHERE o.k = u.k) AS v FROM u"
    )
    shown = db.execute("EXPLAIN MATERIALIZED VIEW named").fetchall()
    assert "max" not in str(shown)
    db.execute("INSERT INTO o VALUES (3, 30)")
    found = db.execute("SELECT v FROM named ORDER BY k, v").fetchall()
    assert found == [(1,), (30,), (30,)]


@pytest.mark.full
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, m FROM t, LATERAL (SELECT 7 AS m UNION ALL SELECT max(v) FROM u"
        " WHERE u.k = t.k)",
        "SELECT k, m FROM t, LATERAL (SELECT DISTINCT max(v) AS m FROM u WHERE u.k = t.k)",
        "SELECT k, (SELECT count(*) FROM (SELECT sum(v) FROM u WHERE u.k = t.k"
        " EXCEPT SELECT 3)) AS n FROM t",
        "SELECT k, ARRAY(SELECT max(v) FROM u WHERE u.k = t.k) AS m FROM t",
        "SELECT k, m FROM t LEFT JOIN LATERAL (SELECT a.k AS m FROM t AS a,"
        " (SELECT max(v) FROM u WHERE u.k = t.k)) ON TRUE",
    ],
)
def test_rows_that_duckdb_loses_are_no_rows_of_the_view(query: str) -> None:
    """Bug: the view had a row of NULLs, as SQL wants it; DuckDB's own answer has none."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INT); CREATE TABLE u (k INT, v INT)")
        db.execute("INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES (1, 3)")
        db.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
        for change in ("INSERT INTO t VALUES (3)", "INSERT INTO u VALUES (2, 5)", "DELETE FROM u"):
            db.execute(change)
            found, wanted = [db.execute(q).fetchall() for q in ("FROM w", query)]
            assert sorted(map(repr, found)) == sorted(map(repr, wanted))


WIDE = [
    "a IN (SELECT b FROM wide)",
    "b IN (SELECT a FROM wide)",
    "a NOT IN (SELECT b FROM wide)",
    "(a, k) IN (SELECT b, k FROM wide)",
    "b <> ALL (SELECT a FROM wide)",
    "a < ANY (SELECT b FROM wide)",
    "1.123456789 IN (SELECT a FROM wide)",
    "a = (SELECT max(b) FROM wide)",
    "EXISTS (SELECT 1 FROM wide y WHERE y.b = wide.a)",
]


@pytest.mark.full
def test_decimals_whose_digits_are_too_many_in_all() -> None:
    """In IN, ANY and ALL they lose some behind the point, which they do not elsewhere."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE wide (k INTEGER, a DECIMAL(38,5), b DECIMAL(18,9))")
        for i, query in enumerate(WIDE):
            db.execute(f"CREATE MATERIALIZED VIEW rows{i} AS SELECT * FROM wide WHERE {query}")
            db.execute(f"CREATE MATERIALIZED VIEW value{i} AS SELECT k, {query} AS v FROM wide")
        db.execute("INSERT INTO wide VALUES (1, 1.12346, 1.123456789), (2, 5, NULL), (3, NULL, 5)")
        for i, query in enumerate(WIDE):
            for name in (f"rows{i}", f"value{i}"):
                ((*_, same),) = db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
                assert same, query

"""LIMIT by numbers that change, against DuckDB on random streams of rows and places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.delta_ops.ordered.dynamic_limit import DynamicLimit
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.zset import empty
from tests.support.operator_bench import Bench, Row, streams, types_of, zset
from tests.tiers import examples

TYPES = types_of("INTEGER", "VARCHAR", "DECIMAL(9,2)")
PLACES = types_of("BIGINT", "BIGINT")
ALL = "c0 ASC NULLS LAST, c1 ASC NULLS LAST, c2 ASC NULLS LAST"
NUMBERS = st.integers(0, 8)


def bench(order: list[OrderKey], terms: str) -> Bench:
    sql = f"""SELECT * EXCLUDE (n, f, l) FROM (SELECT *, row_number() OVER (ORDER BY {terms}{ALL})
        AS n FROM i0) JOIN i1 AS p(f, l) ON n > f AND n <= l"""
    return Bench(
        lambda c, s: c.add("op", lambda _: DynamicLimit(TYPES, order), s), [TYPES, PLACES], sql
    )


def moved(old: Row | None, new: Row) -> list[tuple[Row, int]]:
    """The one row of places takes the place of another."""
    return [(new, 1)] if old is None else [(old, -1), (new, 1)]


@pytest.mark.parametrize(
    ("order", "terms"),
    [
        ([OrderKey(2, True, False)], "c2 DESC NULLS LAST, "),
        ([OrderKey(1, False, True)], "c1 ASC NULLS FIRST, "),
        ([], ""),
    ],
)
@settings(deadline=None, max_examples=examples(15))
@given(data=st.data())
def test_follows_duckdb(order: list[OrderKey], terms: str, data: st.DataObject) -> None:
    under_test = bench(order, terms)
    now: Row | None = None
    for (rows,) in data.draw(streams(TYPES)):
        first = data.draw(NUMBERS)
        new = (str(first), str(first + data.draw(NUMBERS)))
        delta = [] if data.draw(st.booleans()) and now else moved(now, new)
        now = new if delta else now
        steps = [zset(TYPES, rows), zset(PLACES, delta)]
        under_test.step(steps, rollback_first=data.draw(st.booleans()))
        under_test.check()
    under_test.rehydrate()
    under_test.check_contents()


def test_a_place_that_moves_by_one_shows_one_row() -> None:
    under_test = bench([OrderKey(2, True, False)], "c2 DESC NULLS LAST, ")
    rows = zset(TYPES, [(("1", "'a'", "1.10"), 2), (("2", "'b'", "0.01"), 3)])
    assert len(under_test.step([rows, zset(PLACES, [(("0", "1"), 1)])])) == 1
    out = under_test.step([empty(TYPES), zset(PLACES, moved(("0", "1"), ("0", "3")))])
    assert out.weights.tolist() == [1, 1]


def test_a_limit_that_would_be_negative_refuses_the_change() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER); CREATE TABLE n (x INTEGER)")
        db.execute("INSERT INTO t VALUES (1), (2), (3); INSERT INTO n VALUES (2)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT k FROM t ORDER BY k LIMIT (SELECT max(x) FROM n)"
        )
        db.execute("INSERT INTO n VALUES (3)")
        assert db.execute("SELECT count(*) FROM v").fetchall() == [(3,)]
        with pytest.raises(errors.InputError, match="negative"):
            db.execute("UPDATE n SET x = -x")
        assert db.execute("SELECT count(*), max(x) FROM v, n").fetchall() == [(6, 3)]
        db.execute("DELETE FROM n")  # NULL is no limit
        db.execute("INSERT INTO t VALUES (0)")
        assert db.execute("SELECT count(*) FROM v").fetchall() == [(4,)]


@pytest.mark.parametrize("bound", ["LIMIT {}", "OFFSET {}", "LIMIT 5 OFFSET {}", "LIMIT {} %"])
def test_a_negative_limit_of_no_rows_is_none(bound: str) -> None:
    """DuckDB does not look at it either."""
    written = bound.format("(SELECT x FROM n)")
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER); CREATE TABLE n (x INTEGER)")
        db.execute("INSERT INTO t VALUES (1); INSERT INTO n VALUES (100)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT k FROM t ORDER BY k {written}")
        with pytest.raises(errors.InputError, match="negative"):
            db.execute("UPDATE n SET x = -1")
        db.execute("BEGIN; DELETE FROM t; UPDATE n SET x = -1; COMMIT")
        assert db.execute("FROM v").fetchall() == []
        db.execute(f"CREATE MATERIALIZED VIEW w AS SELECT k FROM t ORDER BY k {written}")
        with pytest.raises(errors.InputError, match="negative"):
            db.execute("INSERT INTO t VALUES (2)")
        db.execute("BEGIN; UPDATE n SET x = 0; INSERT INTO t VALUES (2); COMMIT")
        shown = [(2,)] if "OFFSET" in bound else []
        assert db.execute("FROM v").fetchall() == db.execute("FROM w").fetchall() == shown

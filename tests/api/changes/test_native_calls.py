"""insert, upsert, delete and apply mean the same on a table that DuckDB itself must change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import InputError
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n, sum(c) AS s FROM {} GROUP BY b"
TABLES = {
    "keyed": (
        "p (a INTEGER PRIMARY KEY, b INTEGER DEFAULT 7, c INTEGER)",
        "f (x INTEGER REFERENCES p (a))",
    ),
    "keyless": ("p (a INTEGER{}, b INTEGER DEFAULT 7, c INTEGER)", "o (k INTEGER PRIMARY KEY)"),
}  # fmt: skip

values = st.one_of(st.none(), st.integers(0, 2))
columns = st.sampled_from(["a", "ab", "ac", "abc", "abc", "b"])


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, list[Any]], list[int]]:
    """A call, its rows as columns, and weights for `apply`."""
    count, names = draw(st.integers(1, 3)), draw(columns)
    rows = {name: draw(st.lists(values, min_size=count, max_size=count)) for name in names}
    weights = draw(st.lists(st.integers(-2, 2), min_size=count, max_size=count))
    return draw(st.sampled_from(["insert", "upsert", "delete", "apply"])), rows, weights


@pytest.fixture(scope="module", params=TABLES)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[ivm.Database, ivm.Database]]:
    """The same table with a fast path, and with a foreign key for which DuckDB changes it."""
    table, other = TABLES[request.param]
    with ivm.connect() as plain, ivm.connect() as native:
        plain.execute(f"CREATE TABLE {table.format('')}")
        if request.param == "keyed":
            native.execute(f"CREATE TABLE {table}; CREATE TABLE {other}")
        else:
            native.execute(f"CREATE TABLE {other}; INSERT INTO o FROM range(3)")
            native.execute(f"CREATE TABLE {table.format(' REFERENCES o (k)')}")
        for db in (plain, native):
            db.execute(VIEW.format("p"))
        yield plain, native


def made(db: ivm.Database, call: str, rows: dict[str, list[Any]], weights: list[int]) -> int | None:
    """What the call gives; None if it is refused."""
    try:
        if call == "apply":
            return db.apply("p", rows, weights)
        return int(getattr(db, call)("p", rows))
    except InputError:
        return None


@pytest.mark.full
@settings(max_examples=examples(40), deadline=None)
@given(st.lists(calls(), min_size=1, max_size=6))
def test_the_same_rows_and_refusals(
    pair: tuple[ivm.Database, ivm.Database], history: list[Any]
) -> None:
    for db in pair:
        db.execute("TRUNCATE p")
    for call in history:
        plain, native = [made(db, *call) for db in pair]
        assert plain == native
        found = [db.execute("SELECT * FROM p ORDER BY ALL").fetchall() for db in pair]
        assert found[0] == found[1]
    for db in pair:
        assert_verified(db, "v")


def test_rows_that_only_rowid_tells_apart_are_deleted_by_sql() -> None:
    """A column of that name hides DuckDB's own; all rows with its value would go."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (rowid INTEGER, a INTEGER, b INTEGER AS (a + 1))")
        db.execute("INSERT INTO t (rowid, a) VALUES (1, 1), (1, 2)")
        with pytest.raises(InputError, match="write a DELETE in SQL"):
            db.delete("t", {"rowid": [1], "a": [1]})
        db.execute("DELETE FROM t WHERE rowid = 1 AND a = 1")
        assert db.execute("FROM t").fetchall() == [(1, 2, 3)]

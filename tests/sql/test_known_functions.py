"""Every function of the DuckDB at hand is known, and one that is not is refused in a view."""

from __future__ import annotations

import re

import duckdb
import pytest

import ivm
from ivm.errors import UnsupportedError
from ivm.sql.parse.function_list import built_in_functions
from ivm.sql.plan import known_functions
from ivm.sql.plan.known_functions import (
    AGGREGATES,
    OF_THE_SESSION,
    VOLATILE,
    WINDOWS,
    is_fixed,
    own_functions,
    unknown_functions,
)
from ivm.storage.identifiers import fold

LISTED = """
SELECT DISTINCT function_name, function_type, stability,
    regexp_matches(parameter_types::VARCHAR || return_type, 'TIME ZONE|TZ')
FROM duckdb_functions() WHERE internal AND function_type IN ('scalar', 'aggregate', 'window')
"""
KINDS = {"aggregate": AGGREGATES, "window": WINDOWS}


def test_every_function_of_this_build_is_known() -> None:
    """A new one: find out whether its value is fixed by its arguments, and add it to the table."""
    assert sorted(unknown_functions()) == [], f"of DuckDB {duckdb.__version__}"


def test_duckdb_says_no_more_of_the_functions_than_is_known() -> None:
    """Where it says that a value changes within a query or between queries, that is known here; but
    for what depends on the TimeZone, which is the same at all times."""
    with duckdb.connect() as empty:
        listed = empty.execute(LISTED).fetchall()
    for name, kind, stability, zoned in listed:
        if kind != "scalar":
            assert fold(name) in KINDS[kind], name
        elif stability == "VOLATILE":
            assert fold(name) in VOLATILE, name
        elif stability != "CONSISTENT" and not zoned:
            assert fold(name) in OF_THE_SESSION, name


def test_a_function_is_known_as_one_thing() -> None:
    several = OF_THE_SESSION & VOLATILE | AGGREGATES & WINDOWS
    assert not several
    assert not [name for name in OF_THE_SESSION | VOLATILE if is_fixed(name)]


@pytest.mark.full
@pytest.mark.parametrize("call", ["reverse(a)", "product(i)", "ntile(2) OVER (ORDER BY i)"])
def test_what_a_new_build_brings_is_refused_in_a_view(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if nothing were known of a function."""
    name = call.partition("(")[0]
    for table in ("_FIXED", "AGGREGATES", "WINDOWS"):
        monkeypatch.setattr(known_functions, table, getattr(known_functions, table) - {name})
    _forget_functions()
    try:
        with ivm.connect() as db:
            db.execute("CREATE TABLE t (a VARCHAR, i INTEGER)")
            with pytest.raises(UnsupportedError, match=rf"^{name}\(\) .*ivmdb does not know"):
                db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS x FROM t")
            assert db.execute(f"SELECT {call} FROM t").description
    finally:
        _forget_functions()


def _forget_functions() -> None:
    unknown_functions.cache_clear()
    built_in_functions.cache_clear()


TIMES = [
    "date_trunc('day', c)", "year(c)", "strftime(c, '%d')", "extract(hour FROM c)", "c - d",
    "date_part('dow', c)", "c + INTERVAL 1 DAY", "c::DATE - d::DATE", "age(c, d)", "last_day(c)",
    "time_bucket(INTERVAL 1 DAY, c)", "date_diff('hour', c, d)", "monthname(c)",
]  # fmt: skip


@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_functions_of_times_stand_in_views(type: str) -> None:
    """Some builds say that they change from query to query, since they read the TimeZone."""
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (c {type}, d {type})")
        calls = [*TIMES, "c AT TIME ZONE 'UTC'"]
        items = ", ".join(f"{call} AS x{i}" for i, call in enumerate(calls))
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {items} FROM t")
        db.execute("INSERT INTO t VALUES ('2024-02-03 04:05:06', '2023-01-01'), (NULL, NULL)")
        assert db.execute("SELECT count(*) FROM v").fetchone() == (2,)
        db.execute("VERIFY MATERIALIZED VIEW v")


def test_own_functions_are_those_of_the_build() -> None:
    assert {"sum", "upper", "row_number", "now", "random"} <= own_functions()
    assert not [name for name in own_functions() if re.search("[A-Z]", name)]

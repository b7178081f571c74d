"""Types that hold others: values survive the cast there and back, as DuckDB does it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ivm.cdc.formats.upstream_types import fits, wider
from ivm.storage.values.types import named_type
from tests.support.type_values import VALUES
from tests.tiers import examples

DECIMALS = ("DECIMAL(6,0)", "DECIMAL(6,6)", "DECIMAL(15,2)", "DECIMAL(15,15)", "DECIMAL(38,38)")
EXTREMES = {
    **VALUES,
    **{
        name: (most, "-" + most, "0")
        for name in DECIMALS
        for type in [named_type(name)]
        for most in ["9" * (type.precision - type.scale) + "." + "9" * type.scale]
    },
    "ENUM('small', 'large')": ("'small'", "'large'"),
    "ENUM('y', 'z', 'x')[]": ("['z', 'x']",),
    "BIGINT[]": ("[9223372036854775807]", "[]", "[NULL]"),
    "INTEGER[2]": ("[1, NULL]",),
    "BIGINT[3]": ("[1, 2, 9223372036854775807]",),
}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.mark.full
@pytest.mark.parametrize("narrow", EXTREMES)
def test_values_survive(duck: duckdb.DuckDBPyConnection, narrow: str) -> None:
    """Every value of a type comes back from each type that is said to hold it."""
    for wide in EXTREMES:
        if not fits(named_type(narrow), named_type(wide)):
            continue
        for value in EXTREMES[narrow]:
            given = f"(SELECT CAST({value} AS {narrow}) AS v)"
            back = f"CAST(CAST(v AS {wide}) AS {narrow})" if wide != "VARCHAR" else "v"
            told = f"SELECT {back}::VARCHAR = v::VARCHAR AND CAST(v AS {wide}) IS NOT NULL"
            assert duck.execute(f"{told} FROM {given}").fetchone() == (True,), (value, wide)


def test_wider_is_a_join() -> None:
    """It is the same from both sides, holds both, and is nothing new to either."""
    types = [named_type(name) for name in EXTREMES]
    for a, b in itertools.product(types, types):
        found = wider(a, b)
        if a.base == b.base == "ENUM" and set(a.labels) == set(b.labels):
            continue  # in either order
        assert found == wider(b, a)
        assert found is None or (fits(a, found) and fits(b, found))
        assert found is None or wider(found, a) == wider(found, b) == found


@pytest.mark.full
@given(st.data())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_survive(duck: duckdb.DuckDBPyConnection, data: st.DataObject) -> None:
    """Random numbers of random types of numbers."""
    sizes = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))
    decimals = sizes.map(lambda size: f"DECIMAL({size[0]},{size[1]})")
    integers = st.sampled_from([t for t in VALUES if t.endswith("INT") or t.endswith("INTEGER")])
    floats = st.sampled_from(["FLOAT", "DOUBLE"])
    types = st.one_of(decimals, integers, floats)
    narrow, other = data.draw(types), data.draw(types)
    wide = wider(named_type(narrow), named_type(other))
    if wide is None:
        return
    digits = data.draw(st.integers(-(10**38), 10**38))
    written = f"'{digits}'::HUGEINT / 1e{data.draw(st.integers(0, 38))}"
    value = f"SELECT v FROM (SELECT TRY_CAST({written} AS {narrow}) AS v) WHERE v IS NOT NULL"
    told = duck.execute(f"SELECT v = v::{wide.sql}::{narrow} FROM ({value})").fetchall()
    assert told in ([], [(True,)])


@pytest.mark.parametrize(
    ("ours", "theirs", "holds_both"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "INT", "BIGINT"),
        ("INT", "UINTEGER", "BIGINT"),
        ("HUGEINT", "UHUGEINT", None),
        ("DECIMAL(10,2)", "DECIMAL(8,4)", "DECIMAL(12,4)"),
        ("DECIMAL(38,2)", "DECIMAL(38,4)", None),
        ("INTEGER", "NUMERIC(10,2)", "DECIMAL(12,2)"),
        ("BIGINT", "DOUBLE", None),
        ("INTEGER", "REAL", "DOUBLE"),
        ("DECIMAL(10,2)", "DOUBLE", "DOUBLE"),
        ("DECIMAL(18,2)", "DOUBLE", None),
        ("VARCHAR(20)", "TEXT", "VARCHAR"),
        ("INTEGER", "TEXT", None),
        ("JSON", "TEXT", "VARCHAR"),
        ("ENUM('a')", "ENUM('b', 'a')", "ENUM('b', 'a')"),
        ("ENUM('a', 'b')", "ENUM('a', 'c')", None),
        ("ENUM('a', 'b')", "TEXT", "VARCHAR"),
        ("DATE", "TIMESTAMP", None),
        ("TIMESTAMP", "TIMESTAMPTZ", None),
        ("TIMESTAMP(0)", "TIMESTAMP", "TIMESTAMP"),
        ("INT[]", "BIGINT[]", "BIGINT[]"),
        ("INT[3]", "BIGINT[]", None),
        ("INT", "INT[]", None),
        ("BOOLEAN", "INT", None),
    ],
)
def test_known_pairs(ours: str, theirs: str, holds_both: str | None) -> None:
    found = wider(named_type(ours), named_type(theirs))
    assert (found and found.sql) == holds_both

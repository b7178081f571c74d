"""Carriers: every value of every type comes back from Spark with its bits."""

from __future__ import annotations

import duckdb
import pytest

from ivm.spark_backfill.carriers import NotCarriedError, carrier
from ivm.sql.plan.nodes import Scan
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duck import rows, run
from tests.support.spark import World, in_utc
from tests.support.type_values import NAMES, VALUES

WITHOUT = {"VARIANT", "VARIANT[]", "GEOMETRY"} | {n for n in NAMES if n.startswith("UNION")}
BEYOND = {"170141183460469231731687303715884105727", "340282366920938463463374607431768211455"}
BEYOND |= {"'-170141183460469231731687303715884105728'"}
"""Values of more than 38 digits, which Spark's DECIMALs do not have."""


@pytest.mark.parametrize("name", [n for n in NAMES if n not in WITHOUT])
def test_values_come_back(name: str) -> None:
    cursor = in_utc(duckdb.connect())
    values = ["NULL", *[v for v in VALUES[name] if not any(b in v for b in BEYOND)]]
    listed = " UNION ALL ".join(f"SELECT CAST({v} AS {name}) AS v" for v in values)
    run(cursor, f"CREATE TABLE given AS {listed}")
    with World(cursor) as world:
        found = world.answer(Scan("given", (0,), (("v", type_of(name)),)), "::VARCHAR")
    stored = rows(cursor, "SELECT v::VARCHAR FROM given")
    assert sorted(found.elements()) == sorted(repr(row) for row in stored)
    cursor.close()


def test_values_beyond_sparks_digits_are_refused() -> None:
    cursor = duckdb.connect()
    run(cursor, "CREATE TABLE given AS SELECT 170141183460469231731687303715884105727 AS v")
    with World(cursor) as world, pytest.raises(duckdb.ConversionException, match="DECIMAL"):
        world.answer(Scan("given", (0,), (("v", type_of("HUGEINT")),)))
    cursor.close()


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_types_without_a_form_in_spark_are_named(name: str) -> None:
    with pytest.raises(NotCarriedError, match=name.split("(")[0].split("[")[0]):
        carrier(type_of(name))

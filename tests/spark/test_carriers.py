"""Carriers: every value of every type comes back from Spark with its bits."""

from __future__ import annotations

import duckdb
import pytest

from ivm.spark_backfill.workers.carriers import NotCarriedError, carrier
from ivm.sql.plan.nodes import Scan
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import rows, run
from tests.support import plans
from tests.support.plan_oracle import multiset
from tests.support.spark import World, in_utc
from tests.support.type_values import NAMES, VALUES

pytestmark = pytest.mark.full(smoke=6)

WITHOUT = {"VARIANT", "VARIANT[]", "GEOMETRY"} | {n for n in NAMES if n.startswith("UNION")}
UNTYPED = ["[NULL]", "[]", "{'a': NULL, 'b': 1}", "[{'a': NULL}]", "MAP([1], [NULL])", "(NULL, 2)"]


@pytest.mark.full
@pytest.mark.parametrize("name", [n for n in NAMES if n not in WITHOUT])
def test_values_come_back(name: str) -> None:
    cursor = in_utc(duckdb.connect())
    values = ["NULL", *VALUES[name]]
    listed = " UNION ALL ".join(f"SELECT CAST({v} AS {name}) AS v" for v in values)
    run(cursor, f"CREATE TABLE given AS {listed}")
    with World(cursor) as world:
        found = world.answer(Scan("given", (0,), (("v", type_of(name)),)), "::VARCHAR")
    stored = rows(cursor, "SELECT v::VARCHAR FROM given")
    assert sorted(found.elements()) == sorted(repr(row) for row in stored)
    cursor.close()


@pytest.mark.parametrize("value", UNTYPED)
def test_values_that_hold_nulls_of_no_type_come_back(value: str) -> None:
    with in_utc(duckdb.connect()) as cursor, World(cursor) as world:
        plan = plans.planned(f"SELECT {value} AS v", cursor)
        assert world.answer(plan) == multiset(cursor, f"SELECT {value}")


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_types_without_a_form_in_spark_are_named(name: str) -> None:
    with pytest.raises(NotCarriedError, match=name.split("(")[0].split("[")[0]):
        carrier(type_of(name))

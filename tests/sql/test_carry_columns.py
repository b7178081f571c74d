"""Carried columns: what every plan node makes of the rows of two databases side by side.

The carried column tells the databases apart. A scan has it by nature, so a plan that carries it
holds at each value what the plan holds over that database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import duckdb
import pytest
from sqlglot import exp

from ivm.sql.plan.expressions import cast
from ivm.sql.plan.nodes import (
    Aggregate,
    DynamicLimit,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Recursive,
    Scan,
    Union,
    Values,
    width,
)
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import inputs, with_inputs
from ivm.sql.rewrite.carry_columns import Carry, columns
from ivm.sql.rewrite.expand_joins import picked
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.values.types import Schema, type_of
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.corpus.plan_corpus import QUERIES, build
from tests.support.circuit_world import multiset
from tests.support.plans import bound
from tests.tiers import some

SIDES: Schema = (("side", type_of("INTEGER")),)
SCHEMAS = ("main", "other")


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    """Two schemas with the same tables and other rows."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA other; USE other")
        build(connection, seed=2, rows=12)
        connection.execute("USE main")
        build(connection, seed=1, rows=12)
        yield connection


def at(plan: Plan, side: int) -> Plan:
    """The plan over one of the databases."""
    if isinstance(plan, Scan):
        return replace(plan, relation=plan.relation.replace('"main"', f'"{SCHEMAS[side]}"'))
    return with_inputs(plan, lambda part: at(part, side))


def is_known(plan: Plan) -> bool:
    """Whether there is a rule for each of its nodes."""
    unknown = isinstance(plan, DynamicLimit | Recursive)
    return not unknown and all(map(is_known, inputs(plan)))


def with_side(plan: Plan, side: int) -> Plan:
    own = columns(range(width(plan)))
    number = cast(exp.Literal.number(side), SIDES[0][1])
    return Project(plan, (*own, number), plan.schema + SIDES)


class SideCarry(Carry):
    """Carries the number of the database."""

    def __init__(self) -> None:
        super().__init__(SIDES)

    def depends(self, plan: Plan) -> bool:
        return isinstance(plan, Scan) or any(map(self.depends, inputs(plan)))

    def everywhere(self, plan: Plan) -> Plan:
        numbers = [exp.Literal.number(side) for side in range(2)]
        return Join(plan, Values(tuple((n,) for n in numbers), SIDES), "inner")

    def source(self, plan: Plan) -> Plan:
        assert isinstance(plan, Scan)
        parts = tuple(with_side(at(plan, side), side) for side in range(2))
        return Union(parts, plan.schema + SIDES)

    def each(self, plan: Aggregate | GroupRecompute) -> Plan:
        below, start = self.over(plan.input), width(plan.input)
        parts = []
        for side in range(2):
            here = exp.EQ(this=columns([start])[0], expression=exp.Literal.number(side))
            own = picked(Filter(below, here), range(start))
            parts.append(with_side(replace(plan, input=own), side))
        return Union(tuple(parts), plan.schema + SIDES)

    def met(self, join: Join, left: Sequence[int], right: Sequence[int]) -> Join:
        return replace(
            join,
            left_keys=(*join.left_keys, *left),
            right_keys=(*join.right_keys, *right),
            null_safe=(*join.null_safe, False),
        )


@pytest.mark.cases(4)
@pytest.mark.parametrize("query", some([q for group in QUERIES.values() for q in group], 8))
def test_a_plan_holds_at_each_value_what_it_holds_there(cursor: Cursor, query: str) -> None:
    written = bound(query, cursor)
    for plan in (written, rewrite(written)):
        if is_known(plan):
            whole = SideCarry().over(plan)
            parts = [with_side(at(plan, side), side) for side in range(2)]
            one, other = [multiset(cursor, render(part)) for part in parts]
            assert multiset(cursor, render(whole)) == one + other

"""Rendering: every node has exact SQL, and what SQL leaves open is completed in it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from sqlglot import exp

from ivm.sql.plan.built_in import without_schemas
from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, Scan, TopK, Union, Values
from ivm.sql.plan.render import call_text, render
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows

INTEGER = type_of("INTEGER")
NUMBERS = Scan('"main"."n"', (0, 1), (("a", INTEGER), ('odd "name"', INTEGER)))


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE n (a INTEGER, "odd ""name""" INTEGER)')
        connection.execute("INSERT INTO n VALUES (1, 9), (1, 8), (NULL, 7), (2, NULL)")
        yield connection


def answer(cursor: Cursor, plan: Plan) -> list[tuple[object, ...]]:
    return sorted(rows(cursor, render(plan)), key=repr)


def test_root_carries_the_names_of_its_schema(cursor: Cursor) -> None:
    plan = Project(NUMBERS, (column(1), column(1)), (("x", INTEGER), ("x", INTEGER)))
    assert [name for name, _ in describe(cursor, render(plan))] == ["x", "x"]


def test_values_keep_their_types_with_and_without_rows(cursor: Cursor) -> None:
    schema = (("x", type_of("DECIMAL(4,1)")), ("y", type_of("VARCHAR")))
    row = (exp.Literal.number(1), exp.null())
    for plan in (Values((row, row), schema), Values((), schema)):
        assert describe(cursor, render(plan)) == schema
        assert len(answer(cursor, plan)) == len(plan.rows)


def test_a_node_read_twice_is_rendered_once() -> None:
    shared = Filter(NUMBERS, exp.GT(this=column(0), expression=exp.Literal.number(0)))
    text = render(Join(shared, shared, "inner", (0,), (0,), (False,)))
    assert text.count('FROM "main"."n"') == 1


def test_equal_nodes_are_rendered_once_though_they_are_different_objects() -> None:
    def twin() -> Plan:
        return Filter(NUMBERS, exp.GT(this=column(0), expression=exp.Literal.number(0)))

    text = render(Union((twin(), twin()), NUMBERS.schema))
    assert text.count('FROM "main"."n"') == 1


def test_subtracted_rows_leave_as_often_as_they_are_there(cursor: Cursor) -> None:
    part = Filter(NUMBERS, exp.EQ(this=column(1), expression=exp.Literal.number(9)))
    assert answer(cursor, Union((NUMBERS, part), NUMBERS.schema, negated=(1,))) == [
        (1, 8),
        (2, None),
        (None, 7),
    ]


@pytest.mark.parametrize(
    ("key", "first"),
    [
        (OrderKey(0, False, False), (1, 8)),
        (OrderKey(0, True, False), (2, None)),
        (OrderKey(0, True, True), (None, 7)),
        (OrderKey(1, True, False), (1, 9)),
    ],
)
def test_ties_are_broken_by_all_columns(
    cursor: Cursor, key: OrderKey, first: tuple[object, ...]
) -> None:
    assert answer(cursor, TopK(NUMBERS, (), (key,), 1, 0, False, NUMBERS.schema)) == [first]


def test_rank_is_counted_before_the_offset(cursor: Cursor) -> None:
    schema = (*NUMBERS.schema, ("rank", type_of("BIGINT")))
    plan = TopK(NUMBERS, (0,), (OrderKey(1, False, False),), 1, 1, True, schema)
    assert answer(cursor, plan) == [(1, 9, 2)]
    assert describe(cursor, render(plan)) == schema


def test_what_people_read_keeps_texts_as_they_are() -> None:
    call = AggregateCall("string_agg", (0, 1), False, None, INTEGER)
    shown = without_schemas(f"{call_text(call)} FILTER (WHERE 'it''s system.main.' = c0)")
    assert shown == "string_agg(c0, c1) FILTER (WHERE 'it''s system.main.' = c0)"

"""Equi-, cross and non-equi joins against DuckDB on random streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join
from ivm.delta_ops.joins.theta_join import ThetaJoin
from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.operator import Operator
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.types import ColumnType
from tests.support.operator_bench import VALUES, Bench, Duck, drive, streams, types_of, zset
from tests.tiers import examples

LEFT = types_of("INTEGER", "VARCHAR")
RIGHT = types_of("INTEGER", "DECIMAL(9,2)")


def arranged(circuit: Circuit, node: int, types: Sequence[ColumnType], *key: int) -> int:
    return circuit.add(("arrange", key), lambda _: Arrange(types, key), [node])


def sides(operators: tuple[Operator, ...]) -> tuple[Arrange, Arrange]:
    left, right = operators
    assert isinstance(left, Arrange)
    assert isinstance(right, Arrange)
    return left, right


@settings(deadline=None, max_examples=examples(15))
@given(data=st.data())
def test_inner_join(data: st.DataObject) -> None:
    def make(circuit: Circuit, sources: list[int]) -> int:
        nodes = [arranged(circuit, sources[0], LEFT, 0), arranged(circuit, sources[1], RIGHT, 0)]
        return circuit.add("join", lambda ops: Join(*sides(ops), [3, 1, 0]), nodes)

    sql = "SELECT r.c1, l.c1, l.c0 FROM i0 l JOIN i1 r ON l.c0 = r.c0"
    drive(Bench(make, [LEFT, RIGHT], sql), data.draw(streams(LEFT, RIGHT)))


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", sorted(VALUES))
@settings(deadline=None, max_examples=examples(4))
@given(data=st.data())
def test_join_keys_of_any_type(name: str, data: st.DataObject) -> None:
    types = types_of(name, "INTEGER")

    def make(circuit: Circuit, sources: list[int]) -> int:
        nodes = [arranged(circuit, s, types, 0) for s in sources]
        return circuit.add("join", lambda ops: Join(*sides(ops), [0, 1, 3]), nodes)

    sql = "SELECT l.c0, l.c1, r.c1 FROM i0 l JOIN i1 r ON l.c0 = r.c0"
    drive(Bench(make, [types, types], sql), data.draw(streams(types, types, steps=3)))


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_self_join_on_two_keys_one_null_safe(data: st.DataObject) -> None:
    def make(circuit: Circuit, sources: list[int]) -> int:
        node = arranged(circuit, sources[0], LEFT, 0, 1)
        null_safe = [False, True]
        return circuit.add(
            "join", lambda ops: Join(*sides(ops), [0, 1, 2, 3], null_safe), [node, node]
        )

    sql = "FROM i0 l JOIN i0 r ON l.c0 = r.c0 AND l.c1 IS NOT DISTINCT FROM r.c1"
    drive(Bench(make, [LEFT], f"SELECT l.*, r.* {sql}"), data.draw(streams(LEFT)))


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_residual_condition(data: st.DataObject) -> None:
    residual = duck_predicate("c3 > 0 AND c1 <> 'a'", [*LEFT, *RIGHT], Duck.cursor)

    def make(circuit: Circuit, sources: list[int]) -> int:
        nodes = [arranged(circuit, sources[0], LEFT, 0), arranged(circuit, sources[1], RIGHT, 0)]
        return circuit.add("j", lambda ops: Join(*sides(ops), [1, 3], residual=residual), nodes)

    sql = "SELECT l.c1, r.c1 FROM i0 l JOIN i1 r ON l.c0 = r.c0 WHERE r.c1 > 0 AND l.c1 <> 'a'"
    drive(Bench(make, [LEFT, RIGHT], sql), data.draw(streams(LEFT, RIGHT)))


def less(columns: Sequence[Column], count: int) -> Mask:
    a, b = columns[0], columns[2]
    assert isinstance(a, FixedColumn)
    assert isinstance(b, FixedColumn)
    both = np.ones(count, np.bool_)
    for column in (a, b):
        both &= True if column.valid is None else column.valid
    return both & (a.values < b.values)


CONDITIONS = [("true", None), ("l.c0 < r.c0", less), ("l.c0 < r.c0", "c0 < c2")]


@pytest.mark.parametrize(("where", "condition"), CONDITIONS)
@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_cross_and_non_equi_join(where: str, condition: object, data: st.DataObject) -> None:
    def make(circuit: Circuit, sources: list[int]) -> int:
        def theta(_: object) -> Operator:
            return ThetaJoin(LEFT, RIGHT, [0, 1, 3], condition, Duck.cursor)  # type: ignore[arg-type]  # parametrised

        return circuit.add("theta", theta, sources)

    sql = f"SELECT l.c0, l.c1, r.c1 FROM i0 l, i1 r WHERE {where}"
    drive(Bench(make, [LEFT, RIGHT], sql), data.draw(streams(LEFT, RIGHT, rows=4)))


def join_on_text(kind: str) -> Callable[[Circuit, list[int]], int]:
    """Joins on the key and a condition that fails where the left text is no number."""
    condition = "c1::DECIMAL(9,2) >= c3"
    types = [*LEFT, *RIGHT]

    def make(circuit: Circuit, sources: list[int]) -> int:
        if kind == "theta":
            both = f"c0 = c2 AND {condition}"
            factory = lambda _: ThetaJoin(LEFT, RIGHT, [0, 1, 3], both, Duck.cursor)  # noqa: E731
            return circuit.add("theta", factory, sources)
        if kind == "theta kernel":
            kernel = duck_predicate(f"c0 = c2 AND {condition}", types, Duck.cursor)
            factory = lambda _: ThetaJoin(LEFT, RIGHT, [0, 1, 3], kernel)  # noqa: E731
            return circuit.add("theta", factory, sources)
        nodes = [arranged(circuit, sources[0], LEFT, 0), arranged(circuit, sources[1], RIGHT, 0)]
        residual = duck_predicate(condition, types, Duck.cursor)
        join = lambda ops: Join(*sides(ops), [0, 1, 3], residual=residual)  # noqa: E731
        return circuit.add("join", join, nodes)

    return make


@pytest.mark.parametrize("kind", ["equi", "theta", "theta kernel"])
def test_a_condition_may_not_fail_on_pairs_that_are_not_there(kind: str) -> None:
    sql = "SELECT l.c0, l.c1, r.c1 FROM i0 l JOIN i1 r ON l.c0 = r.c0 AND l.c1::DECIMAL >= r.c1"
    bench = Bench(join_on_text(kind), [LEFT, RIGHT], sql)

    def step(left: list[tuple[str, int]], right: list[tuple[str, int]]) -> None:
        rows = [((str(key), f"'{text}'"), weight) for text, weight in left for key in (1, 2)]
        others = [(("1", amount), weight) for amount, weight in right]
        bench.step([zset(LEFT, rows), zset(RIGHT, others)])
        bench.check()
        bench.check_contents()

    step([("5", 1), ("no number", 1)], [])
    step([("no number", -1)], [])
    step([("7", 1)], [("2.5", 1)])  # the other side still holds both entries of the row that went
    step([("none either", 1)], [("2.5", -1)])  # what comes meets what goes
    with pytest.raises(EvaluationError, match="none either"):
        step([], [("1.5", 1)])


def test_an_arrangement_serves_all_joins_on_its_key() -> None:
    circuit = Circuit()
    a, b = circuit.source("a", LEFT), circuit.source("b", RIGHT)
    assert arranged(circuit, a, LEFT, 0) == arranged(circuit, a, LEFT, 0)
    assert arranged(circuit, a, LEFT, 0) != arranged(circuit, b, RIGHT, 0)


def test_a_step_puts_out_only_the_matches_of_its_rows() -> None:
    def make(circuit: Circuit, sources: list[int]) -> int:
        nodes = [arranged(circuit, sources[0], LEFT, 0), arranged(circuit, sources[1], RIGHT, 0)]
        return circuit.add("join", lambda ops: Join(*sides(ops), [0, 1, 3]), nodes)

    bench = Bench(make, [LEFT, RIGHT], "")
    many = [((str(i), "'a'"), 1) for i in range(50)]
    bench.step([zset(LEFT, many), zset(RIGHT, [])])
    assert len(bench.step([zset(LEFT, []), zset(RIGHT, [(("7", "0.01"), 1)])])) == 1

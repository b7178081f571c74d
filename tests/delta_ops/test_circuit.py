"""The circuit: sharing, staging, skipping, hydration from state, and removal of views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from ivm.delta_ops.aggregates.aggregate import Aggregate
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.delta_ops.aggregates.set_operations import SetOp
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join
from ivm.delta_ops.linear.duck_eval import column_names
from ivm.delta_ops.linear.filter import DuckFilter, Filter
from ivm.delta_ops.linear.map import DuckMap, Map
from ivm.delta_ops.linear.union import UnionAll
from ivm.delta_ops.operator import Operator
from ivm.storage.errors import EvaluationError, InternalError
from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, empty
from tests.support.operator_bench import Bench, Duck, Row, drive, net, streams, types_of, zset

from hypothesis import given, settings  # isort: skip
from hypothesis import strategies as st  # isort: skip
from tests.tiers import examples

PAIR = types_of("INTEGER", "VARCHAR")
SALES = types_of("VARCHAR", "DOUBLE")


def nothing(node: int) -> Iterator[ZSet]:
    return iter(())


def values(z: ZSet, names: tuple[str, ...]) -> list[tuple[tuple[object, ...], int]]:
    """Rows as Python values, with their weights, in order."""
    columns = [a.to_pylist() for a in z.to_arrow(column_names(types_of(*names))).columns]
    return sorted(zip(zip(*columns, strict=True), z.weights.tolist(), strict=True), key=str)


def failing(circuit: Circuit, source: int) -> int:
    def make(_: tuple[Operator, ...]) -> Operator:
        return DuckMap(["c1::INTEGER"], PAIR, types_of("INTEGER"), Duck.cursor)

    return circuit.add("cast", make, [source])


def distinct(circuit: Circuit, source: int) -> int:
    return circuit.add("distinct", lambda _: SetOp(PAIR, "distinct"), [source])


def test_equal_operators_over_equal_inputs_are_one_node() -> None:
    circuit = Circuit()
    a, b = circuit.source("a", PAIR), circuit.source("b", PAIR)
    assert distinct(circuit, a) == distinct(circuit, a)
    assert distinct(circuit, a) != distinct(circuit, b)
    assert circuit.source("a", PAIR) == a


def test_a_source_keeps_its_columns() -> None:
    circuit = Circuit()
    circuit.source("a", PAIR)
    with pytest.raises(InternalError, match="source a was added twice"):
        circuit.source("a", SALES)


def test_operators_without_input_do_not_run() -> None:
    class Counting(Map):
        steps = 0

        def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
            Counting.steps += 1
            return super().step(inputs)

    circuit = Circuit()
    source = circuit.source("a", PAIR)
    positive = circuit.add(
        "none", lambda _: Filter(lambda c, n: np.zeros(n, np.bool_), PAIR), [source]
    )
    node = circuit.add("count", lambda _: Counting([0, 1], PAIR), [positive])
    circuit.output("v", node)
    assert circuit.step({"a": zset(PAIR, [(("1", "'a'"), 1)]), "other": empty(PAIR)}) == {}
    assert Counting.steps == 0


def test_views_above_views_step_together() -> None:
    circuit = Circuit()
    below = distinct(circuit, circuit.source("a", PAIR))
    above = circuit.add("project", lambda _: Map([1], PAIR[1:]), [below])
    circuit.output("lower", below)
    circuit.output("upper", above)
    circuit.hydrate(nothing)
    out = circuit.step({"a": zset(PAIR, [(("1", "'a'"), 2), (("2", "'a'"), 1)])})
    circuit.commit()
    assert values(out["lower"], ("INTEGER", "VARCHAR")) == [((1, "a"), 1), ((2, "a"), 1)]
    assert out["upper"].weights.tolist() == [1, 1]


def test_cancelling_rows_do_not_leave_the_circuit() -> None:
    circuit = Circuit()
    source = circuit.source("a", PAIR)
    circuit.output("v", circuit.add("project", lambda _: Map([1], PAIR[1:]), [source]))
    assert circuit.step({"a": zset(PAIR, [(("1", "'a'"), 1), (("2", "'a'"), -1)])}) == {}


def test_an_error_names_the_views_above_it_and_leaves_nothing_staged() -> None:
    circuit = Circuit()
    source = circuit.source("a", PAIR)
    cast = failing(circuit, source)
    circuit.output("fine", distinct(circuit, source))
    circuit.output("cast", cast)
    circuit.output("above", circuit.add("same", lambda _: Map([0], types_of("INTEGER")), [cast]))
    circuit.hydrate(nothing)
    bad = {"a": zset(PAIR, [(("1", "'a'"), 1)])}
    with pytest.raises(EvaluationError, match="Could not convert string 'a'") as caught:
        circuit.step(bad)
    assert caught.value.views == {"cast", "above"}
    for view in caught.value.views:
        circuit.remove(view)
    assert values(circuit.step(bad)["fine"], ("INTEGER", "VARCHAR")) == [((1, "a"), 1)]


def test_removing_a_view_drops_what_no_other_needs() -> None:
    circuit = Circuit()
    a, b = circuit.source("a", PAIR), circuit.source("b", PAIR)
    shared = distinct(circuit, a)
    circuit.output("one", shared)
    circuit.output(
        "two", circuit.add("union", lambda _: UnionAll(PAIR, [False, True]), [shared, b])
    )
    circuit.remove("two")
    assert set(circuit.sources) == {"a"}
    assert circuit.nodes_of("one") == [a, shared]
    assert circuit.needs_hydration(["b"]) == []


def test_a_step_before_hydration_is_refused() -> None:
    circuit = Circuit()
    circuit.output("v", distinct(circuit, circuit.source("a", PAIR)))
    assert len(circuit.needs_hydration(["a"])) == 1
    with pytest.raises(InternalError, match="before it was hydrated"):
        circuit.step({"a": zset(PAIR, [(("1", "'a'"), 1)])})


def test_a_join_needs_both_sides_hydrated() -> None:
    circuit = Circuit()
    sides = [
        circuit.add("arrange", lambda _: Arrange(PAIR, [0]), [circuit.source(name, PAIR)])
        for name in ("a", "b")
    ]
    circuit.output("v", circuit.add("join", lambda ops: Join(ops[0], ops[1], [1, 3]), sides))  # type: ignore[arg-type]  # both are Arrange
    assert circuit.needs_hydration(["a"]) == sides


def test_state_above_rounded_sums_is_hydrated_from_our_sums() -> None:
    """DuckDB sums doubles with a rounding at each addition; its sum would never be retracted."""
    rows: list[tuple[Row, int]] = [
        (("'a'", v), 1) for v in ("0.1", "1e40", "1e20", "-1e40", "-1e20")
    ]
    content = zset(SALES, rows)
    total = AggregateSpec("sum", type_of("DOUBLE"), 1, type_of("DOUBLE"))
    circuit = Circuit()
    source = circuit.source("s", SALES)
    sums = circuit.add("sum", lambda _: Aggregate(SALES, [0], [total]), [source])
    circuit.output("v", circuit.add("distinct", lambda _: SetOp(SALES, "distinct"), [sums]))
    asked = []

    def fetch(node: int) -> Iterator[ZSet]:
        asked.append(node)
        yield content

    circuit.hydrate(fetch)
    assert set(asked) == {source}
    out = circuit.step({"s": zset(SALES, [(("'a'", "0.1"), -1)])})["v"]
    assert values(out, ("VARCHAR", "DOUBLE")) == [(("a", 0.0), 1), (("a", 0.1), -1)]


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_linear_operators_evaluated_by_duckdb(data: st.DataObject) -> None:
    out = types_of("BIGINT", "VARCHAR")

    def make(circuit: Circuit, sources: list[int]) -> int:
        kept = circuit.add("f", lambda _: DuckFilter("c0 > 0", PAIR, Duck.cursor), sources)
        texts = ["c0::BIGINT + 1", "c1 || '!'"]
        return circuit.add("m", lambda _: DuckMap(texts, PAIR, out, Duck.cursor), [kept])

    sql = "SELECT c0::BIGINT + 1, c1 || '!' FROM i0 WHERE c0 > 0"
    drive(Bench(make, [PAIR], sql), data.draw(streams(PAIR)))


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_unnest_by_duckdb(data: st.DataObject) -> None:
    lists = types_of("INTEGER", "BIGINT[]")

    def make(circuit: Circuit, sources: list[int]) -> int:
        out = types_of("INTEGER", "BIGINT")
        return circuit.add(
            "m", lambda _: DuckMap(["c0", "unnest(c1)"], lists, out, Duck.cursor), sources
        )

    bench = Bench(make, [lists], "SELECT c0, unnest(c1) FROM i0")
    drive(bench, data.draw(streams(lists)))


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_a_whole_query_over_shared_nodes(data: st.DataObject) -> None:
    """A filter, two joins over one arrangement, an aggregate and a union of them."""

    def positive(columns: Sequence[Column], count: int) -> Mask:
        assert isinstance(columns[0], FixedColumn)
        mask: Mask = columns[0].values > 0
        return mask

    def make(circuit: Circuit, sources: list[int]) -> int:
        kept = circuit.add("f", lambda _: Filter(positive, PAIR), [sources[0]])
        left = circuit.add("a", lambda _: Arrange(PAIR, [0]), [kept])
        right = circuit.add("a", lambda _: Arrange(PAIR, [0]), [sources[1]])
        joins = [
            circuit.add(("j", i), lambda ops: Join(ops[0], ops[1], [0, 3]), [left, other])  # type: ignore[arg-type]  # both are Arrange
            for i, other in enumerate([right, left])
        ]
        both = circuit.add("u", lambda _: UnionAll(PAIR, [False, False]), joins)
        call = AggregateSpec("count_star", type_of("BIGINT"))
        return circuit.add("g", lambda _: Aggregate(PAIR, [1], [call]), [both])

    sql = """WITH f AS (FROM i0 WHERE c0 > 0), u AS (
        SELECT f.c0, r.c1 FROM f JOIN i1 r ON f.c0 = r.c0
        UNION ALL SELECT f.c0, g.c1 FROM f JOIN f g ON f.c0 = g.c0)
        SELECT c1, count(*) FROM u GROUP BY c1"""
    drive(Bench(make, [PAIR, PAIR], sql), data.draw(streams(PAIR, PAIR)))


def test_net_of_the_helper_itself() -> None:
    twice = zset(PAIR, [(("1", "'a'"), 1), (("1", "'a'"), -1), (("2", "NULL"), 1)])
    assert values(net(twice, PAIR), ("INTEGER", "VARCHAR")) == [((2, None), 1)]

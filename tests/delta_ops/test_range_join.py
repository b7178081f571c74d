"""Joins on comparisons against DuckDB on random streams, and what a step touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.range_join import RangeJoin, range_order
from ivm.delta_ops.joins.range_search import Comparison
from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.operator import Operator
from ivm.storage.values.ordering.order import orderable
from ivm.storage.values.types import ColumnType
from tests.support.operator_bench import VALUES, Bench, Duck, drive, streams, types_of, zset
from tests.tiers import examples

ORDERED = sorted(name for name in VALUES if all(orderable(t) for t in types_of(name)))
POINT = types_of("INTEGER", "INTEGER", "VARCHAR")  # key, x, payload
SPAN = types_of("INTEGER", "INTEGER", "INTEGER", "VARCHAR")  # key, low, high, payload


def arranged(
    circuit: Circuit,
    source: int,
    types: Sequence[ColumnType],
    key: Sequence[int],
    comparisons: Sequence[Comparison] | None,
) -> int:
    order = range_order(comparisons) if comparisons else ()
    return circuit.add(("arrange", source), lambda _: Arrange(types, key, order), [source])


def joined(
    left: Sequence[ColumnType],
    right: Sequence[ColumnType],
    keys: tuple[Sequence[int], Sequence[int]],
    output: Sequence[int],
    comparisons: Sequence[Comparison],
    condition: str | None = None,
    *,
    ordered: tuple[bool, bool] = (True, True),
) -> Callable[[Circuit, list[int]], int]:
    """Makes the join and its arrangements, as `Bench` wants it."""
    both = [comparisons, [c.mirrored() for c in comparisons]]
    given = [c if is_ordered else None for c, is_ordered in zip(both, ordered, strict=True)]
    residual = None
    if condition is not None:
        residual = duck_predicate(condition, [*left, *right], Duck.cursor)

    def make(circuit: Circuit, sources: list[int]) -> int:
        nodes = [
            arranged(circuit, source, types, key, order)
            for source, types, key, order in zip(sources, (left, right), keys, given, strict=True)
        ]

        def join(ops: tuple[Operator, ...]) -> Operator:
            a, b = ops
            assert isinstance(a, Arrange)
            assert isinstance(b, Arrange)
            return RangeJoin(a, b, output, comparisons, residual=residual)

        return circuit.add("join", join, nodes)

    return make


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("output", [[0, 1, 2], [2, 3, 4, 5]])
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_one_comparison(operator: str, output: list[int], data: st.DataObject) -> None:
    make = joined(POINT, POINT, ((), ()), output, [Comparison(1, operator, 1)])
    names = ["l.c0", "l.c1", "l.c2", "r.c0", "r.c1", "r.c2"]
    picked = ", ".join(names[i] for i in output)
    sql = f"SELECT {picked} FROM i0 l, i1 r WHERE l.c1 {operator} r.c1"
    drive(Bench(make, [POINT, POINT], sql), data.draw(streams(POINT, POINT)))


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", ORDERED)
@settings(deadline=None, max_examples=examples(4))
@given(data=st.data())
def test_compared_values_of_any_type(name: str, data: st.DataObject) -> None:
    types = types_of(name, "INTEGER")
    make = joined(types, types, ((), ()), [0, 1, 3], [Comparison(0, "<=", 0)])
    sql = "SELECT l.c0, l.c1, r.c1 FROM i0 l JOIN i1 r ON l.c0 <= r.c0"
    drive(Bench(make, [types, types], sql), data.draw(streams(types, types, steps=3)))


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("operators", [(">=", "<="), (">", "<"), (">=", "<")])
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_between_two_columns(keyed: bool, operators: tuple[str, str], data: st.DataObject) -> None:
    lower, upper = operators
    keys = ((0,), (0,)) if keyed else ((), ())
    comparisons = [Comparison(1, lower, 1), Comparison(1, upper, 2)]
    make = joined(POINT, SPAN, keys, [0, 1, 2, 6], comparisons)
    sql = f"FROM i0 l, i1 r WHERE l.c1 {lower} r.c1 AND l.c1 {upper} r.c2"
    sql = f"SELECT l.*, r.c3 {sql} {'AND l.c0 = r.c0' if keyed else ''}"
    drive(Bench(make, [POINT, SPAN], sql), data.draw(streams(POINT, SPAN)))


@pytest.mark.cases(3)
@pytest.mark.parametrize("ordered", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("operators", [(">=", "<"), ("<", ">=")])
@pytest.mark.parametrize("name", ["INTEGER", "VARCHAR"])
@settings(deadline=None, max_examples=examples(5))
@given(data=st.data())
def test_null_as_no_bound(
    ordered: tuple[bool, bool], operators: tuple[str, str], name: str, data: st.DataObject
) -> None:
    point, span = types_of("INTEGER", name), types_of("INTEGER", name, name)
    first, second = operators
    comparisons = [Comparison(1, first, 1), Comparison(1, second, 2, "right")]
    make = joined(point, span, ((0,), (0,)), [0, 1], comparisons, ordered=ordered)
    sql = f"l.c1 {first} r.c1 AND (r.c2 IS NULL OR l.c1 {second} r.c2)"
    sql = f"SELECT l.* FROM i0 l JOIN i1 r ON l.c0 = r.c0 AND {sql}"
    drive(Bench(make, [point, span], sql), data.draw(streams(point, span)))


@pytest.mark.parametrize("name", ["DOUBLE", "DECIMAL(38,4)", "VARCHAR"])
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_overlapping_spans_and_a_third_comparison(name: str, data: st.DataObject) -> None:
    types = types_of(name, name, "INTEGER")
    comparisons = [Comparison(0, "<", 1), Comparison(1, ">=", 0), Comparison(2, ">", 2)]
    make = joined(types, types, ((), ()), [0, 1, 2, 3, 4, 5], comparisons)
    sql = "SELECT l.*, r.* FROM i0 l, i1 r WHERE l.c0 < r.c1 AND l.c1 >= r.c0 AND l.c2 > r.c2"
    drive(Bench(make, [types, types], sql), data.draw(streams(types, types)))


@pytest.mark.parametrize("key", [(0,), (0, 2)])
@pytest.mark.parametrize("ordered", [(True, True), (True, False), (False, True)])
@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_keys_and_a_residual_condition(
    key: tuple[int, ...], ordered: tuple[bool, bool], data: st.DataObject
) -> None:
    comparisons = [Comparison(1, ">", 1)]
    condition = "c2 <> 'a' OR c3 > 0"
    make = joined(POINT, POINT, (key, key), [0, 1, 2, 4], comparisons, condition, ordered=ordered)
    equal = " AND ".join(f"l.c{i} = r.c{i}" for i in key)
    sql = f"FROM i0 l JOIN i1 r ON {equal} AND l.c1 > r.c1 WHERE l.c2 <> 'a' OR r.c0 > 0"
    drive(Bench(make, [POINT, POINT], f"SELECT l.*, r.c1 {sql}"), data.draw(streams(POINT, POINT)))


@pytest.mark.parametrize("keyed", [False, True])
def test_a_moved_bound_touches_the_rows_between(keyed: bool) -> None:
    keys = ((0,), (0,)) if keyed else ((), ())
    ordered = (True, not keyed)
    make = joined(POINT, POINT, keys, [1], [Comparison(1, ">", 1)], ordered=ordered)
    bench = Bench(make, [POINT, POINT], "")
    many = [(("1", str(i), "'a'"), 1) for i in range(600)]
    bench.step([zset(POINT, many), zset(POINT, [(("1", "100", "'b'"), 1)])])
    moved = zset(POINT, [(("1", "100", "'b'"), -1), (("1", "103", "'c'"), 1)])
    out = bench.circuit.step({"i1": moved})["v"]
    assert bench.circuit.node(bench.node).work.rows_out == 499 + 3
    assert sorted(out.columns[0].values.tolist()) == [101, 102, 103]  # type: ignore[union-attr]  # integers
    assert out.weights.tolist() == [-1, -1, -1]

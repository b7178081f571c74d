"""Partial states of aggregates add up to the state of the whole, however the rows are parted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.aggregates.aggregate import Aggregate
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet
from tests.delta_ops.test_aggregate import GROUP, call, exact_functions
from tests.support.operator_bench import Row, literal_rows, types_of, zset
from tests.tiers import examples

DOUBLES = ("0.5", "-2.25", "1e300", "-1e300", "'nan'", "'inf'", "'-inf'", "5e-324", "NULL", "0.1")
NAMES = ["INTEGER", "BIGINT", "HUGEINT", "DECIMAL(18,2)", "DECIMAL(38,4)", "BOOLEAN"]
VARIANCES = ["var_pop", "var_samp", "stddev_pop"]


def state(operator: Aggregate) -> list[str]:
    """The rows of an operator's state."""

    def nothing(_: int) -> Iterator[ZSet]:
        return iter(())

    rows = [row for chunk in operator.contents(nothing) for row in shown(chunk, operator.types)]
    return sorted(rows)


def shown(chunk: ZSet, types: Sequence[ColumnType]) -> list[str]:
    schema = tuple((f"c{i}", t) for i, t in enumerate(types))
    return [repr(row) for row in chunk.to_arrow(schema).to_pylist()]


def check(
    inputs: tuple[ColumnType, ...],
    keys: list[int],
    calls: list[AggregateSpec],
    parts: list[list[Row]],
) -> None:
    whole, made = Aggregate(inputs, keys, calls), Aggregate(inputs, keys, calls)
    assert made.adds_up
    chunks = [zset(inputs, [(row, 1) for row in part]) for part in parts]
    whole.hydrate(lambda _: iter(chunks))
    worker, states = Aggregate(inputs, keys, calls), []
    for chunk in chunks:
        if worker.collect(chunk):
            states.append(worker.take_partial())
    made.absorb(states)
    assert state(made) == state(whole)
    assert made.state_rows() == whole.state_rows()
    for chunk in [c for c in chunks if len(c)][:1]:  # and it steps on alike
        assert sorted(shown(made.step((chunk,)), made.types)) == sorted(
            shown(whole.step((chunk,)), whole.types)
        )


@pytest.mark.parametrize("keyed", [True, False], ids=["groups", "scalar"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_parts_add_up(name: str, keyed: bool, data: st.DataObject) -> None:
    inputs = (GROUP, *types_of(name))
    functions = [f for f in exact_functions(inputs[1]) if f not in ("min", "max")]
    if inputs[1].is_integer and inputs[1].is_word:
        functions += [*VARIANCES, "bit_and", "bit_xor"]
    calls = [call("count_star", None), *[call(f, inputs[1]) for f in functions]]
    parts = data.draw(st.lists(st.lists(literal_rows(inputs), max_size=6), max_size=4))
    check(inputs, [0] if keyed else [], calls, parts)


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["'a'", "'b'", "NULL"]), st.sampled_from(DOUBLES))),
        max_size=4,
    )
)
def test_doubles_of_every_size_and_none(parts: list[list[Row]]) -> None:
    inputs = (GROUP, *types_of("DOUBLE"))
    calls = [call(f, inputs[1]) for f in ("sum", "avg", "var_pop", "count")]
    check(inputs, [0], calls, parts)


def test_states_that_are_more_than_lanes_do_not_add_up() -> None:
    inputs: tuple[ColumnType, ...] = (GROUP, *types_of("BIGINT"))
    assert not Aggregate(inputs, [0], [call("min", inputs[1])]).adds_up
    assert not Aggregate(inputs, [0], [call("sum", inputs[1], distinct=True)]).adds_up
    doubles = (*types_of("DOUBLE"), *types_of("BIGINT"))
    assert not Aggregate(doubles, [0], [call("sum", doubles[1])]).adds_up

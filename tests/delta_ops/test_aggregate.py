"""GROUP BY with aggregates against DuckDB on random streams, and against exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.aggregates.aggregate import Aggregate, supported
from ivm.delta_ops.aggregates.lanes import call as aggregate_call
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.errors import EvaluationError
from ivm.storage.values import key_codes
from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.key_codes import KeyCodes
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet
from tests.support.operator_bench import (
    VALUES,
    Bench,
    Duck,
    drive,
    nearest_double,
    streams,
    types_of,
    zset,
)
from tests.tiers import examples

GROUP = type_of("VARCHAR")


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """What rows contribute is computed in blocks of three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate_call, "_BLOCK", 3)
        yield


def call(
    function: str, type: ColumnType | None, *, at: int = 1, distinct: bool = False
) -> AggregateSpec:
    """The call of a function on column `at`, its output type from DuckDB."""
    if function == "count_star" or type is None:
        return AggregateSpec("count_star", type_of("BIGINT"))
    cursor = Duck.cursor()
    row = cursor.execute(f"SELECT typeof({function}(NULL::{type.sql}))").fetchone()
    assert row is not None
    cursor.close()
    return AggregateSpec(function, type_of(row[0]), at, type, distinct=distinct)


def render(calls: list[AggregateSpec]) -> str:
    """The calls as SQL over c0, c1, …"""
    texts = []
    for c in calls:
        text = "count(*)" if c.function == "count_star" else ""
        texts.append(text or f"{c.function}({'DISTINCT ' if c.distinct else ''}c{c.argument})")
    return ", ".join(texts)


def bench(inputs: tuple[ColumnType, ...], keys: list[int], calls: list[AggregateSpec]) -> Bench:
    groups = ", ".join(f"c{k}" for k in keys)
    tail = f" GROUP BY {groups}" if keys else ""
    sql = f"SELECT {', '.join(filter(None, [groups, render(calls)]))} FROM i0{tail}"
    return Bench(
        lambda c, s: c.add("op", lambda _: Aggregate(inputs, keys, calls), s), [inputs], sql
    )


def exact_functions(type: ColumnType) -> list[str]:
    """Functions that DuckDB computes without rounding the test's values on the way."""
    names = ["count", "min", "max"]
    if type.sql == "BOOLEAN":
        names += ["bool_and", "bool_or", "count_if", "sum"]
    if type.is_integer or type.is_decimal or type.is_float:
        names += ["sum", "avg"]
    if type.sql in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME"):
        names.append("avg")
    return names


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", sorted(VALUES.keys() - {"BIGINT[]"}))
@settings(deadline=None, max_examples=examples(6))
@given(data=st.data())
def test_each_type_follows_duckdb(name: str, data: st.DataObject) -> None:
    inputs = (GROUP, type_of(name))
    calls = [call(f, inputs[1]) for f in exact_functions(inputs[1])] + [call("count_star", None)]
    assert all(supported(c) for c in calls)
    drive(bench(inputs, [0], calls), data.draw(streams(inputs)))


@pytest.mark.parametrize("name", ["INTEGER", "DECIMAL(18,2)", "VARCHAR", "DOUBLE"])
@settings(deadline=None, max_examples=examples(6))
@given(data=st.data())
def test_distinct_arguments(name: str, data: st.DataObject) -> None:
    inputs = (GROUP, type_of(name))
    functions = ["count"] if name == "VARCHAR" else ["count", "sum", "avg"]
    calls = [call(f, inputs[1], distinct=True) for f in functions] + [call("count", inputs[1])]
    drive(bench(inputs, [0], calls), data.draw(streams(inputs)))


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_a_scalar_aggregate_always_has_its_row(data: st.DataObject) -> None:
    inputs = types_of("INTEGER", "VARCHAR")
    calls = [call("count_star", None), call("sum", inputs[0], at=0), call("max", inputs[1])]
    drive(bench(inputs, [], calls), data.draw(streams(inputs)))


@pytest.mark.parametrize("names", [("DATE",), ("BOOLEAN", "UUID"), ("BIGINT[]",), ("HUGEINT",)])
@settings(deadline=None, max_examples=examples(6))
@given(data=st.data())
def test_group_keys_of_any_type(names: tuple[str, ...], data: st.DataObject) -> None:
    inputs = types_of(*names, "INTEGER")
    places = list(range(len(names)))
    calls = [call("sum", inputs[-1], at=len(names))]
    drive(bench(inputs, places, calls), data.draw(streams(inputs)))


@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_filter_and_kernel_arguments(data: st.DataObject) -> None:
    inputs = types_of("VARCHAR", "INTEGER")

    def positive(columns: Sequence[Column], count: int) -> Mask:
        assert isinstance(columns[1], FixedColumn)
        mask: Mask = columns[1].values > 0
        return mask

    def negated(columns: Sequence[Column], count: int) -> Column:
        assert isinstance(columns[1], FixedColumn)
        return FixedColumn(-columns[1].values.astype(np.int64), columns[1].valid)

    big, huge = type_of("BIGINT"), type_of("HUGEINT")
    calls = [
        AggregateSpec("count_star", big, filter=positive),
        AggregateSpec("sum", huge, negated, big, filter=positive),
        AggregateSpec("max", big, negated, big),
    ]
    sql = """SELECT c0, count(*) FILTER (c1 > 0), sum(-c1::BIGINT) FILTER (c1 > 0),
        max(-c1::BIGINT) FROM i0 GROUP BY c0"""
    under_test = Bench(
        lambda c, s: c.add("op", lambda _: Aggregate(inputs, [0], calls), s), [inputs], sql
    )
    drive(under_test, data.draw(streams(inputs)))


@settings(deadline=None, max_examples=examples(8))
@given(data=st.data())
def test_colliding_codes_do_not_mix_groups(data: st.DataObject) -> None:
    inputs = types_of("VARCHAR", "INTEGER")
    whole = key_codes.key_codes

    def two_codes(columns: Sequence[Column], types: Sequence[ColumnType]) -> KeyCodes:
        found = whole(columns, types)
        return found if found.exact else found._replace(codes=found.codes & 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_codes, "key_codes", two_codes)
        drive(bench(inputs, [0], [call("sum", inputs[1])]), data.draw(streams(inputs)))


DOUBLES = ["0.1", "1e40", "1e20", "-1e40", "-1e20", "5e-324", "1e308", "-0.1", "NULL"]


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.sampled_from(DOUBLES), st.integers(1, 3)), max_size=12))
def test_double_sums_are_exact_after_any_history(rows: list[tuple[str, int]]) -> None:
    inputs = types_of("DOUBLE")
    calls = [call("sum", inputs[0], at=0), call("avg", inputs[0], at=0)]
    under_test = bench(inputs, [], calls)
    for value, weight in rows:
        under_test.step([zset(inputs, [((value,), weight)])])
        under_test.step([zset(inputs, [(("1e300",), 1), (("0.3",), 1)])])
        under_test.step([zset(inputs, [(("1e300",), -1), (("0.3",), -1)])])
    values = [float(v) for v, w in rows if v != "NULL" for _ in range(w)]
    exact = sum(map(Fraction, values), Fraction())
    total = nearest_double(exact)
    expected = [total, total / len(values)] if values else [None, None]
    columns = under_test.output.to_arrow((("s", inputs[0]), ("a", inputs[0]))).to_pylist()
    assert list(columns[0].values()) == expected


@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_infinities_and_nan_can_be_taken_back(data: st.DataObject) -> None:
    inputs = types_of("VARCHAR", "DOUBLE")
    calls = [call("sum", inputs[1]), call("avg", inputs[1]), call("min", inputs[1])]
    special = st.sampled_from(["'NaN'", "'Infinity'", "'-Infinity'", "1.5", "NULL"])
    rows = data.draw(st.lists(st.tuples(st.sampled_from(["'a'", "'b'"]), special), max_size=8))
    under_test = bench(inputs, [0], calls)
    for row in rows:
        under_test.step([zset(inputs, [(row, 1)])])
        under_test.check()
    for row in data.draw(st.permutations(rows)):
        under_test.step([zset(inputs, [(row, -1)])])
        under_test.check()


@pytest.mark.parametrize("name", ["INTEGER", "DOUBLE"])
@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_variances_are_exact_ratios(name: str, data: st.DataObject) -> None:
    inputs = types_of("VARCHAR", name)
    functions = ["var_pop", "var_samp", "stddev_pop", "stddev_samp"]
    under_test = bench(inputs, [0], [call(f, inputs[1]) for f in functions])
    for step in data.draw(streams(inputs)):
        under_test.step([zset(inputs, step[0])])
        expected = _expected_variances(under_test.integrals[0], inputs)
        assert _variances(under_test.output) == expected


def _table(z: ZSet, types: tuple[ColumnType, ...]) -> list[tuple[object, ...]]:
    arrow = z.to_arrow(tuple((f"c{i}", t) for i, t in enumerate(types)))
    return [tuple(row.values()) for row in arrow.to_pylist()]


def _variances(output: ZSet) -> dict[object, tuple[object, ...]]:
    rows = _table(output, types_of("VARCHAR", *["DOUBLE"] * 4))
    return {row[0]: row[1:] for row in rows}


def _expected_variances(z: ZSet, types: tuple[ColumnType, ...]) -> dict[object, tuple[object, ...]]:
    groups: dict[object, list[Fraction]] = {}
    for (group, value), weight in zip(_table(z, types), z.weights.tolist(), strict=True):
        members = groups.setdefault(group, [])
        members += [] if value is None else [Fraction(str(value))] * weight
    return {g: _four(values) for g, values in groups.items()}


def _four(values: list[Fraction]) -> tuple[object, ...]:
    n = len(values)
    if n == 0:
        return (None,) * 4
    spread = sum((v * v for v in values), Fraction()) - sum(values, Fraction()) ** 2 / n
    pop = float(spread / n)
    samp = float(spread / (n - 1)) if n > 1 else None
    return pop, samp, math.sqrt(pop), None if samp is None else math.sqrt(samp)


def test_sum_overflow_is_an_error_and_changes_nothing() -> None:
    inputs = types_of("HUGEINT")
    under_test = bench(inputs, [], [call("sum", inputs[0], at=0)])
    top = zset(inputs, [(("170141183460469231731687303715884105727",), 1)])
    under_test.step([top])
    with pytest.raises(EvaluationError, match="Overflow in HUGEINT addition") as caught:
        under_test.step([top])
    assert caught.value.views == {"v"}
    under_test.step([top.negate()])
    under_test.check()


def test_only_groups_whose_row_changed_come_out() -> None:
    inputs = types_of("VARCHAR", "INTEGER")
    under_test = bench(inputs, [0], [call("max", inputs[1])])
    first = [(("'a'", "3"), 1), (("'b'", "1"), 1)]
    assert len(under_test.step([zset(inputs, first)])) == 2
    assert len(under_test.step([zset(inputs, [(("'a'", "2"), 1), (("'b'", "1"), 1)])])) == 0
    assert len(under_test.step([zset(inputs, [(("'a'", "3"), -1)])])) == 2
    assert len(under_test.step([zset(inputs, [(("'b'", "1"), -2)])])) == 1
    assert under_test.operator.state_rows() == 1


def test_dead_groups_make_room_for_new_ones() -> None:
    inputs = types_of("BIGINT", "VARCHAR", "INTEGER")
    calls = [call("sum", inputs[2], at=2), call("count", inputs[1], distinct=True)]
    operator = Aggregate(inputs, [0, 1], calls)
    for day in range(60):
        rows = [((f"{day * 10 + i}", f"'{i}'", "1"), 1) for i in range(10)]
        delta = zset(inputs, rows)
        operator.step((delta,))
        operator.commit()
        operator.step((delta.negate(),))
        operator.commit()
    assert operator.state_rows() == 0
    assert operator._table.capacity <= 64


@pytest.mark.parametrize("name", ["INTEGER", "VARCHAR"])
def test_min_and_max_share_one_arrangement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step appends once for both ends, and reads the end that a retraction may have taken."""
    appended: list[int] = []
    append = Arrangement.append

    def watched(self: Arrangement, delta: ZSet) -> Arrangement:
        appended.append(len(delta))
        return append(self, delta)

    monkeypatch.setattr(Arrangement, "append", watched)
    inputs = types_of("VARCHAR", name)
    under_test = bench(inputs, [0], [call(f, inputs[1]) for f in ("min", "max", "min")])
    rows = [(("'a'", f"'{value}'"), 1) for value in range(5)]
    for step in (rows, [(rows[0][0], -1)], [(rows[4][0], -1)], [(rows[2][0], -1)]):
        under_test.step([zset(inputs, step)])
        under_test.check()
    assert appended == [5, 1, 1, 1]

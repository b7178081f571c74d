"""Joins with the nearest row against DuckDB's ASOF JOIN on random streams, and what a step touches.

DuckDB leaves open which of several equal right rows it takes; here it is the first in the order of
all columns, so DuckDB is given that one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.nearest_join import NearestJoin
from ivm.delta_ops.joins.range_join import range_order
from ivm.delta_ops.joins.range_search import Comparison
from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.linear.filter import Filter
from ivm.delta_ops.operator import Operator
from ivm.storage.arrangement import spine, write_buffer
from ivm.storage.values import key_codes, thresholds
from ivm.storage.values.column import Column, not_null
from ivm.storage.values.key_codes import KeyCodes
from ivm.storage.values.ordering.order import OrderKey, orderable
from ivm.storage.values.types import ColumnType
from tests.support.operator_bench import VALUES, Bench, Duck, Row, drive, streams, types_of, zset
from tests.tiers import examples

OPERATORS = ["<", "<=", ">", ">="]
# DuckDB fails on an ASOF join of INTERVALs, and has none of BOOLEANs.
ORDERED = sorted(
    name
    for name in VALUES
    if name not in ("INTERVAL", "BOOLEAN") and all(orderable(t) for t in types_of(name))
)
ROW = types_of("INTEGER", "INTEGER", "VARCHAR")  # key, value, payload


@pytest.fixture(autouse=True, params=["few probes", "many probes"])
def small(request: pytest.FixtureRequest) -> Iterator[None]:
    """Arrangements of many short runs, searched probe by probe, or for all probes at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_buffer, "TAIL_ROWS", 3)
        patch.setattr(spine, "FOREGROUND_ROWS", 8)
        if request.param == "many probes":
            patch.setattr(thresholds, "FIRST_KEYS", 0)
        yield


def joined(
    operator: str,
    types: Sequence[ColumnType] = ROW,
    output: Sequence[int] = range(6),
    condition: str | None = None,
    *,
    keyed: bool = True,
    null_safe: bool = False,
    ordered: bool = True,
) -> Callable[[Circuit, list[int]], int]:
    """Makes the join and what is below it, as `Bench` wants it."""
    comparison, key = Comparison(1, operator, 1), (0,) if keyed else ()
    order = [OrderKey(1, False, False)]
    if operator in (">", ">="):  # of equal rows the last one in this order is the first of all
        others = [i for i in range(len(types)) if i not in (*key, 1)]
        order += [OrderKey(i, descending=True, nulls_first=True) for i in others]
    residual = None
    if condition is not None:
        residual = duck_predicate(condition, [*types, *types], Duck.cursor)

    def make(circuit: Circuit, sources: list[int]) -> int:
        left, right = sources
        present = circuit.add(
            "present", lambda _: Filter(lambda columns, _: not_null(columns[1]), types), [right]
        )
        by = range_order([comparison]) if ordered else ()
        nodes = [
            circuit.add("left", lambda _: Arrange(types, key, by), [left]),
            circuit.add("right", lambda _: Arrange(types, key, order), [present]),
        ]

        def join(ops: tuple[Operator, ...]) -> Operator:
            a, b = ops
            assert isinstance(a, Arrange)
            assert isinstance(b, Arrange)
            safe = [null_safe] if keyed else None
            return NearestJoin(a, b, output, comparison, safe, residual)

        return circuit.add("join", join, nodes)

    return make


def asof(operator: str, *, keyed: bool = True, null_safe: bool = False) -> str:
    """The join in DuckDB, from FROM on."""
    same = "IS NOT DISTINCT FROM" if null_safe else "="
    equal, by = (f"l.c0 {same} r.c0 AND ", "c0, c1") if keyed else ("", "c1")
    first = f"SELECT DISTINCT ON ({by}) * FROM i1 ORDER BY {by}, c0 NULLS LAST, c2 NULLS LAST"
    return f"FROM i0 l ASOF JOIN ({first}) r ON {equal}l.c1 {operator} r.c1"


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("operator", OPERATORS)
@settings(deadline=None, max_examples=examples(10))
@given(data=st.data())
def test_follows_duckdb(operator: str, keyed: bool, data: st.DataObject) -> None:
    make = joined(operator, keyed=keyed)
    bench = Bench(make, [ROW, ROW], f"SELECT l.*, r.* {asof(operator, keyed=keyed)}")
    drive(bench, data.draw(streams(ROW, ROW, steps=6)))


@pytest.mark.cases(4)
@pytest.mark.parametrize("output", [[0, 2], [5], [3, 1]])
@pytest.mark.parametrize("operator", OPERATORS)
@settings(deadline=None, max_examples=examples(5))
@given(data=st.data())
def test_shows_some_columns(operator: str, output: list[int], data: st.DataObject) -> None:
    names = ["l.c0", "l.c1", "l.c2", "r.c0", "r.c1", "r.c2"]
    sql = f"SELECT {', '.join(names[i] for i in output)} {asof(operator)}"
    bench = Bench(joined(operator, output=output), [ROW, ROW], sql)
    drive(bench, data.draw(streams(ROW, ROW)))


@pytest.mark.cases(2)
@pytest.mark.parametrize("operator", OPERATORS)
@settings(deadline=None, max_examples=examples(5))
@given(data=st.data())
def test_null_keys_may_be_equal(operator: str, data: st.DataObject) -> None:
    sql = f"SELECT l.*, r.* {asof(operator, null_safe=True)}"
    bench = Bench(joined(operator, null_safe=True), [ROW, ROW], sql)
    drive(bench, data.draw(streams(ROW, ROW)))


@pytest.mark.cases(2)
@pytest.mark.parametrize("operator", OPERATORS)
@settings(deadline=None, max_examples=examples(5))
@given(data=st.data())
def test_a_condition_is_tested_on_the_nearest_row_alone(operator: str, data: st.DataObject) -> None:
    make = joined(operator, condition="c2 IS DISTINCT FROM c5")
    sql = f"SELECT l.*, r.* {asof(operator)} WHERE l.c2 IS DISTINCT FROM r.c2"
    drive(Bench(make, [ROW, ROW], sql), data.draw(streams(ROW, ROW)))


@pytest.mark.cases(4)
@pytest.mark.parametrize("operator", [">=", "<"])
@pytest.mark.parametrize("name", ORDERED)
@settings(deadline=None, max_examples=examples(3))
@given(data=st.data())
def test_values_of_any_type(operator: str, name: str, data: st.DataObject) -> None:
    types = types_of("VARCHAR", name, "INTEGER")
    bench = Bench(joined(operator, types), [types, types], f"SELECT l.*, r.* {asof(operator)}")
    drive(bench, data.draw(streams(types, types)))


@pytest.mark.parametrize("operator", OPERATORS)
@settings(deadline=None, max_examples=examples(5))
@given(data=st.data())
def test_one_left_row_a_key(operator: str, data: st.DataObject) -> None:
    """The left side is then arranged without an order."""
    pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=4)
    live: dict[int, int] = {}
    bench = Bench(joined(operator, ordered=False), [ROW, ROW], f"SELECT l.*, r.* {asof(operator)}")
    for _, right in data.draw(streams(ROW, ROW)):
        left = []
        for key, value in data.draw(pairs):
            if key in live:
                left.append(((f"{key}", f"{live.pop(key)}", "'a'"), -1))
            if value:
                left.append(((f"{key}", f"{value}", "'a'"), 1))
                live[key] = value
        bench.step([zset(ROW, left), zset(ROW, right)])
        bench.check()


@st.composite
def right_changes(draw: st.DrawFn) -> list[list[tuple[Row, int]]]:
    """Steps of few right rows that come, go, or get another payload where they stand."""
    live: list[Row] = []
    steps = []
    for _ in range(draw(st.integers(2, 6))):
        step: list[tuple[Row, int]] = []
        for _ in range(draw(st.integers(1, 4))):
            change = draw(st.sampled_from(["come", "come", "go", "update"] if live else ["come"]))
            if change == "come":
                row = draw(st.tuples(KEYS, st.sampled_from(["2", "3", "6", "7", "NULL"]), PAYLOADS))
            else:
                old = live.pop(draw(st.integers(0, len(live) - 1)))
                step.append((old, -1))
                row = (old[0], old[1], draw(PAYLOADS))
            if change != "go":
                live.append(row)
                step.append((row, 1))
        steps.append(draw(st.permutations(step)))
    return steps


KEYS = st.sampled_from(["NULL", "0", "1"])  # NULL has the code of 0
PAYLOADS = st.sampled_from(["'a'", "'b'", "NULL"])


@pytest.mark.cases(4)
@pytest.mark.parametrize("null_safe", [True, False])
@pytest.mark.parametrize("key", ["INTEGER", "VARCHAR"])
@pytest.mark.parametrize("operator", OPERATORS)
@settings(deadline=None, max_examples=examples(5))
@given(steps=right_changes(), some=st.data())
def test_right_rows_change_among_many_left_ones(
    operator: str,
    key: str,
    null_safe: bool,
    steps: list[list[tuple[Row, int]]],
    some: st.DataObject,
) -> None:
    """Several may change in one gap; all keys that are strings have one of two codes."""
    types = types_of(key, "INTEGER", "VARCHAR")
    whole = key_codes.key_codes

    def two_codes(columns: Sequence[Column], types: Sequence[ColumnType]) -> KeyCodes:
        found = whole(columns, types)
        return found if found.exact else found._replace(codes=found.codes & 1)

    values = ["NULL", *map(str, range(10))]
    left = [((k, v, "'l'"), 1) for k in ("NULL", "0", "1") for v in values for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_codes, "key_codes", two_codes)
        make = joined(operator, types, null_safe=null_safe)
        sql = f"SELECT l.*, r.* {asof(operator, null_safe=null_safe)}"
        bench = Bench(make, [types, types], sql)
        bench.step([zset(types, left), zset(types, [])])
        for step in steps:
            gone = some.draw(st.lists(st.sampled_from(left), max_size=1))
            left = [entry for entry in left if entry not in gone]
            both = zset(types, [*gone, *gone]).negate()  # each left row is there twice
            bench.step([both, zset(types, step)])
            bench.check()


@pytest.mark.parametrize("count", [1, 6])
def test_rows_behind_the_next_one_are_not_touched(count: int) -> None:
    """Of the left rows only those up to the next right row are read, and emitted."""
    bench = Bench(joined(">="), [ROW, ROW], f"SELECT l.*, r.* {asof('>=')}")
    left = [((f"{k}", f"{10 * i}", "'l'"), 1) for k in range(count) for i in range(40)]
    right = [((f"{k}", f"{100 * i}", "'r'"), 1) for k in range(count) for i in range(4)]
    bench.step([zset(ROW, left), zset(ROW, right)])
    new = zset(ROW, [((f"{k}", "150", "'r'"), 1) for k in range(count)])
    changed = bench.step([zset(ROW, []), new])
    assert len(changed) == count * 2 * 5  # at 150 … 190
    bench.check()
    assert len(bench.step([zset(ROW, []), new])) == 0  # an equal row beside it
    assert len(bench.step([zset(ROW, []), new.negate()])) == 0
    assert len(bench.step([zset(ROW, []), new.negate()])) == count * 2 * 5
    bench.check()

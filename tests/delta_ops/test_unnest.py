"""Unnest: elements of lists of every type, against DuckDB's unnest over the same rows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.linear.unnest import Unnest
from ivm.storage.values.zset import add
from ivm.storage.warehouse.duckdb import duck
from tests.support.operator_bench import (
    Bench,
    Duck,
    Row,
    assert_same,
    drive,
    streams,
    types_of,
    zset,
)
from tests.support.type_values import VALUES
from tests.tiers import examples

LISTS = ("INTEGER[]", "VARCHAR[]")
LITERALS = {
    "INTEGER[]": ["[1, 2]", "[1, NULL, 3]", "[]", "NULL"],
    "VARCHAR[]": ["['a', 'b', 'c', NULL]", "['']", "[]", "NULL"],
}


def bench(*, outer: bool, ordinality: bool) -> Bench:
    types = types_of("INTEGER", *LISTS)
    items = ["c1", "c2"] + (["range(1, n + 1)"] if ordinality else [])
    if outer:
        items = [f"CASE WHEN n = 0 THEN [NULL] ELSE {item} END" for item in items]
    listed = ", ".join(f"unnest({item}) AS c{i + 1}" for i, item in enumerate(items))
    n = "greatest(coalesce(len(c1), 0), coalesce(len(c2), 0))"
    sql = f"SELECT c0, {listed} FROM (SELECT *, {n} AS n FROM i0)"
    elements = types_of("INTEGER", "VARCHAR")

    def make(circuit: Circuit, sources: list[int]) -> int:
        operator = Unnest([(types[0], 0)], [1, 2], elements, outer=outer, ordinality=ordinality)
        return circuit.add("unnest", lambda _: operator, sources)

    return Bench(make, [types], sql)


@given(st.data(), st.booleans(), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_lists_side_by_side(data: st.DataObject, outer: bool, ordinality: bool) -> None:
    stream = data.draw(streams(types_of("INTEGER", "INTEGER", "INTEGER")))
    pools = [LITERALS[name] for name in LISTS]

    def as_lists(row: Row) -> Row:
        numbers = [0 if v == "NULL" else int(v) for v in row]
        lists = [pool[n % len(pool)] for pool, n in zip(pools, numbers[1:], strict=True)]
        return (row[0], *lists)

    drive(
        bench(outer=outer, ordinality=ordinality),
        [tuple([(as_lists(row), weight) for row, weight in delta] for delta in step)
         for step in stream],
    )  # fmt: skip


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", [*VALUES, "INTEGER[]", "VARCHAR[2]", "STRUCT(a HUGEINT)"])
@pytest.mark.parametrize("kind", ["[]", "[2]"])
def test_elements_of_every_type(name: str, kind: str) -> None:
    literals = VALUES.get(name, ("NULL",))
    values = [f"({v})::{name}" for v in literals] + ["NULL"]
    lists = types_of(f"{name}{kind}")

    operator = Unnest([], [0], types_of(name))
    rows: list[tuple[Row, int]] = [((f"[{v}, {w}]",), 1) for v, w in pairwise(values)]
    rows += [(("NULL",), 1)] + ([(("[]",), 1)] if kind == "[]" else [])
    given = zset(lists, rows)
    cursor = Duck.cursor()
    wanted = duck.evaluate(
        cursor,
        "SELECT unnest(c0) FROM i0",
        {"i0": (given, (("c0", lists[0]),))},
        (("c0", types_of(name)[0]),),
    )
    cursor.close()
    assert_same(operator.step((given,)), wanted, operator.types)
    sliced = operator.step((given.slice(1, len(given)),))
    first = operator.step((given.slice(0, 1),))
    assert_same(add([first, sliced]), wanted, operator.types)

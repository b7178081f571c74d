"""An aggregate call of SQL as an operator on the bench, bound and compiled, against DuckDB."""

from __future__ import annotations

import functools
import math

import duckdb

from ivm.delta_ops.circuit import Circuit
from ivm.sql.bind.bind import bind
from ivm.sql.compile.rules import COMPILE
from ivm.sql.plan.nodes import Aggregate, Plan, Project
from ivm.sql.plan.render import render
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet
from tests.support.operator_bench import Bench, Duck, expand


@functools.cache
def plan_of(query: str, inputs: tuple[ColumnType, ...]) -> Plan:
    """The plan of a query over a table i0 with columns c0, c1, … of the given types."""
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        columns = ", ".join(f"c{i} {t.sql}" for i, t in enumerate(inputs))
        cursor.execute(f"CREATE TABLE i0 ({columns})")
        return bind(query, DuckCatalog(cursor), cursor)


class FunctionBench(Bench):
    """A grouped query without expressions above its aggregates; doubles agree to nine digits."""

    def __init__(self, query: str, inputs: tuple[ColumnType, ...]) -> None:
        plan = plan_of(query, inputs)
        while not isinstance(plan, Aggregate):
            assert isinstance(plan, Project), f"{query}: {type(plan).__name__}"
            plan = plan.input
        self.plan = plan
        recipe = COMPILE[Aggregate](plan, Duck.cursor)
        assert recipe.key[0] == "aggregate", f"{query}: left to DuckDB"
        super().__init__(self._make_nodes, [inputs], render(plan).replace('"main"."i0"', "i0"))

    def _make_nodes(self, circuit: Circuit, sources: list[int]) -> int:
        below = self.plan.input
        node = sources[0]
        if isinstance(below, Project):
            node = circuit.add("map", COMPILE[Project](below, Duck.cursor).build, [node])
        return circuit.add("op", COMPILE[Aggregate](self.plan, Duck.cursor).build, [node])

    def check(self) -> None:
        assert_close(self._rows(self.output), self._rows(self.answer()))

    def check_contents(self) -> None:
        held = [row for z in self.circuit.contents(self.node, self._fetch) for row in self._rows(z)]
        assert_close(sorted(held, key=exact), self._rows(self.output))

    def _rows(self, z: ZSet) -> list[object]:
        schema = tuple((f"c{i}", t) for i, t in enumerate(self.types))
        found = [tuple(row.values()) for row in expand(z).to_arrow(schema).to_pylist()]
        return sorted(found, key=exact)


def assert_close(found: list[object], wanted: list[object]) -> None:
    """Rows that are equal in all but the last digits of their doubles."""
    assert close(found, wanted), f"found {found}, wanted {wanted}"


def exact(value: object) -> str:
    """A value without its doubles, to sort by."""
    if isinstance(value, (list, tuple)):
        return str([exact(v) for v in value])
    return "" if isinstance(value, float) else repr(value)


def close(left: object, right: object) -> bool:
    """Equal, doubles to nine digits."""
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(close, left, right))
    return left == right

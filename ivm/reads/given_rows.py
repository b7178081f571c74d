"""The rows that a query gives itself: VALUES, and range() and generate_series() of constants.

Law: they are DuckDB's, in the types that the plan says. What depends on parameters is computed for
each answer by kernels, everything else once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlglot import exp

from ivm.delta_ops.operator import Kernel
from ivm.reads.parameters import Parameters
from ivm.sql.bind.table_functions import function_call
from ivm.sql.plan.expressions import cast
from ivm.sql.plan.nodes import Plan, Project, Scan, Unnest, Values, with_inputs
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import Column, FixedColumn, concat
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, empty, ones

MOST = 1 << 20
"""Rows of a range above which DuckDB makes them."""
_BIGINT = type_of("BIGINT")
_NEAR_THE_END = 1 << 62
_SERIES = {"range": 0, "generate_series": 1}
"""The functions, and how far beyond the last value they stop."""

Compute = Callable[[Sequence[Column]], ZSet]
"""The rows for the parameters' values, columns of one row."""


class NotGivenError(Exception):
    """Some rows have no kernels; the message says why."""


@dataclass(frozen=True)
class _Leaf:
    """Rows of a plan.

    Attributes:
        compute: gives them.
        once: they depend on no parameter.
    """

    compute: Compute
    once: bool


class GivenRows:
    """The rows that a plan gives itself, each as a relation of its own.

    Args:
        plan: the query's.
        parameters: whose marks are in it.

    Attributes:
        plan: scans these relations instead.

    Raises:
        NotGivenError: DuckDB must compute them.
        LiftedError: a literal is a parameter where its type matters.
    """

    def __init__(self, plan: Plan, parameters: Parameters | None) -> None:
        self._parameters = parameters
        self._leaves: dict[str, _Leaf] = {}
        self._kept: dict[str, ZSet] = {}
        self.plan = self._scanned(plan)

    def __contains__(self, relation: str) -> bool:
        return relation in self._leaves

    def rows(self, relation: str, given: Sequence[Column]) -> ZSet:
        """The rows of one of the relations.

        Args:
            relation: its name in the plan.
            given: the parameters' columns of one row.

        Raises:
            EvaluationError: an expression fails, or there would be very many.
        """
        kept = self._kept.get(relation)
        if kept is not None:
            return kept
        leaf = self._leaves[relation]
        rows = leaf.compute(given)
        if leaf.once:
            self._kept[relation] = rows
        return rows

    def _scanned(self, plan: Plan) -> Plan:
        leaf = self._leaf(plan)
        if leaf is None:
            return with_inputs(plan, self._scanned)
        name = f"\0{len(self._leaves)}"  # no relation of the database has such a name
        self._leaves[name] = leaf
        return Scan(name, tuple(range(len(plan.schema))), plan.schema)

    def _leaf(self, plan: Plan) -> _Leaf | None:
        """The rows of a plan that has no other inputs; None for other plans."""
        if isinstance(plan, Values):
            return self._values(plan)
        arguments = _series(plan)
        if isinstance(plan, Unnest) and arguments is not None:
            return self._series(*arguments)
        return None

    def _values(self, plan: Values) -> _Leaf:
        types = [type for _, type in plan.schema]
        rows = [[self._kernel(e, t) for e, t in zip(r, types, strict=True)] for r in plan.rows]

        def compute(given: Sequence[Column]) -> ZSet:
            if not rows:
                return empty(types)
            columns = [concat([k(given, 1) for k in cells]) for cells in zip(*rows, strict=True)]
            return ZSet(tuple(columns), ones(len(rows)))

        return _Leaf(compute, not any(self._reads(e) for row in plan.rows for e in row))

    def _series(self, name: str, arguments: Sequence[exp.Expr]) -> _Leaf:
        kernels = [self._kernel(e, _BIGINT, literals=True) for e in arguments]
        beyond = _SERIES[name]

        def compute(given: Sequence[Column]) -> ZSet:
            found = [kernel(given, 1) for kernel in kernels]
            if any(column.valid is not None for column in found):
                raise EvaluationError("a bound is NULL")
            return _between(*[int(column.values[0]) for column in found], beyond=beyond)  # type: ignore[union-attr]

        return _Leaf(compute, not any(map(self._reads, arguments)))

    def _kernel(self, expr: exp.Expr, type: ColumnType, *, literals: bool = False) -> Kernel:
        parameters, types = self._parameters, list[ColumnType]()
        if parameters is not None:
            expr = parameters.computed(expr, literals=literals)
            types = [type for _, type in parameters.schema]
        kernel = compile_scalar(cast(expr, type), types, type)
        if kernel is None:
            raise NotGivenError("rows of VALUES or of a table function that have no kernels")
        return kernel

    def _reads(self, expr: exp.Expr) -> bool:
        return self._parameters is not None and self._parameters.reads(expr)


def _series(plan: Plan) -> tuple[str, Sequence[exp.Expr]] | None:
    """The name and the arguments of range() or generate_series() of integers; None for others."""
    if not isinstance(plan, Unnest) or plan.kept or plan.ordinality or plan.call is not None:
        return None
    below = plan.input
    if plan.outer or not isinstance(below, Project) or len(below.exprs) != 1:
        return None
    one_row = isinstance(below.input, Values) and len(below.input.rows) == 1
    name, arguments = function_call(below.exprs[0])
    if not one_row or name not in _SERIES or below.schema[0][1].sql != "BIGINT[]":
        return None
    return name, arguments


def _between(start: int, stop: int | None = None, step: int = 1, *, beyond: int) -> ZSet:
    """The integers from `start`, or from 0 if it is the only bound, to before `stop + beyond`."""
    if stop is None:
        start, stop = 0, start
    if step == 0 or max(abs(start), abs(stop)) > _NEAR_THE_END:
        raise EvaluationError("DuckDB knows what comes of such bounds")
    count = len(range(start, stop + (beyond if step > 0 else -beyond), step))
    if count > MOST:
        raise EvaluationError("there are too many rows")
    return ZSet((FixedColumn(np.arange(count) * step + start),), ones(count))

"""The rows that a query gives itself: VALUES, and range() and generate_series() of constants.

Law: they are DuckDB's, in the types that the plan says. Kernels compute them for each answer, but
VALUES without parameters once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sqlglot import exp

from ivm.delta_ops.operator import Kernel
from ivm.reads.parameters import Parameters
from ivm.reads.verdicts import NotFromStateError
from ivm.sql.bind.table_functions import function_call
from ivm.sql.plan.expressions import cast
from ivm.sql.plan.nodes import Plan, Project, Scan, Unnest, Values
from ivm.sql.plan.walks import with_inputs
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


class GeneratedRows:
    """The rows that a plan gives itself, each as a relation of its own.

    Args:
        plan: the query's.
        parameters: whose marks are in it.

    Attributes:
        plan: scans these relations instead.
        marks: those that are read here.

    Raises:
        NotFromStateError: DuckDB must compute them.
        LiftedError: a literal is a parameter where its type matters.
    """

    def __init__(self, plan: Plan, parameters: Parameters | None) -> None:
        self._parameters = parameters
        self._computed: dict[str, Compute] = {}
        self.marks: frozenset[str] = frozenset()
        self.plan = self._scanned(plan)

    def __contains__(self, relation: str) -> bool:
        return relation in self._computed

    def rows(self, relation: str, given: Sequence[Column]) -> ZSet:
        """The rows of one of the relations.

        Args:
            relation: its name in the plan.
            given: the parameters' columns of one row.

        Raises:
            EvaluationError: an expression fails, or there would be very many.
        """
        return self._computed[relation](given)

    def _scanned(self, plan: Plan) -> Plan:
        compute = self._compute(plan)
        if compute is None:
            return with_inputs(plan, self._scanned)
        name = f"\0{len(self._computed)}"  # no relation of the database has such a name
        self._computed[name] = compute
        return Scan(name, tuple(range(len(plan.schema))), plan.schema)

    def _compute(self, plan: Plan) -> Compute | None:
        """Computes the rows of a plan that has no other inputs; None for other plans."""
        if isinstance(plan, Values):
            return self._of_values(plan)
        series = _series(plan)
        return None if series is None else self._of_series(*series)

    def _of_values(self, plan: Values) -> Compute:
        types = [type for _, type in plan.schema]
        cells = [[self._kernel(e, t) for e, t in zip(r, types, strict=True)] for r in plan.rows]

        def compute(given: Sequence[Column]) -> ZSet:
            if not cells:
                return empty(types)
            columns = [concat([kernel(given, 1) for kernel in c]) for c in zip(*cells, strict=True)]
            return ZSet(tuple(columns), ones(len(cells)))

        if any(self._marks_read(e) for row in plan.rows for e in row):
            return compute
        rows = compute(())
        return lambda given: rows

    def _of_series(self, name: str, arguments: Sequence[exp.Expr]) -> Compute:
        kernels = [self._kernel(e, _BIGINT, literals=True) for e in arguments]
        beyond = _SERIES[name]

        def compute(given: Sequence[Column]) -> ZSet:
            found = [kernel(given, 1) for kernel in kernels]
            if any(column.valid is not None for column in found):
                raise EvaluationError("a bound is NULL")
            return _between(*[int(column.values[0]) for column in found], beyond=beyond)  # type: ignore[union-attr]

        return compute

    def _kernel(self, expr: exp.Expr, type: ColumnType, *, literals: bool = False) -> Kernel:
        parameters, types = self._parameters, list[ColumnType]()
        self.marks |= self._marks_read(expr)
        if parameters is not None:
            expr = parameters.computed(expr, literals=literals)
            types = [type for _, type in parameters.schema]
        kernel = compile_scalar(cast(expr, type), types, type)
        if kernel is None:
            raise NotFromStateError("rows of VALUES or of a table function that have no kernels")
        return kernel

    def _marks_read(self, expr: exp.Expr) -> frozenset[str]:
        return frozenset() if self._parameters is None else self._parameters.marks_read(expr)


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

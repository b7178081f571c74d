"""The dependent join of a domain with a nested query, pushed down until no node reads a parameter.

Law (Neumann & Kemper, BTW 2015): D is a set of parameter values. `over` holds, for each row of D,
the rows of the query with that row for its parameters, and D's columns after the query's own.

A recursive query may run for all rows of D at once. Run for one row of D, it stops when its last
rows are none; run for all together, it goes on while any row of D has some. Both are the same if
every row of the step comes from a last row (`driven`), which then belongs to the same row of D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, conjunction, conjuncts
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    SetOp,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
    types,
    width,
)
from ivm.sql.plan.walks import free_recursions
from ivm.sql.rewrite.carry_columns import Carry, columns, without_groups
from ivm.sql.subqueries.empty_groups import empty_values, filled
from ivm.sql.subqueries.parameters import is_free, substituted
from ivm.storage.warehouse.duckdb.duck import Cursor


class DomainPush(Carry):
    """Carries the row of one domain through one nested query.

    Args:
        query: the nested query's number.
        domain: the distinct values of its parameters.
        cursor: computes the values of aggregates over no rows.
    """

    def __init__(self, query: int, domain: Plan, cursor: Cursor) -> None:
        super().__init__(tuple((f"d{i}", t) for i, t in enumerate(types(domain))))
        self._query = query
        self._domain = domain
        self._cursor = cursor
        self._depths: set[int] = set()

    def depends(self, plan: Plan) -> bool:
        return is_free(plan, self._query) or bool(self._depths & free_recursions(plan))

    def expression(self, expr: exp.Expr, positions: Sequence[int]) -> exp.Expr:
        """The expression with the domain's columns for its parameters."""
        return substituted(expr, self._query, dict(enumerate(columns(positions))))

    def everywhere(self, plan: Plan) -> Plan:
        if isinstance(plan, Values) and len(plan.rows) == 1:
            return self._values(plan)
        return Join(plan, self._domain, "inner")

    def met(self, join: Join, left: Sequence[int], right: Sequence[int]) -> Join:
        terms = _same(left, [width(join.left) + i for i in right])
        return replace(join, residual=conjunction([*conjuncts(join.residual), *terms]))

    def each(self, plan: Aggregate | GroupRecompute) -> Plan:
        """The row of every row of the domain: that of its group, or the row over no rows."""
        groups = self.node(plan)
        own = range(self.count)
        on = conjunction(_same(own, [self.count + i for i in groups.further]))
        joined = Join(self._domain, groups.plan, "left", residual=on)
        empty = zip(groups.own, empty_values(plan, self._cursor), strict=True)
        values = [filled(self.count + i, value) for i, value in empty]
        return Project(joined, (*values, *columns(own)), plan.schema + self.schema)

    def source(self, plan: Plan) -> Plan:
        match plan:
            case Values():
                return self._values(plan)
            case Recursive():
                return self._recursive(plan)
            case RecursiveScan():
                return replace(plan, schema=plan.schema + self.schema)
            case _:
                raise NotIncremental(f"a correlated subquery with {type(plan).__name__}")

    def _values(self, plan: Values) -> Plan:
        schema, own = plan.schema + self.schema, range(self.count)
        parts: list[Plan] = []
        for row in plan.rows:
            pairs = zip(row, types(plan), strict=True)
            exprs = [cast(self.expression(e, own), t) for e, t in pairs]
            parts.append(Project(self._domain, (*exprs, *columns(own)), schema))
        return parts[0] if len(parts) == 1 else Union(tuple(parts), schema)

    def _recursive(self, plan: Recursive) -> Plan:
        """The recursive query, each row of which carries the row of the domain it belongs to."""
        if not driven(plan.step, plan.depth):
            raise NotIncremental("a correlated recursive query whose step has rows of its own")
        base = self.over(plan.base)
        self._depths.add(plan.depth)
        step = self.over(plan.step)
        self._depths.remove(plan.depth)
        return replace(plan, base=base, step=step, schema=plan.schema + self.schema)


def _same(left: Sequence[int], right: Sequence[int]) -> list[exp.Expr]:
    """Conditions that columns agree, NULLs being equal."""
    pairs = zip(left, right, strict=True)
    return [exp.NullSafeEQ(this=column(a), expression=column(b)) for a, b in pairs]


def driven(plan: Plan, depth: int) -> bool:
    """Returns whether the plan is empty if the recursive query of that depth has no last rows."""
    match plan:
        case RecursiveScan():
            return plan.depth == depth
        case Filter() | Project() | Distinct() | TopK() | Unnest() | Window():
            return driven(plan.input, depth)
        case Aggregate() | GroupRecompute():
            return not without_groups(plan) and driven(plan.input, depth)
        case Union():
            return all(
                driven(part, depth) for i, part in enumerate(plan.inputs) if i not in plan.negated
            )
        case SetOp():
            either = plan.kind == "intersect" and driven(plan.right, depth)
            return driven(plan.left, depth) or either
        case Join():
            return _join_driven(plan, depth)
        case _:
            return False


def _join_driven(plan: Join, depth: int) -> bool:
    left, right = driven(plan.left, depth), driven(plan.right, depth)
    if plan.kind in ("inner", "semi"):
        return left or right
    return left and (right or plan.kind != "full")

"""The dependent join of a domain with a nested query, pushed down until nothing depends.

Law (Neumann & Kemper, BTW 2015): D is a set of parameter values. `pushed` gives, for each row of D,
the rows of the query with that row for its parameters, and D's columns after the query's own. Below
a node that groups, ranks or tells rows apart, D's columns join its keys; two inputs that both
depend on D meet on it; an aggregate without groups has its row for every row of D.

Which recursive queries can be run for all values of a domain at once.

Law: run for each value by itself, the recursion stops for the value when its last rows are none.
Run for all values together, it goes on while any value has rows; that is the same if every row of
the step comes from a last row, hence from one of its own value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, conjunction, conjuncts, remap
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Expr,
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
    open_scans,
    types,
    width,
)
from ivm.sql.subqueries.empty_groups import empty_values, filled, without_groups
from ivm.sql.subqueries.lift_conditions import partitioned
from ivm.sql.subqueries.parameters import is_free, substituted
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor


def same(a: int, b: int) -> Expr:
    """Columns that agree, NULLs included."""
    return exp.NullSafeEQ(this=column(a), expression=column(b))


class DomainPush:
    """Pushes one domain into one nested query.

    Args:
        query: the nested query's number.
        domain: the distinct values of its parameters.
        cursor: asked for the values of empty groups.
    """

    def __init__(self, query: int, domain: Plan, cursor: Cursor) -> None:
        self._query = query
        self._domain = domain
        self._cursor = cursor
        self._schema: Schema = tuple((f"d{i}", t) for i, t in enumerate(types(domain)))
        self._count = width(domain)
        self._depths: set[int] = set()

    def pushed(self, plan: Plan) -> Plan:
        """The plan's columns, then the domain's.

        Raises:
            NotIncremental: a node that no rule knows.
        """
        if not self._free(plan):
            return self._product(plan)
        match plan:
            case Filter():
                below = self.pushed(plan.input)
                return Filter(below, self._over(plan.predicate, width(plan)))
            case Project():
                return self._project(plan)
            case Join():
                return self._join(plan)
            case Aggregate():
                return self._aggregate(plan)
            case GroupRecompute():
                return self._group_recompute(plan)
            case Distinct():
                return Distinct(self.pushed(plan.input))
            case Union():
                parts = tuple(self.pushed(part) for part in plan.inputs)
                return replace(plan, inputs=parts, schema=plan.schema + self._schema)
            case SetOp():
                left, right = self.pushed(plan.left), self.pushed(plan.right)
                return replace(plan, left=left, right=right, schema=plan.schema + self._schema)
            case TopK():
                return self._top_k(plan)
            case Window():
                return self._window(plan)
            case Unnest():
                return self._unnest(plan)
            case Values():
                return self._values(plan)
            case Recursive():
                return self._recursive(plan)
            case RecursiveScan():
                return replace(plan, schema=plan.schema + self._schema)
            case _:
                raise NotIncremental(f"a correlated subquery with {type(plan).__name__}")

    def _free(self, plan: Plan) -> bool:
        return is_free(plan, self._query) or bool(self._depths & open_scans(plan))

    def _own(self, start: int) -> list[int]:
        """The positions of the domain's columns, which begin at `start`."""
        return list(range(start, start + self._count))

    def _over(self, expr: Expr, start: int) -> Expr:
        """The expression with the domain's columns for its parameters."""
        return substituted(
            expr, self._query, {i: column(p) for i, p in enumerate(self._own(start))}
        )

    def _product(self, plan: Plan) -> Plan:
        if isinstance(plan, Values) and len(plan.rows) == 1:
            return self._values(plan)
        return Join(plan, self._domain, "inner")

    def _values(self, plan: Values) -> Plan:
        schema = plan.schema + self._schema
        own = [column(i) for i in range(self._count)]
        parts: list[Plan] = []
        for row in plan.rows:
            pairs = zip(row, types(plan), strict=True)
            exprs = [cast(self._over(e, 0), t) for e, t in pairs]
            parts.append(Project(self._domain, (*exprs, *own), schema))
        return parts[0] if len(parts) == 1 else Union(tuple(parts), schema)

    def _project(self, plan: Project) -> Plan:
        start = width(plan.input)
        exprs = [self._over(e, start) for e in plan.exprs]
        own = [column(i) for i in self._own(start)]
        return Project(self.pushed(plan.input), (*exprs, *own), plan.schema + self._schema)

    def _picked(self, plan: Plan, places: Sequence[int]) -> Plan:
        schema = tuple(plan.schema[i] for i in places)
        return Project(plan, tuple(column(i) for i in places), schema)

    def _unnest(self, plan: Unnest) -> Plan:
        below, count = self.pushed(plan.input), len(plan.kept)
        schema = (*plan.schema[:count], *self._schema, *plan.schema[count:])
        own = self._own(width(plan.input))
        made = replace(plan, input=below, kept=(*plan.kept, *own), schema=schema)
        after = range(count + self._count, len(schema))
        return self._picked(made, [*range(count), *after, *self._own(count)])

    # Joins

    def _join(self, plan: Join) -> Plan:
        if plan.left_keys:
            raise NotIncremental("a correlated subquery over a keyed join")
        if plan.kind == "right":
            return self._mirrored(plan)
        split = width(plan.left)
        if plan.kind == "inner" and not self._free(plan.left):
            terms = self._moved(plan, 0, width(plan))
            return replace(plan, right=self.pushed(plan.right), residual=conjunction(terms))
        left = self.pushed(plan.left)
        terms = self._moved(plan, self._count, split)
        both = self._free(plan.right) or plan.kind == "full"
        right = self.pushed(plan.right) if both else plan.right
        middle = split + self._count
        if both:
            again = self._own(middle + width(plan.right))
            terms += [same(a, b) for a, b in zip(self._own(split), again, strict=True)]
        joined = Join(left, right, plan.kind, residual=conjunction(terms))
        if plan.kind in ("semi", "anti"):
            return joined
        places = [*range(split), *range(middle, middle + width(plan.right)), *self._own(split)]
        return self._full(joined, places) if plan.kind == "full" else self._picked(joined, places)

    def _moved(self, plan: Join, by: int, start: int) -> list[Expr]:
        """The residual's terms with the right columns `by` further and the domain at `start`."""
        split = width(plan.left)
        terms = []
        for term in conjuncts(plan.residual):
            moved = remap(term, lambda i: i if i < split else i + by)
            terms.append(self._over(moved, start))
        return terms

    def _mirrored(self, plan: Join) -> Plan:
        left, right = width(plan.left), width(plan.right)
        residual = plan.residual
        if residual is not None:
            residual = remap(residual, lambda i: i + right if i < left else i - left)
        turned = self._join(Join(plan.right, plan.left, "left", residual=residual))
        places = [*range(right, right + left), *range(right), *self._own(left + right)]
        return self._picked(turned, places)

    def _full(self, joined: Join, places: list[int]) -> Plan:
        """Either side may be missing, and its domain columns with it."""
        kept = places[: -self._count]
        schema = tuple(joined.schema[i] for i in kept) + self._schema
        last = self._own(width(joined) - self._count)
        pairs = zip(places[-self._count :], last, strict=True)
        own = [exp.Coalesce(this=column(a), expressions=[column(b)]) for a, b in pairs]
        return Project(joined, (*[column(i) for i in kept], *own), schema)

    # Groups

    def _aggregate(self, plan: Aggregate) -> Plan:
        below, groups = self.pushed(plan.input), len(plan.groups)
        own = self._own(width(plan.input))
        calls = plan.schema[groups:]
        schema = (*plan.schema[:groups], *self._schema, *calls)
        made = Aggregate(below, (*plan.groups, *own), plan.aggregates, schema)
        if plan.groups:
            places = [*range(groups), *range(groups + self._count, len(schema)), *self._own(groups)]
            return self._picked(made, places)
        return self._for_each(made, plan)

    def _group_recompute(self, plan: GroupRecompute) -> Plan:
        start = width(plan.input)
        own = self._own(start)
        exprs = [self._over(e, start) for e in plan.exprs]
        if not plan.grouped:
            exprs = [partitioned(e, own) for e in exprs]
        below = self.pushed(plan.input)
        keys = [column(i) for i in own]
        partition = (*plan.partition, *own)
        if plan.partition or not plan.grouped:
            schema = plan.schema + self._schema
            return GroupRecompute(below, partition, (*exprs, *keys), plan.grouped, schema)
        schema = self._schema + plan.schema
        made = GroupRecompute(below, partition, (*keys, *exprs), True, schema)
        return self._for_each(made, plan)

    def _for_each(self, made: Plan, plan: Aggregate | GroupRecompute) -> Plan:
        """One row for every row of the domain; `made` has the domain's columns, then the values."""
        count = self._count
        empty = empty_values(plan, self._cursor)
        terms = [same(i, i + count) for i in range(count)]
        joined = Join(self._domain, made, "left", residual=conjunction(terms))
        values = [filled(2 * count + i, value) for i, value in enumerate(empty)]
        own = [column(i) for i in range(count)]
        return Project(joined, (*values, *own), plan.schema + self._schema)

    def _top_k(self, plan: TopK) -> Plan:
        start, count = width(plan.input), self._count
        below = self.pushed(plan.input)
        schema = below.schema + plan.schema[start:]
        partition = (*plan.partition, *self._own(start))
        made = replace(plan, input=below, partition=partition, schema=schema)
        if not plan.rank:
            return made
        return self._picked(made, [*range(start), start + count, *self._own(start)])

    def _window(self, plan: Window) -> Plan:
        start, count = width(plan.input), self._count
        below = self.pushed(plan.input)
        calls = tuple(c.mapped(lambda e: self._over(e, start)) for c in plan.calls)
        schema = below.schema + plan.schema[start:]
        partition = (*plan.partition, *self._own(start))
        made = replace(plan, input=below, partition=partition, calls=calls, schema=schema)
        return self._picked(
            made, [*range(start), *range(start + count, len(schema)), *self._own(start)]
        )

    def _recursive(self, plan: Recursive) -> Plan:
        """Every row of the recursion carries the domain's row that it is found for."""
        if not driven(plan.step, plan.depth):
            raise NotIncremental("a correlated recursive query whose step has rows of its own")
        base = self.pushed(plan.base)
        self._depths.add(plan.depth)
        step = self.pushed(plan.step)
        self._depths.remove(plan.depth)
        return replace(plan, base=base, step=step, schema=plan.schema + self._schema)


def driven(plan: Plan, depth: int) -> bool:
    """Whether the plan has no rows where the recursive query of that depth has no last rows."""
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
    match plan.kind:
        case "inner" | "semi":
            return left or right
        case "left" | "anti":
            return left
        case "right":
            return right
        case _:
            return left and right

"""Conditions on a nested query's parameters, pulled up to where its rows meet the query around.

Law: for all values p of the parameters, the query's rows are the rows of `plan` where all terms
hold for p. A node that groups, ranks or tells rows apart lets only equalities `column = parameter`
pass, and the column joins its keys: each group then belongs to one value. So the join with the
query around needs no domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.plan.expressions import (
    cast,
    column,
    compared,
    conjunction,
    conjuncts,
    position,
    remap,
    used,
)
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Expr,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    SetOp,
    TopK,
    Union,
    Unnest,
    Window,
    types,
    width,
)
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import comparison_type
from ivm.sql.rewrite.split_keys import equality_sides
from ivm.sql.subqueries.parameters import is_free, parameter_of, parameters


@dataclass(frozen=True)
class LiftedConditions:
    """A query without its parameters.

    Attributes:
        plan: the query's columns, then what else the terms read.
        terms: over the plan's columns and the parameters.
    """

    plan: Plan
    terms: list[Expr]


@dataclass(frozen=True)
class _Keyed:
    """A query whose terms are all equalities: with `expr` on its side and `value` on the other."""

    plan: Plan
    keys: list[int]
    terms: list[tuple[Expr, type[exp.Binary]]]

    def lifted(self, plan: Plan, start: int) -> LiftedConditions:
        """The terms over the keys that begin at column `start` of the plan."""
        made = [
            compared(kind, column(start + i), value) for i, (value, kind) in enumerate(self.terms)
        ]
        return LiftedConditions(plan, made)


class ConditionLift:
    """Lifts the terms of one nested query.

    Args:
        query: its number.
        existence: only whether there is a row counts, not how many times.
    """

    def __init__(self, query: int, context: Context, existence: bool = False) -> None:
        self._query = query
        self._context = context
        self._existence = existence

    def lifted(self, plan: Plan) -> LiftedConditions | None:
        """The query with its terms; None if some parameter is used otherwise."""
        if not self._free(plan):
            return LiftedConditions(plan, [])
        match plan:
            case Filter():
                return self._filter(plan)
            case Project():
                return self._project(plan)
            case Join():
                return self._join(plan)
            case Aggregate() if plan.groups:
                return self._aggregate(plan)
            case GroupRecompute() if plan.partition or not plan.grouped:
                return self._group_recompute(plan)
            case Distinct():
                return self._distinct(plan)
            case TopK():
                return self._top_k(plan)
            case Window():
                return self._window(plan)
            case Unnest():
                return self._unnest(plan)
            case Union() | SetOp():
                return self._sides(plan)
            case _:
                return None

    def keyed(self, plan: Plan) -> _Keyed | None:
        """The query's columns, then one key for each term; None if not all are equalities."""
        below = ConditionLift(self._query, self._context).lifted(plan)
        keys = None if below is None else [self._key(t, below.plan) for t in below.terms]
        if below is None or keys is None:
            return None
        found = [key for key in keys if key is not None]
        if len(found) < len(keys):
            return None
        start = width(plan)
        exprs = [*[column(i) for i in range(start)], *[expr for expr, _, _ in found]]
        whole = self._context.project(below.plan, exprs)
        terms = [(value, kind) for _, value, kind in found]
        return _Keyed(whole, list(range(start, start + len(found))), terms)

    def fixed(self, lifted: LiftedConditions) -> set[int]:
        """The columns that have one value where all terms hold."""
        keys = [self._key(term, lifted.plan) for term in lifted.terms]
        found = [position(key[0]) for key in keys if key is not None]
        return {place for place in found if place is not None}

    def _free(self, plan: Plan) -> bool:
        return is_free(plan, self._query)

    def _names(self, expr: Expr) -> bool:
        return bool(parameters(expr, self._query))

    def _key(self, term: Expr, plan: Plan) -> tuple[Expr, Expr, type[exp.Binary]] | None:
        """An equality's column side in the type compared in, and its parameter side."""
        sides = equality_sides(term)
        if sides is None:
            return None
        own, value = sides if self._names(sides[1]) else (sides[1], sides[0])
        bare = value.this.unnest() if isinstance(value, exp.Cast) else value
        if parameter_of(bare, self._query) is None or self._names(own) or not used(own):
            return None
        inside, outside = self._context.types([own, value], plan)
        if inside.is_string != outside.is_string:
            return None
        wanted = comparison_type(self._context.cursor, inside, outside)
        if wanted is None:
            return None
        own = own if inside == wanted else cast(own, wanted)
        value = value if outside == wanted else cast(value, wanted)
        safe = isinstance(term.unnest(), exp.NullSafeEQ)
        return own, value, exp.NullSafeEQ if safe else exp.EQ

    # Nodes that keep rows apart as they are

    def _filter(self, plan: Filter) -> LiftedConditions | None:
        below = self.lifted(plan.input)
        if below is None:
            return None
        terms = conjuncts(plan.predicate)
        mine = [t for t in terms if self._names(t)]
        rest = conjunction([t for t in terms if not self._names(t)])
        kept = below.plan if rest is None else Filter(below.plan, rest)
        return LiftedConditions(kept, below.terms + mine)

    def _project(self, plan: Project) -> LiftedConditions | None:
        if any(self._names(e) for e in plan.exprs):
            return None
        below = self.lifted(plan.input)
        if below is None:
            return None
        exprs = list(plan.exprs)
        places: dict[int, int] = {}
        for i in sorted({i for term in below.terms for i in used(term)}):
            places[i] = len(exprs)
            exprs.append(column(i))
        extra = tuple(below.plan.schema[i] for i in places)
        made = Project(below.plan, tuple(exprs), plan.schema + extra)
        return LiftedConditions(made, [remap(t, places.__getitem__) for t in below.terms])

    def _join(self, plan: Join) -> LiftedConditions | None:
        depends = self._free(plan.right) or (
            plan.residual is not None and self._names(plan.residual)
        )
        kind = "inner" if self._existence and depends and plan.kind == "semi" else plan.kind
        one_sided = kind in ("left", "semi", "anti")
        if plan.left_keys or kind in ("right", "full") or (one_sided and depends):
            return None
        left = self.lifted(plan.left)
        right = self.lifted(plan.right)
        if left is None or right is None:
            return None
        split, by = width(plan.left), width(left.plan)

        def moved(i: int) -> int:
            return i if i < split else i - split + by

        terms = [remap(t, moved) for t in conjuncts(plan.residual)]
        rest = conjunction([t for t in terms if not self._names(t)])
        joined = Join(left.plan, right.plan, kind, residual=rest)
        right_terms = [remap(t, lambda i: i + by) for t in right.terms]
        mine = [*left.terms, *right_terms, *[t for t in terms if self._names(t)]]
        if kind in ("semi", "anti"):
            return LiftedConditions(joined, mine)
        return self._fronted(LiftedConditions(joined, mine), [moved(i) for i in range(width(plan))])

    def _fronted(self, lifted: LiftedConditions, front: list[int]) -> LiftedConditions:
        """The given columns first, then those that the terms read."""
        order = [*front, *sorted({i for t in lifted.terms for i in used(t)} - set(front))]
        places = {old: new for new, old in enumerate(order)}
        plan = self._context.narrow(lifted.plan, order)
        return LiftedConditions(plan, [remap(t, places.__getitem__) for t in lifted.terms])

    def _unnest(self, plan: Unnest) -> LiftedConditions | None:
        below = self.lifted(plan.input)
        if below is None:
            return None
        extra = sorted({i for term in below.terms for i in used(term)})
        count = len(plan.kept)
        added = tuple(below.plan.schema[i] for i in extra)
        schema = (*plan.schema[:count], *added, *plan.schema[count:])
        made = replace(plan, input=below.plan, kept=(*plan.kept, *extra), schema=schema)
        places = {old: count + i for i, old in enumerate(extra)}
        terms = [remap(term, places.__getitem__) for term in below.terms]
        after = range(count + len(extra), len(schema))
        return self._fronted(LiftedConditions(made, terms), [*range(count), *after])

    # Nodes that group rows, rank them, or tell them apart

    def _aggregate(self, plan: Aggregate) -> LiftedConditions | None:
        below = self.keyed(plan.input)
        if below is None:
            return None
        count = len(plan.groups)
        keys = tuple(below.plan.schema[i] for i in below.keys)
        schema = (*plan.schema[:count], *keys, *plan.schema[count:])
        made = Aggregate(below.plan, (*plan.groups, *below.keys), plan.aggregates, schema)
        moved = [*range(count), *range(count + len(keys), len(schema))]
        order = [*moved, *range(count, count + len(keys))]
        return below.lifted(self._context.narrow(made, order), width(plan))

    def _group_recompute(self, plan: GroupRecompute) -> LiftedConditions | None:
        if any(self._names(e) for e in plan.exprs):
            return None
        below = self.keyed(plan.input)
        if below is None:
            return None
        keys = [column(i) for i in below.keys]
        exprs = list(plan.exprs)
        if not plan.grouped:
            exprs = [partitioned(e, below.keys) for e in exprs]
        schema = plan.schema + tuple(below.plan.schema[i] for i in below.keys)
        partition = (*plan.partition, *below.keys)
        made = GroupRecompute(below.plan, partition, (*exprs, *keys), plan.grouped, schema)
        return below.lifted(made, width(plan))

    def _distinct(self, plan: Distinct) -> LiftedConditions | None:
        if self._existence:
            return self.lifted(plan.input)
        below = self.keyed(plan.input)
        return None if below is None else below.lifted(Distinct(below.plan), width(plan))

    def _top_k(self, plan: TopK) -> LiftedConditions | None:
        below = self.keyed(plan.input)
        if below is None:
            return None
        start, count = width(plan.input), len(below.keys)
        schema = below.plan.schema + plan.schema[start:]
        partition = (*plan.partition, *below.keys)
        made: Plan = replace(plan, input=below.plan, partition=partition, schema=schema)
        if plan.rank:
            order = [*range(start), start + count, *range(start, start + count)]
            made = self._context.narrow(made, order)
        return below.lifted(made, width(plan))

    def _window(self, plan: Window) -> LiftedConditions | None:
        below = self.keyed(plan.input)
        if below is None or any(self._names(e) for c in plan.calls for e in c.expressions()):
            return None
        start, count = width(plan.input), len(below.keys)
        schema = below.plan.schema + plan.schema[start:]
        partition = (*plan.partition, *below.keys)
        made = replace(plan, input=below.plan, partition=partition, schema=schema)
        order = [*range(start), *range(start + count, len(schema)), *range(start, start + count)]
        return below.lifted(self._context.narrow(made, order), width(plan))

    def _sides(self, plan: Union | SetOp) -> LiftedConditions | None:
        """Every input must have the same terms over keys of the same types."""
        parts = plan.inputs if isinstance(plan, Union) else (plan.left, plan.right)
        found = [self.keyed(part) for part in parts]
        sides = [side for side in found if side is not None]
        if len(sides) < len(found) or len({_signature(side) for side in sides}) > 1:
            return None
        plans = [side.plan for side in sides]
        schema = plan.schema + plans[0].schema[width(plan) :]
        if isinstance(plan, Union):
            return sides[0].lifted(replace(plan, inputs=tuple(plans), schema=schema), width(plan))
        made = replace(plan, left=plans[0], right=plans[1], schema=schema)
        return sides[0].lifted(made, width(plan))


def _signature(side: _Keyed) -> tuple[object, ...]:
    """Equal for inputs whose keys mean the same."""
    terms = [(value.sql("duckdb"), kind) for value, kind in side.terms]
    return (types(side.plan)[side.keys[0] :] if side.keys else (), *terms)


def partitioned(expr: Expr, columns: Sequence[int]) -> Expr:
    """The expression with every window in it divided by further columns."""
    whole = expr.copy()
    for window in whole.find_all(exp.Window):
        parts = list(window.args.get("partition_by") or [])
        window.set("partition_by", [*parts, *[column(i) for i in columns]])
    return whole

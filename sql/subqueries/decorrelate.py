"""Dependent joins, of a plan with a nested query that reads its columns, turned into plain joins.

Law: with args the parameters' values in a row of L, the dependent join pairs each row l of L with
the rows of Q(args(l)). Where Q reads its parameters only in conditions that can be pulled up, it is
the join on these; elsewhere Q is computed over the domain of all args(l), and joined back on it,
NULLs being equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, conjunction, index_of, remap, used
from ivm.sql.plan.expressions import replace as substitute
from ivm.sql.plan.nodes import (
    Distinct,
    Join,
    JoinKind,
    Plan,
    Project,
    Values,
    types,
    width,
)
from ivm.sql.resolve.context import Context
from ivm.sql.rewrite.carry_columns import without_groups
from ivm.sql.subqueries.empty_groups import empty_values, filled, refuse_lost_rows
from ivm.sql.subqueries.lift_conditions import ConditionLift, LiftedConditions
from ivm.sql.subqueries.parameters import is_free, parameter, substituted
from ivm.sql.subqueries.push_domain import DomainPush


@dataclass(frozen=True)
class Dependent:
    """A nested query, with arguments for its correlation parameters.

    Attributes:
        query: its number.
        plan: its rows.
        arguments: for each parameter, an expression over the plan it is joined with.
    """

    query: int
    plan: Plan
    arguments: Sequence[exp.Expr]

    @property
    def free(self) -> bool:
        """Returns whether the plan reads a parameter."""
        return is_free(self.plan, self.query)

    def over(self, plan: Plan) -> Dependent:
        """The query with another plan over the same parameters."""
        return replace(self, plan=plan)


def dependent(
    query: int, plan: Plan, arguments: Sequence[exp.Expr], context: Context, *, as_rows: bool
) -> Dependent:
    """A nested query as it was bound; for `as_rows` see `refuse_lost_rows`.

    Raises:
        NotIncremental: DuckDB's answer would not be that of the plan.
    """
    refuse_lost_rows(plan, query, context.cursor, as_rows=as_rows)
    return Dependent(query, plan, arguments)


def joined(
    left: Plan, right: Dependent, kind: JoinKind, on: Sequence[exp.Expr], context: Context
) -> Plan:
    """The dependent join, with the columns of both sides (semi and anti: of the left one).

    Args:
        kind: ``inner``, ``left``, ``semi`` or ``anti``.
        on: further conditions over the columns of both sides.
    """
    one_sided = kind in ("semi", "anti")
    found = _related(left, right, context, existence=one_sided)
    terms = _terms(left, right, found)
    whole = Join(left, found.plan, kind, residual=conjunction([*terms, *on]))
    if one_sided:
        return whole
    return context.narrow(whole, list(range(width(left) + width(right.plan))))


def _related(left: Plan, right: Dependent, context: Context, existence: bool) -> LiftedConditions:
    found = ConditionLift(right.query, context, existence).lifted(right.plan)
    return _over_domain(left, right, context) if found is None else found


def _over_domain(left: Plan, right: Dependent, context: Context) -> LiftedConditions:
    base = _narrowest(left, right.arguments, context)
    domain = Distinct(context.project(base, list(right.arguments)))
    plan = DomainPush(right.query, domain, context.cursor).over(right.plan)
    start = width(right.plan)
    images = _parameters(right, domain)
    terms: list[exp.Expr] = [
        exp.NullSafeEQ(this=image, expression=column(start + i)) for i, image in enumerate(images)
    ]
    return LiftedConditions(plan, terms)


def _narrowest(left: Plan, arguments: Sequence[exp.Expr], context: Context) -> Plan:
    """The plan before values of nested queries were joined to it, as far as none of them is read.

    The domain is the same, and the plan smaller: it stands both in the domain and in the join, so
    k nested queries one after the other would give a plan of size 2ᵏ.
    """
    count = 1 + max((i for e in arguments for i in used(e)), default=-1)
    while (found := context.widened.get(id(left))) is not None and count <= width(found[1]):
        left = found[1]
    return left


def _parameters(right: Dependent, domain: Plan) -> list[exp.Expr]:
    return [parameter(right.query, i, t) for i, t in enumerate(types(domain))]


def _terms(left: Plan, right: Dependent, found: LiftedConditions) -> list[exp.Expr]:
    """The terms over the columns of both sides, with the arguments for the parameters."""
    by = width(left)
    images = dict(enumerate(right.arguments))
    moved = [remap(term, lambda i: i + by) for term in found.terms]
    return [substituted(term, right.query, images) for term in moved]


def with_row(left: Plan, right: Dependent, context: Context) -> Plan:
    """The left rows, each with the row of a nested query that has exactly one.

    Projections on top of that are computed after the join, so an expression in them fails only for
    left rows that exist.
    """
    projects: list[Project] = []
    plan = right.plan
    while isinstance(plan, Project):
        projects.append(plan)
        plan = plan.input
    whole = _joined_row(left, right.over(plan), context)
    before, images = width(left), dict(enumerate(right.arguments))
    for project in reversed(projects):
        moved = [remap(e, lambda i: i + before) for e in project.exprs]
        exprs = [substituted(e, right.query, images) for e in moved]
        whole = context.project(whole, [*[column(i) for i in range(before)], *exprs])
    context.widened[id(whole)] = (whole, left)  # holds the plan, so that its id is not used again
    return whole


def _joined_row(left: Plan, right: Dependent, context: Context) -> Plan:
    if isinstance(right.plan, Values) and len(right.plan.rows) == 1:
        return _with_constants(left, right, right.plan, context)
    if not right.free:
        return Join(left, right.plan, "inner")
    found = _groups(right, context)
    if found is None:
        return joined(left, right, "inner", [], context)
    lifted, empty = found
    terms = conjunction(_terms(left, right, lifted))
    whole = Join(left, lifted.plan, "left", residual=terms)
    by = width(left)
    values = [filled(by + i, value) for i, value in enumerate(empty)]
    return context.project(whole, [*[column(i) for i in range(by)], *values])


def _with_constants(left: Plan, right: Dependent, row: Values, context: Context) -> Plan:
    """The left rows with the row of a SELECT without FROM, which takes no join."""
    images = dict(enumerate(right.arguments))
    pairs = zip(row.rows[0], types(row), strict=True)
    values = [cast(substituted(e, right.query, images), t) for e, t in pairs]
    return context.project(left, [*[column(i) for i in range(width(left))], *values])


def _groups(right: Dependent, context: Context) -> tuple[LiftedConditions, list[exp.Expr]] | None:
    """Groups an aggregate without groups by its parameters; None if it cannot be grouped.

    A DISTINCT over a projection on top stays there: it changes no content, but stops changes of
    the aggregate that the projection does not show.

    Returns:
        The query, and its row for values of the parameters that have no group.
    """
    plan, shown = right.plan, None
    if isinstance(plan, Distinct) and isinstance(plan.input, Project):
        shown, plan = plan.input, plan.input.input
    if not without_groups(plan):
        return None
    lift = ConditionLift(right.query, context)
    found = lift.grouped(plan)
    if found is None:
        return None
    empty = empty_values(plan, context.cursor)
    if shown is None:
        return found, empty
    found = lift.carried(shown, found)
    if found is None:
        return None
    values = [substitute(e, lambda node: empty[index_of(node)]) for e in shown.exprs]
    return replace(found, plan=Distinct(found.plan)), values

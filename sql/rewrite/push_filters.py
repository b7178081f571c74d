"""Filters move down to the inputs of their columns; joins take their keys from them.

Law: σp(e) has the rows of e where p is true. p commutes with a projection it can be written over,
with the side of an inner join whose columns it uses alone, with UNION ALL, with the base of a
recursive query if its step passes the columns unchanged, and with any grouping if it is a function
of the group. Some predicates distinguish values that are equal but differ in representation (0.0
and -0.0, '1 month' and '30 days'), so filters over such columns do not pass a grouping.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import cast, conjunction, index_of, position, remap, used
from ivm.sql.plan.expressions import replace as substitute
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    DynamicLimit,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Recursive,
    SetOp,
    TopK,
    Union,
    Unnest,
    Window,
    filtered_by,
    types,
    width,
)
from ivm.sql.rewrite.bound_ranks import bound_ranks, bound_window
from ivm.sql.rewrite.factor_disjunctions import factored_conjuncts
from ivm.sql.rewrite.invariant_columns import invariant_columns
from ivm.sql.rewrite.order_joins import order_joins
from ivm.sql.rewrite.reject_nulls import rejects_nulls
from ivm.sql.rewrite.split_keys import split_keys
from ivm.sql.rewrite.transfer_conditions import is_table, transferred
from ivm.storage.values.types import ColumnType

Terms = list[exp.Expr]
_Grouping = Distinct | Aggregate | GroupRecompute | TopK | Window | Unnest


def push_filters(plan: Plan) -> Plan:
    """The plan with every filter pushed down as far as the law allows."""
    return _push(plan, [])


def _push(plan: Plan, terms: Terms) -> Plan:
    """The rows of `plan` where all terms hold; terms that cannot move into it stay above it."""
    match plan:
        case Filter():
            return _push(plan.input, factored_conjuncts(plan.predicate) + terms)
        case Project():
            moved = [substitute(t, image_of(plan)) for t in terms]
            return replace(plan, input=_push(plan.input, moved))
        case Join(kind="inner"):
            return order_joins(plan, terms, _push)
        case Join():
            return _push_outer(plan, terms)
        case Union():
            return replace(plan, inputs=tuple(_push(part, terms) for part in plan.inputs))
        case SetOp():
            sides = replace(plan, left=_push(plan.left, []), right=_push(plan.right, []))
            return filtered_by(sides, terms)
        case DynamicLimit():
            below, bounds = _push(plan.input, []), _push(plan.bounds, [])
            return filtered_by(replace(plan, input=below, bounds=bounds), terms)
        case Recursive():
            return _push_recursive(plan, terms)
        case Distinct() | Aggregate() | GroupRecompute() | TopK() | Window() | Unnest():
            return _push_grouped(plan, terms)
        case _:
            return filtered_by(plan, terms)


def image_of(project: Project) -> Callable[[exp.Column], exp.Expr]:
    """Maps a projection's columns to their expressions, cast so that a literal keeps its type."""

    def image(node: exp.Column) -> exp.Expr:
        index = index_of(node)
        expr = project.exprs[index]
        return expr if position(expr) is not None else cast(expr, project.schema[index][1])

    return image


def _push_outer(plan: Join, terms: Terms) -> Plan:
    """Passes terms over the preserved side, and conditions that only choose partners."""
    split = width(plan.left)
    if plan.kind == "left" and any(rejects_nulls(term, split) for term in terms):
        return order_joins(replace(plan, kind="inner"), terms, _push)
    left: Terms = []
    right: Terms = []
    if plan.kind != "full":
        left, terms = _take(terms, 0, split)
        conditions = factored_conjuncts(plan.residual)
        further = _of_partners(plan, left + conditions)
        right, conditions = _take(conditions, split, width(plan.left) + width(plan.right))
        right += further
        if plan.kind == "semi":
            own, conditions = _take(conditions, 0, split)
            left += own
        plan = replace(plan, residual=conjunction(conditions))
    right = [remap(term, lambda i: i - split) for term in right]
    sides = replace(plan, left=_push(plan.left, left), right=_push(plan.right, right))
    return filtered_by(split_keys(sides), terms)


def _of_partners(plan: Join, terms: Terms) -> Terms:
    """Conditions on the right side alone that follow from terms that hold of every pair."""
    if is_table(plan.right):
        return []
    split = width(plan.left)
    columns = dict(enumerate([*types(plan.left), *types(plan.right)]))
    return [t for t in transferred(terms, columns) if min(used(t)) >= split]


def _take(terms: Terms, start: int, stop: int) -> tuple[Terms, Terms]:
    """The terms over columns start … stop - 1 alone, and the others."""
    inside = range(start, stop)
    taken = [t for t in terms if (columns := used(t)) and all(i in inside for i in columns)]
    return taken, [t for t in terms if t not in taken]


def _push_grouped(plan: _Grouping, terms: Terms) -> Plan:
    if isinstance(plan, Window):
        plan, terms = bound_window(plan, terms)
    if isinstance(plan, TopK):
        plan, terms = bound_ranks(plan, terms)
    below, above = _passing(terms, _group_columns(plan))
    return filtered_by(replace(plan, input=_push(plan.input, below)), above)


def _push_recursive(plan: Recursive, terms: Terms) -> Plan:
    below, above = _passing(terms, _exact({i: i for i in invariant_columns(plan)}, plan))
    whole = replace(plan, base=_push(plan.base, below), step=_push(plan.step, []))
    return filtered_by(whole, above)


def _passing(terms: Terms, columns: Mapping[int, int]) -> tuple[Terms, Terms]:
    """The terms over the mapped columns alone, remapped to the input, and the other terms."""
    passing = [t for t in terms if (read := used(t)) and read <= columns.keys()]
    moved = [remap(term, columns.__getitem__) for term in passing]
    return moved, [t for t in terms if t not in passing]


def _group_columns(plan: _Grouping) -> Mapping[int, int]:
    """Maps output to input positions of columns that are equal in all rows of a group.

    Of an unnest, a group is the rows that one input row gives.
    """
    (own,) = origins(plan)
    if isinstance(plan, Unnest):
        return own
    if not isinstance(plan, Distinct | Aggregate):
        own = {i: source for i, source in own.items() if source in plan.partition}
    return _exact(own, plan.input)


def _exact(columns: Mapping[int, int], below: Plan) -> Mapping[int, int]:
    """The columns whose equal values have one representation."""
    given = types(below)
    return {i: source for i, source in columns.items() if _is_exact(given[source])}


def _is_exact(type: ColumnType) -> bool:
    return not (type.is_float or type.sql == "INTERVAL" or _is_nested(type))


def _is_nested(type: ColumnType) -> bool:
    return type.base in ("LIST", "STRUCT", "MAP", "UNION")

"""Nested queries put to the plan that their calls stand over.

Law: a condition of WHERE that is an EXISTS, an IN, or NOT one of them only chooses rows: it is a
semi or anti join. Everywhere else the nested query's value becomes a column: true, false or NULL by
SQL's rule (`x IN Q` is true if a row equals x; else NULL if x or a value of Q is NULL and Q is not
empty; else false), or the value of its one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, compared, conjunction, conjuncts, structure
from ivm.sql.plan.nodes import Filter, Plan, width
from ivm.sql.resolve.context import Context
from ivm.sql.subqueries.decorrelate import Dependent, dependent, joined, with_row
from ivm.sql.subqueries.parameters import SubqueryReference, call_of, calls, parameter
from ivm.sql.subqueries.single_row import (
    checked_row,
    extremes,
    is_at_most_one,
    is_one_row,
    only_row,
    presence,
    rows_only,
)
from ivm.storage.values.types import type_of


def attached(
    plan: Plan, exprs: Sequence[exp.Expr], context: Context
) -> tuple[Plan, list[exp.Expr]]:
    """The plan with a column more for every call, and the expressions reading them."""
    exprs = [e.copy() for e in exprs]
    while True:
        found = [node for e in exprs for node in calls(e)]
        if not found:
            return plan, list(exprs)
        call = call_of(found[0])
        assert call is not None
        plan, value = _valued(plan, call, context)
        exprs = [_replaced(e, structure(found[0]), value) for e in exprs]


def _replaced(expr: exp.Expr, key: object, value: exp.Expr) -> exp.Expr:
    def swap(node: exp.Expr) -> exp.Expr:
        same = call_of(node) is not None and structure(node) == key
        return exp.Paren(this=value.copy()) if same else node

    return expr.transform(swap, copy=False)


def filtered(plan: Plan, predicate: exp.Expr, context: Context) -> Plan:
    """The rows where a condition holds that may hold calls; plain conditions are tested first."""
    terms = conjuncts(predicate)
    plain = conjunction([t for t in terms if not calls(t)])
    before = width(plan)
    plan = plan if plain is None else Filter(plan, plain)
    for term in (t for t in terms if calls(t)):
        plan = context.narrow(_chosen(plan, term, context), list(range(before)))
    return plan


# Conditions that only choose rows


def _chosen(plan: Plan, term: exp.Expr, context: Context) -> Plan:
    node, negated = term.unnest(), False
    while isinstance(node, exp.Not):
        node, negated = node.this.unnest(), not negated
    call = call_of(node)
    nested = None if call is None else context.nested[call.number]
    if call is None or nested is None or nested.scalar or nested.comparison not in (None, exp.EQ):
        plan, (whole,) = attached(plan, [term], context)
        return Filter(plan, whole)
    plan, arguments = attached(plan, call.arguments, context)
    operands, own = arguments[: nested.operands], arguments[nested.operands :]
    right = dependent(call.number, nested.plan, own, context, kept=True)
    if nested.comparison is None:
        return _with_partner(plan, right, negated, context)
    pairs: list[exp.Expr] = [
        exp.EQ(this=_parenthesised(operand), expression=column(width(plan) + i))
        for i, operand in enumerate(operands)
    ]
    if not negated:
        return joined(plan, right, "semi", pairs, context)
    return _without_equal(plan, right, operands, pairs, context)


def _with_partner(plan: Plan, right: Dependent, negated: bool, context: Context) -> Plan:
    """EXISTS or NOT EXISTS."""
    right = right.over(rows_only(right.plan))
    if right.free:
        return joined(plan, right, "anti" if negated else "semi", [], context)
    marked = with_row(plan, right.over(presence(right.plan, context)), context)
    mark = column(width(plan))
    return Filter(marked, exp.Not(this=mark) if negated else mark)


def _without_equal(
    plan: Plan, right: Dependent, operands: list[exp.Expr], pairs: list[exp.Expr], context: Context
) -> Plan:
    """NOT IN: no row is equal, and none could be if its NULLs were known."""
    if len(operands) > 1:
        equal = conjunction(pairs)
        possible = exp.Not(this=exp.Is(this=exp.Paren(this=equal), expression=exp.false()))
        return joined(plan, right, "anti", [possible], context)
    marked = with_row(plan, right.over(extremes(right.plan, [], context)), context)
    some, unknown = column(width(plan)), column(width(plan) + 1)
    known = exp.And(this=_is_null(operands[0], negated=True), expression=exp.Not(this=unknown))
    sure = exp.Or(this=exp.Not(this=some), expression=exp.Paren(this=known))
    certain = context.narrow(Filter(marked, sure), list(range(width(plan))))
    return joined(certain, right, "anti", pairs, context)


# Values


def _valued(plan: Plan, call: SubqueryReference, context: Context) -> tuple[Plan, exp.Expr]:
    """The plan with further columns, and the call's value over it."""
    nested = context.nested[call.number]
    operands, own = call.arguments[: nested.operands], call.arguments[nested.operands :]
    right = dependent(call.number, nested.plan, own, context, kept=not nested.scalar)
    if nested.scalar:
        return _scalar(plan, right, context), column(width(plan))
    if nested.comparison is None:
        return _present(plan, right, context)
    if nested.comparison is exp.EQ:
        return _equal_any(plan, right, operands, context)
    return _ordered_any(plan, right, operands[0], nested.comparison, context)


def _scalar(plan: Plan, right: Dependent, context: Context) -> Plan:
    if is_one_row(right.plan):
        return with_row(plan, right, context)
    if not is_at_most_one(right.query, right.plan, context):
        return with_row(plan, right.over(checked_row(right.plan, context)), context)
    if right.free:
        return joined(plan, right, "left", [], context)
    return with_row(plan, right.over(only_row(right.plan, context)), context)


def _present(plan: Plan, right: Dependent, context: Context) -> tuple[Plan, exp.Expr]:
    row = right.over(presence(right.plan, context))
    return with_row(plan, row, context), column(width(plan))


def _equal_any(
    plan: Plan, right: Dependent, operands: Sequence[exp.Expr], context: Context
) -> tuple[Plan, exp.Expr]:
    kinds = context.types(list(operands), plan)
    count = len(right.arguments)
    equal = conjunction(
        exp.EQ(this=column(i), expression=parameter(right.query, count + i, kind))
        for i, kind in enumerate(kinds)
    )
    assert equal is not None
    wide = Dependent(right.query, right.plan, [*right.arguments, *operands])
    found, mark = _present(plan, wide.over(Filter(right.plan, equal)), context)
    if len(operands) > 1:
        open = exp.Is(this=exp.Paren(this=equal), expression=exp.Null())
        found, unknown = _present(found, wide.over(Filter(right.plan, open)), context)
        return found, _three_valued(mark, unknown)
    start = width(found)
    found = with_row(found, right.over(extremes(right.plan, [], context)), context)
    either = exp.Or(this=_is_null(operands[0]), expression=column(start + 1))
    unknown = exp.And(this=column(start), expression=exp.Paren(this=either))
    return found, _three_valued(mark, unknown)


_FUNCTIONS: dict[type[exp.Binary], tuple[str, ...]] = {
    exp.LT: ("max",),
    exp.LTE: ("max",),
    exp.GT: ("min",),
    exp.GTE: ("min",),
    exp.NEQ: ("min", "max"),
}


def _ordered_any(
    plan: Plan,
    right: Dependent,
    operand: exp.Expr,
    comparison: type[exp.Binary],
    context: Context,
) -> tuple[Plan, exp.Expr]:
    """Some row is less if the greatest is; some row differs if the least or the greatest does."""
    functions, start = _FUNCTIONS[comparison], width(plan)
    found = with_row(plan, right.over(extremes(right.plan, functions, context)), context)
    tests = [compared(comparison, operand, column(start + 2 + i)) for i in range(len(functions))]
    mark = tests[0] if len(tests) == 1 else exp.Or(this=tests[0], expression=tests[1])
    either = exp.Or(this=_is_null(operand), expression=column(start + 1))
    unknown = exp.And(this=column(start), expression=exp.Paren(this=either))
    return found, _three_valued(mark, unknown)


def _three_valued(mark: exp.Expr, unknown: exp.Expr) -> exp.Expr:
    null = cast(exp.Null(), type_of("BOOLEAN"))
    tests = [exp.If(this=mark, true=exp.true()), exp.If(this=unknown, true=null)]
    return exp.Case(ifs=tests, default=exp.false())


def _is_null(expr: exp.Expr, negated: bool = False) -> exp.Expr:
    test = exp.Is(this=_parenthesised(expr), expression=exp.Null())
    return exp.Not(this=test) if negated else test


def _parenthesised(expr: exp.Expr) -> exp.Expr:
    return exp.Paren(this=expr.copy())

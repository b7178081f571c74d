"""Subquery references replaced by the values of their queries, which are joined to the plan.

Law: a condition of WHERE that is an EXISTS, an IN, or NOT one of them only chooses rows: it is a
semi or anti join. Everywhere else the nested query's value becomes a column: true, false or NULL by
SQL's rule (`x IN Q` is true if a row equals x; else NULL if x or a value of Q is NULL and Q is not
empty; else false), or the value of its one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, compared, conjunction, conjuncts, structure
from ivm.sql.plan.nodes import Filter, Plan, filtered_by, types, width
from ivm.sql.resolve.context import Context, Nested
from ivm.sql.subqueries.compared_types import check_casts, shortened
from ivm.sql.subqueries.decorrelate import Dependent, dependent, joined, with_row
from ivm.sql.subqueries.parameters import SubqueryReference, parameter, reference_of, references
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
    """Joins the value of every reference to the plan, as a column behind its own.

    Returns:
        The plan, and the expressions with these columns for their references.
    """
    exprs = [e.copy() for e in exprs]
    while True:
        found = [node for e in exprs for node in references(e)]
        if not found:
            return plan, list(exprs)
        reference = reference_of(found[0])
        assert reference is not None
        plan, value = _valued(plan, reference, context)
        exprs = [_replaced(e, structure(found[0]), value) for e in exprs]


def _replaced(expr: exp.Expr, key: object, value: exp.Expr) -> exp.Expr:
    def swap(node: exp.Expr) -> exp.Expr:
        same = reference_of(node) is not None and structure(node) == key
        return exp.Paren(this=value.copy()) if same else node

    return expr.transform(swap, copy=False)


def filtered(plan: Plan, predicate: exp.Expr, context: Context) -> Plan:
    """Filters the plan by a condition; its terms with references are tested last."""
    terms = conjuncts(predicate)
    before = width(plan)
    plan = filtered_by(plan, [t for t in terms if not references(t)])
    for term in (t for t in terms if references(t)):
        plan = context.narrow(_chosen(plan, term, context), list(range(before)))
    return plan


# Conditions that only choose rows


def _chosen(plan: Plan, term: exp.Expr, context: Context) -> Plan:
    node, negated = term.unnest(), False
    while isinstance(node, exp.Not):
        node, negated = node.this.unnest(), not negated
    reference = reference_of(node)
    nested = None if reference is None else context.nested[reference.number]
    of_rows = nested is not None and not nested.scalar and nested.comparison in (None, exp.EQ)
    if reference is None or nested is None or not of_rows:
        plan, (condition,) = attached(plan, [term], context)
        return Filter(plan, condition)
    plan, arguments = attached(plan, reference.arguments, context)
    own = arguments[nested.operands :]
    operands, query = _alike(arguments[: nested.operands], plan, nested, context)
    right = dependent(reference.number, query, own, context, as_rows=True)
    if nested.comparison is None:
        return _with_partner(plan, right, negated, context)
    pairs: list[exp.Expr] = [
        exp.EQ(this=_parenthesised(operand), expression=column(width(plan) + i))
        for i, operand in enumerate(operands)
    ]
    if not negated:
        return joined(plan, right, "semi", pairs, context)
    return _without_equal(plan, right, operands, pairs, context)


def _alike(
    operands: Sequence[exp.Expr], plan: Plan, nested: Nested, context: Context
) -> tuple[Sequence[exp.Expr], Plan]:
    """The operands and the query in the types in which DuckDB compares them.

    Decimals with too many digits in all lose some behind the point there; `=` keeps them.

    Raises:
        NotIncremental: no operator compares them as DuckDB does.
    """
    if not operands:
        return operands, nested.plan
    found = types(nested.plan)
    pairs = list(zip(context.types(list(operands), plan), found, strict=True))
    for pair in pairs:
        check_casts(*pair)
    short = [shortened(*pair) for pair in pairs]
    cut = [e if t is None else cast(e, t) for e, t in zip(operands, short, strict=True)]
    wanted = [own if t is None else t for own, t in zip(found, short, strict=True)]
    return cut, context.cast(nested.plan, wanted)


def _with_partner(plan: Plan, right: Dependent, negated: bool, context: Context) -> Plan:
    """The rows for which the nested query has a row: EXISTS, or NOT EXISTS if negated."""
    right = right.over(rows_only(right.plan))
    if right.free:
        return joined(plan, right, "anti" if negated else "semi", [], context)
    marked = with_row(plan, right.over(presence(right.plan, context)), context)
    mark = column(width(plan))
    return Filter(marked, exp.Not(this=mark) if negated else mark)


def _without_equal(
    plan: Plan,
    right: Dependent,
    operands: Sequence[exp.Expr],
    pairs: list[exp.Expr],
    context: Context,
) -> Plan:
    """The rows of NOT IN: no row of the query is equal, or could be for some value of a NULL."""
    if len(operands) > 1:
        equal = conjunction(pairs)
        possible = exp.Not(this=exp.Is(this=exp.Paren(this=equal), expression=exp.false()))
        return joined(plan, right, "anti", [possible], context)
    marked = with_row(plan, right.over(extremes(right.plan, [], context)), context)
    some, unknown = column(width(plan)), column(width(plan) + 1)
    # NOT IN is TRUE of an empty query; of any other one, a NULL on either side leaves it open.
    known = exp.And(this=_is_null(operands[0], negated=True), expression=exp.Not(this=unknown))
    sure = exp.Or(this=exp.Not(this=some), expression=exp.Paren(this=known))
    certain = context.narrow(Filter(marked, sure), list(range(width(plan))))
    return joined(certain, right, "anti", pairs, context)


# Values


def _valued(plan: Plan, reference: SubqueryReference, context: Context) -> tuple[Plan, exp.Expr]:
    """Joins a nested query to the plan; returns it, and the reference's value over its columns."""
    nested = context.nested[reference.number]
    own = reference.arguments[nested.operands :]
    operands, query = _alike(reference.arguments[: nested.operands], plan, nested, context)
    right = dependent(reference.number, query, own, context, as_rows=not nested.scalar)
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
    with_operands = Dependent(right.query, right.plan, [*right.arguments, *operands])
    found, mark = _present(plan, with_operands.over(Filter(right.plan, equal)), context)
    if len(operands) > 1:
        open = exp.Is(this=exp.Paren(this=equal), expression=exp.Null())
        found, unknown = _present(found, with_operands.over(Filter(right.plan, open)), context)
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
    """Compares with the extremes: x < ANY (Q) is x < max(Q), and x <> ANY (Q) takes both."""
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

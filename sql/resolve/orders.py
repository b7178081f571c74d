"""Orders of aggregates' arguments, completed where SQL leaves ties open.

Law: an order is completed by all columns of the row, ascending, so a result is a function of the
rows alone. NULLS LAST is DuckDB's default for ASC and for DESC.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.parse.query import verbatim
from ivm.sql.plan.built_in import call_name, chief_name
from ivm.sql.plan.expressions import column, structure, used
from ivm.sql.resolve.context import Context

# Functions of the multiset of their arguments: no order changes their results.
ORDERLESS = frozenset(
    [
        "count_star", "count", "count_if", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or",
        "bit_xor", "approx_count_distinct", "histogram", "median", "quantile_cont", "quantile_disc",
        "mad",
    ]
)  # fmt: skip


def complete_aggregate(node: exp.Expr, count: int, context: Context) -> exp.Expr:
    """Completes the order of an aggregate call over columns c0 … c<count-1>."""
    if isinstance(node, exp.WithinGroup):
        return node
    if isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        made = node.copy()
        made.set("this", complete_aggregate(node.this, count, context))
        return made
    call = verbatim(node)
    if chief_name(call_name(call)) in ORDERLESS or not call.expressions:
        return call
    distinct, arguments, keys = parts_of(call)
    if not arguments:
        return call
    everything = [*[a for a in arguments if used(a)], *[column(i) for i in range(count)]]
    candidates = arguments[:1] if distinct else everything
    listed = {structure(k.this) for k in keys}
    missing = {structure(c): c for c in candidates if structure(c) not in listed}
    keys += [ordered(c) for c in missing.values()]
    first = exp.Distinct(expressions=arguments[:1]) if distinct else arguments[0]
    *others, last = [first, *arguments[1:]]
    call.set("expressions", [*others, exp.Order(this=last, expressions=keys)])
    return call


def parts_of(
    call: exp.Expr,
) -> tuple[bool, list[exp.Expr], list[exp.Ordered]]:
    """Splits a verbatim call into its DISTINCT (or not), its arguments, and its ORDER BY keys.

    Ordered-set aggregates may have keys alone: `mode(ORDER BY x)`.
    """
    if not call.expressions:
        return False, [], []
    *others, last = call.expressions
    keys: list[exp.Ordered] = []
    if isinstance(last, exp.Order):
        last, keys = last.this, list(last.expressions)
    arguments = others if last is None else [*others, last]
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    return distinct, arguments, keys


def ordered(expr: exp.Expr) -> exp.Ordered:
    """Makes a sort key of the expression, ascending with NULLs last."""
    return exp.Ordered(this=expr.copy(), desc=False, nulls_first=False)

"""Queries: common table expressions, recursive ones too, set operations, ORDER BY and LIMIT.

Law: an ORDER BY without LIMIT says nothing about a multiset and is dropped; with LIMIT it chooses
rows, and all columns break its ties.

Law: a recursive query reads itself in the right side of its UNION. Its columns have the names and
types of the left side (the base), renamed by its column list; the right side (the step) is cast to
them, as DuckDB does.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ivm.sql.bind.from_clause import bind_pivot, bind_values
from ivm.sql.bind.limits import bounds_of, limited, read_limit, spread
from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.bind.select import bind_select
from ivm.sql.plan.expressions import cast, column
from ivm.sql.plan.nodes import (
    Distinct,
    NotIncremental,
    Plan,
    Recursive,
    RecursiveScan,
    SetOp,
    Union,
    numbered,
    types,
    width,
)
from ivm.sql.plan.walks import free_recursions
from ivm.sql.resolve.context import BindQuery, Context, demand_only
from ivm.sql.resolve.duckdb_types import typed_nulls
from ivm.sql.resolve.scope import Bound, Relation, Scope
from ivm.storage.identifiers import fold, quote
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import describe

_TAIL = "with_ order limit offset"


def bind_query(node: exp.Expr, context: Context) -> Bound:
    """The plan of a SELECT, set operation, VALUES or parenthesised query.

    Raises:
        NotIncremental: some construct in it has no plan.
    """
    context = _with_ctes(node, context)
    if isinstance(node, exp.Select):
        return bind_select(node, context, bind_query)
    if isinstance(node, exp.SetOperation):
        demand_only(node, f"this expression distinct by_name {_TAIL}", "a set operation")
        return _ordered(_set_operation(node, context), node, context)
    if isinstance(node, exp.Subquery):
        demand_only(node, f"this alias {_TAIL}", "a nested query")
        return _ordered(bind_query(node.this, context), node, context)
    if isinstance(node, exp.Values):
        demand_only(node, f"expressions {_TAIL}", "VALUES")
        return _ordered(bind_values(node, context, bind_query), node, context)
    if isinstance(node, exp.Pivot):
        return _ordered(bind_pivot(node, context, bind_query), node, context)
    raise NotIncremental(f"a {type(node).__name__.upper()} query")


def _with_ctes(node: exp.Expr, context: Context) -> Context:
    clause = node.args.get("with_")
    if clause is None:
        return context
    for cte in clause.expressions:
        recursive = clause.args.get("recursive")
        within = bind_recursive(cte, context, bind_query) if recursive else None
        if within is not None:
            context = within
            continue
        name = cte.alias
        demand_only(cte, "this alias materialized", "WITH")
        bound = bind_query(cte.this, context)
        names = [c.name for c in cte.args["alias"].columns]
        context = context.with_cte(
            name, Bound(bound.plan, (*names, *bound.names[len(names) :])), cte
        )
    return context


def _ordered(bound: Bound, node: exp.Expr, context: Context) -> Bound:
    """The ORDER BY … LIMIT of a set operation or parenthesised query."""
    limit = read_limit(node)
    if limit is None:
        return bound
    names = tuple((name, i) for i, name in enumerate(bound.names))
    scope = Scope([Relation((), names)])
    order = node.args.get("order")
    keys = spread(order.expressions, width(bound.plan)) if order is not None else []

    def key(expr: exp.Expr) -> exp.Expr:
        if isinstance(expr, exp.Literal) and not expr.is_string:
            return column(int(expr.name) - 1)
        return bind_scalar(expr, scope, context.functions)

    bounds = bounds_of(limit, context, bind_query)
    plan = limited(bound.plan, keys, key, bounds, context)
    return Bound(plan, bound.names)


def _set_operation(node: exp.SetOperation, context: Context) -> Bound:
    left, right = bind_query(node.this, context), bind_query(node.expression, context)
    if node.args.get("by_name"):
        left, right = _by_name(left, right, context)
    both = _common_types(left.plan, right.plan, context)
    plans = [context.cast(b.plan, both) for b in (left, right)]
    schema = numbered(both)
    if isinstance(node, exp.Union):
        union = Union(_flat(plans), schema)
        return Bound(Distinct(union) if node.args.get("distinct") else union, left.names)
    every = not node.args.get("distinct")
    if isinstance(node, exp.Intersect):
        return Bound(SetOp(plans[0], plans[1], "intersect", every, schema), left.names)
    return Bound(SetOp(plans[0], plans[1], "except", every, schema), left.names)


def _flat(plans: list[Plan]) -> tuple[Plan, ...]:
    """The inputs of one UNION ALL for the plans, of which some are UNION ALLs themselves."""
    return tuple(
        part for plan in plans for part in (plan.inputs if isinstance(plan, Union) else (plan,))
    )


def _common_types(left: Plan, right: Plan, context: Context) -> tuple[ColumnType, ...]:
    if types(left) == types(right):
        return types(left)
    query = f"{typed_nulls(types(left))} UNION ALL {typed_nulls(types(right))}"
    return tuple(t for _, t in describe(context.cursor, query))


def _by_name(left: Bound, right: Bound, context: Context) -> tuple[Bound, Bound]:
    """Both sides with the columns of both, by name; absent ones are NULL of the other's type."""
    names = list(left.names)
    known = {fold(n) for n in names}
    names += [n for n in right.names if fold(n) not in known]
    return tuple(  # type: ignore[return-value]
        Bound(_aligned(mine, other, names, context), tuple(names))
        for mine, other in ((left, right), (right, left))
    )


def _aligned(mine: Bound, other: Bound, names: list[str], context: Context) -> Plan:
    own = {fold(n): i for i, n in enumerate(mine.names)}
    foreign = {fold(n): t for n, t in zip(other.names, types(other.plan), strict=True)}
    exprs = [
        column(own[fold(n)]) if fold(n) in own else cast(exp.null(), foreign[fold(n)])
        for n in names
    ]
    return context.project(mine.plan, exprs)


def bind_recursive(cte: exp.CTE, context: Context, bind: BindQuery) -> Context | None:
    """The context with a recursive query among its names; None if the query is not recursive.

    Args:
        bind: binds a nested query.

    Raises:
        NotIncremental: some construct in it has no plan.
    """
    if cte.args.get("key_expressions"):
        raise NotIncremental("WITH RECURSIVE … USING KEY")
    union = cte.this
    if not isinstance(union, exp.Union) or not _reads(union.expression, cte.alias):
        return None
    base = bind(union.this, context)
    named = [c.name for c in cte.args["alias"].columns]
    names = (*named, *base.names[len(named) :])
    # Its own number among the recursive queries whose steps it stands in.
    depth = 1 + max((d for b in context.ctes.values() for d in free_recursions(b.plan)), default=0)
    schema = numbered(types(base.plan))
    scan = RecursiveScan(depth, schema)
    step = bind(union.expression, _within(context, cte.alias, Bound(scan, names))).plan
    if depth not in free_recursions(step):
        return None
    demand_only(cte, "this alias materialized", "WITH RECURSIVE")
    demand_only(union, "this expression distinct", "a recursive query")
    if width(step) != width(base.plan):
        raise NotIncremental("a recursive query with sides of different width")
    step = context.cast(step, types(scan))
    distinct = bool(union.args.get("distinct"))
    plan = Recursive(base.plan, step, distinct, depth, schema)
    return _within(context, cte.alias, Bound(plan, names))


def _reads(query: exp.Expr, name: str) -> bool:
    return any(fold(table.name) == fold(name) for table in query.find_all(exp.Table))


def _within(context: Context, name: str, bound: Bound) -> Context:
    """The context with the query among its names; in SQL, a row of typed NULLs stands for it."""
    key = fold(name)
    names = ", ".join(quote(n) for n in bound.names)
    table = f"{quote(name)}({names}) AS ({typed_nulls(types(bound.plan))})"
    return replace(
        context,
        ctes={**context.ctes, key: bound},
        cte_texts={**context.cte_texts, key: table},
    )

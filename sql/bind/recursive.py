"""WITH RECURSIVE: a common table expression that reads itself in the right side of its UNION.

Law: the columns have the names and types of the left side (the base), renamed by the expression's
column list; the right side (the step) is cast to them, as DuckDB does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.nodes import NotIncremental, Recursive, RecursiveScan, open_scans, types, width
from ivm.sql.resolve.context import Context, demand_only
from ivm.sql.resolve.duckdb_types import typed_nulls
from ivm.sql.resolve.scope import Bound
from ivm.storage.identifiers import fold, quote

BindQuery = Callable[[exp.Expression, Context], Bound]


def bind_recursive(cte: exp.CTE, context: Context, bind: BindQuery) -> Context | None:
    """The surroundings with the recursive query in sight; None if it is not recursive.

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
    depth = 1 + max((d for b in context.ctes.values() for d in open_scans(b.plan)), default=0)
    schema = tuple((f"c{i}", t) for i, t in enumerate(types(base.plan)))
    scan = RecursiveScan(depth, schema)
    step = bind(union.expression, _within(context, cte.alias, Bound(scan, names))).plan
    if depth not in open_scans(step):
        return None
    demand_only(cte, "this alias materialized", "WITH RECURSIVE")
    demand_only(union, "this expression distinct", "a recursive query")
    if width(step) != width(base.plan):
        raise NotIncremental("a recursive query with sides of different width")
    step = context.cast(step, types(scan))
    distinct = bool(union.args.get("distinct"))
    plan = Recursive(base.plan, step, distinct, depth, schema)
    return _within(context, cte.alias, Bound(plan, names))


def _reads(query: exp.Expression, name: str) -> bool:
    return any(fold(table.name) == fold(name) for table in query.find_all(exp.Table))


def _within(context: Context, name: str, bound: Bound) -> Context:
    """The context with the name in sight, for DuckDB as any table of its columns."""
    key = fold(name)
    names = ", ".join(quote(n) for n in bound.names)
    table = f"{quote(name)}({names}) AS ({typed_nulls(types(bound.plan))})"
    return replace(
        context,
        ctes={**context.ctes, key: bound},
        cte_texts={**context.cte_texts, key: table},
    )

"""From a query's text to its logical plan, checked against DuckDB.

Contract: a plan is returned only if DuckDB describes its rendering with the names and types of the
user's own query; anything that the binder does not know for certain is `NotIncremental`.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
from sqlglot import exp

from ivm.sql.bind.limits import read_limit
from ivm.sql.bind.query import bind_query
from ivm.sql.bind.unnest import refuse_unnest_calls
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.parse.hiding_macros import refuse_caught, refuse_literals
from ivm.sql.parse.query import parse_query
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import NotIncremental, Plan, Project, width
from ivm.sql.plan.render import render
from ivm.sql.resolve.catalog import RelationCatalog
from ivm.sql.resolve.clock import refuse_tellers
from ivm.sql.resolve.collated_groups import shown_without_collations
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.functions import Functions
from ivm.sql.resolve.plain_views import PlainViews
from ivm.sql.resolve.scope import MadeUp
from ivm.sql.subqueries.parameters import check_complete
from ivm.storage.identifiers import fold
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe


def bind(
    query: str,
    catalog: RelationCatalog,
    cursor: Cursor,
    functions: FunctionList | None = None,
    tick: int | None = None,
    *,
    ordered: bool = False,
) -> Plan:
    """The logical plan of a query, as written (not yet rewritten).

    Args:
        query: one SELECT (or VALUES, FROM, set operation) that DuckDB accepts.
        catalog: the relations it may read.
        cursor: sees the same relations; used for types and names, never for data.
        functions: those that it sees, listed anew if not given.
        tick: of the clock, in microseconds, if the query reads it.
        ordered: whether an ORDER BY without LIMIT is kept, as a `TopK` without bounds.

    Returns:
        A plan whose schema has the query's own column names.

    Raises:
        NotIncremental: names the construct that has no plan.
        duckdb.Error: DuckDB does not accept the query.
    """
    wanted = describe(cursor, query)
    try:
        known = list_functions(cursor) if functions is None else functions
        refuse_literals(known.hiding)
        called = Functions(cursor, known)
        context = Context(catalog, cursor, called, PlainViews(cursor), tick=tick)
        plan = _bound(query, context, wanted, ordered)
        written = render(plan)
        refuse_caught(written, cursor, known)
        found = describe(cursor, written)
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        # The user's query is fine, so our reading of it was not.
        raise NotIncremental(f"a reading that DuckDB refuses: {error}") from error
    if found != wanted:
        raise NotIncremental(f"the plan's columns {_show(found)} differ from {_show(wanted)}")
    return plan


def _bound(query: str, context: Context, wanted: Schema, ordered: bool) -> Plan:
    names = [name for name, _ in wanted]
    parsed = parse_query(query, context.cursor, context.functions.hiding)
    tree = shown_without_collations(parsed, names)
    if ordered:
        _keep_order(tree)
    bound = bind_query(tree, context)
    refuse_unnest_calls(bound.plan)
    check_complete(bound.plan)
    refuse_tellers(bound.plan)
    _check_names(bound.names, names)
    exprs = tuple(column(i) for i in range(width(bound.plan)))
    pairs = zip(wanted, bound.plan.schema, strict=True)
    return Project(bound.plan, exprs, tuple((name, t) for (name, _), (_, t) in pairs))


def _keep_order(tree: exp.Expr) -> None:
    """Gives an ORDER BY without LIMIT one without an end, so that it is not dropped.

    Raises:
        NotIncremental: an ORDER BY inside the query, of which the rows' order may be left.
    """
    order = tree.args.get("order")
    within = [type(part.parent) for part in tree.find_all(exp.Order) if part is not order]
    if not all(issubclass(kind, exp.Func | exp.Window | exp.WithinGroup) for kind in within):
        raise NotIncremental("an ORDER BY inside the query")
    if order is not None and read_limit(tree) is None:
        tree.set("limit", exp.Limit(expression=exp.null()))


def _check_names(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuses other names, or another order: a star or USING was not expanded as DuckDB does."""
    same = len(found) == len(wanted) and all(
        isinstance(a, MadeUp) or fold(a) == fold(b) for a, b in zip(found, wanted, strict=True)
    )
    if not same:
        raise NotIncremental(f"the column names {list(found)} differ from {list(wanted)}")


def _show(schema: Schema) -> str:
    return ", ".join(f"{name} {type}" for name, type in schema)

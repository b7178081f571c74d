"""Table functions in FROM, over constants or columns to the left.

Law: `f(args)` in FROM returns, for each row of the items to its left, rows that depend only on
scalar expressions of that row, so it is an `Unnest`: unnest, range and generate_series of a list,
json_each and json_tree of their own call. Functions that take no columns have constant arguments; a
function that reads files or other state has no plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.bind.unnest import element_types
from ivm.sql.parse.methods import with_parameters
from ivm.sql.plan.built_in import call_name, duck_text, qualified
from ivm.sql.plan.calls import RowCall
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import (
    Filter,
    NotIncremental,
    Plan,
    TableFunction,
    Unnest,
    numbered,
    types,
    width,
)
from ivm.sql.resolve.context import ONE_ROW, BindQuery, Context, demand_only
from ivm.sql.resolve.duckdb_types import typed_nulls
from ivm.sql.resolve.scope import Relation, Scope
from ivm.sql.subqueries.attach import attached
from ivm.sql.subqueries.nested import Nesting
from ivm.sql.subqueries.outer_rows import with_rest
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import describe

_LISTS = ("range", "generate_series")
_JSON = ("json_each", "json_tree")
_CONSTANT = ("repeat", "repeat_row", *_JSON)
_UNLISTED = ("json", "root", "rowid")
"""Columns of json_each and json_tree that no star shows."""


@dataclass(frozen=True)
class _Call:
    """A table function as it is written.

    Attributes:
        name: in lower case; its column has this name too.
        alias: the relation's name, '' if there is none.
        columns: names given to its columns.
    """

    name: str
    arguments: list[exp.Expr]
    ordinality: bool
    alias: str
    columns: tuple[str, ...]


def is_table_function(node: exp.Expr) -> bool:
    """Returns whether a FROM item is a call (LATERAL or not)."""
    bare = node.this if isinstance(node, exp.Lateral) else node
    return isinstance(bare, (exp.Unnest, exp.Func)) or (
        isinstance(bare, exp.Table) and isinstance(bare.this, exp.Func)
    )


def function_call(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """The name of the call, in lower case, and its arguments."""
    bare = node.this if isinstance(node, exp.Lateral) else node
    call = bare.this if isinstance(bare, exp.Table) else bare
    if isinstance(call, exp.Unnest):
        return "unnest", list(call.expressions)
    return _call_name(call), _call_arguments(call)


def table_function(node: exp.Expr, context: Context, bind: BindQuery) -> tuple[Plan, Scope]:
    """A call with constant arguments (or subqueries) as a relation of its own.

    Args:
        bind: binds a nested query.
    """
    call = _read(node)
    if call.name in _CONSTANT and not any(a.find(exp.Column, exp.Query) for a in call.arguments):
        return _constant(call, context)
    plan, scope = _unnest(ONE_ROW, Scope(), call, context, bind, outer=False)
    return context.narrow(plan, list(range(1, width(plan)))), _moved(scope, -1)


def lateral_function(
    left: Plan, scope: Scope, node: exp.Expr, kind: str, on: exp.Expr | None,
    context: Context, bind: BindQuery,
) -> tuple[Plan, Scope]:  # fmt: skip
    """A lateral table function: each left row joined with the rows that the call returns for it.

    Args:
        kind: ``inner`` or ``left``.
        on: the join condition, unbound; None for none.
        bind: binds a nested query.
    """
    call = _read(node)
    always = on is None or (isinstance(on, exp.Boolean) and on.this)
    outer = kind == "left"
    plan, both = _unnest(left, scope, call, context, bind, outer=outer and always)
    if always or on is None:
        return plan, both
    found = Filter(plan, bind_scalar(on, both, context.functions))
    return (with_rest(left, found) if outer else found), both


def _unnest(
    left: Plan, scope: Scope, call: _Call, context: Context, bind: BindQuery, *, outer: bool
) -> tuple[Plan, Scope]:
    """Every left row with the rows that the call returns for it; without any, NULLs if `outer`."""
    count = width(left)
    nesting = Nesting(context, left, bind)
    written = call.arguments if call.name in _JSON else [_list(call)]
    given = [with_parameters(a.copy()) for a in written]  # columns hide no lambda parameter here
    bound = [bind_scalar(a, scope, context.functions, nesting=nesting) for a in given]
    valued, exprs = attached(left, bound, context)
    below = context.project(valued, [*[column(i) for i in range(count)], *exprs])
    if call.name in _JSON:
        plan, relation = _json_rows(below, count, call, context, outer=outer)
    else:
        plan, relation = _elements(below, count, call, context, outer=outer)
    return plan, replace(scope, relations=[*scope.relations, relation])


def _elements(
    below: Plan, count: int, call: _Call, context: Context, *, outer: bool
) -> tuple[Plan, Relation]:
    """The first `count` columns, each row once for every element of the list after them."""
    elements = element_types([count], below.schema, context)
    ordinality = [type_of("BIGINT")] if call.ordinality else []
    schema = numbered([*types(below)[:count], *elements, *ordinality])
    plan = Unnest(below, tuple(range(count)), (count,), outer, call.ordinality, schema)
    names = _names(call, [call.name, *(["ordinality"] if call.ordinality else [])])
    return plan, _relation(call, names, count)


def _json_rows(
    below: Plan, count: int, call: _Call, context: Context, *, outer: bool
) -> tuple[Plan, Relation]:
    """The first `count` columns, each row once for every row of the call for the columns after."""
    if call.ordinality:
        raise NotIncremental(f"{call.name}() WITH ORDINALITY")
    given = types(below)
    arguments = ", ".join(f"t.c{i}" for i in range(count, len(given)))
    unlisted = ", ".join(f"x.{name}" for name in _UNLISTED)
    found = describe(
        context.cursor,
        f"SELECT x.*, {unlisted} FROM ({typed_nulls(given)}) AS t,"
        f" {qualified(call.name)}({arguments}) AS x",
    )
    own = [name for name, _ in found]
    schema = numbered([*given[:count], *[t for _, t in found]])
    lists = tuple(range(count, len(given)))
    rows = RowCall(call.name, tuple(own))
    plan = Unnest(below, tuple(range(count)), lists, outer, False, schema, rows)
    listed = own[: -len(_UNLISTED)]
    relation = _relation(call, _names(call, listed), count)
    hidden = tuple((name, count + own.index(name)) for name in _UNLISTED)
    return plan, replace(relation, hidden=hidden)


def _list(call: _Call) -> exp.Expr:
    """The list whose elements are the rows of the call.

    Raises:
        NotIncremental: the function has no plan, or a step that may be 0.
    """
    if call.name == "unnest":
        if len(call.arguments) != 1:
            raise NotIncremental("UNNEST of several arguments in FROM")
        return call.arguments[0]
    if call.name not in _LISTS:
        raise NotIncremental(f"{call.name}() in FROM")
    if len(call.arguments) == 3 and call.arguments[2].find(exp.Column, exp.Query):
        raise NotIncremental(f"{call.name}() with a step that is no constant")  # 0 is an error
    return exp.Anonymous(this=call.name, expressions=[a.copy() for a in call.arguments])


def _constant(call: _Call, context: Context) -> tuple[Plan, Scope]:
    if call.ordinality:
        raise NotIncremental(f"{call.name}() WITH ORDINALITY")
    arguments = [bind_scalar(a, Scope(), context.functions) for a in call.arguments]
    bound = exp.Anonymous(this=call.name, expressions=arguments)
    schema = describe(context.cursor, f"FROM {duck_text(bound)}")
    names = _names(call, [name for name, _ in schema])
    return TableFunction(bound, schema), Scope([_relation(call, names, 0)])


def _names(call: _Call, own: list[str]) -> list[str]:
    """The column names: those given, the function's own, or for a single column the alias."""
    if not call.columns and call.alias and len(own) == 1:
        return [call.alias]
    return [*call.columns, *own[len(call.columns) :]]


def _relation(call: _Call, names: list[str], start: int) -> Relation:
    columns = tuple((name, start + i) for i, name in enumerate(names))
    hidden = ((call.name, start),) if call.alias and not call.columns else ()
    return Relation((call.alias or call.name,), columns, hidden)


def _moved(scope: Scope, by: int) -> Scope:
    return Scope([r.moved(by) for r in scope.relations])


def _read(node: exp.Expr) -> _Call:
    alias = node.args.get("alias")
    ordinality = bool(node.args.get("ordinality"))
    if isinstance(node, exp.Lateral):
        demand_only(node, "this alias ordinality", "LATERAL")
        node = node.this
        alias = alias or node.args.get("alias")
    if alias is not None:
        demand_only(alias, "this columns", "an alias")
    columns = tuple(c.name for c in alias.columns) if alias is not None else ()
    name = alias.name if alias is not None else ""
    if isinstance(node, exp.Unnest):
        demand_only(node, "expressions alias offset joins", "UNNEST in FROM")
        number = node.args.get("offset")  # sqlglot's word for WITH ORDINALITY, and its alias
        if isinstance(number, exp.Identifier):
            columns = (*columns, number.name)
        return _Call("unnest", node.expressions, bool(number), name, columns)
    call = node
    if isinstance(node, exp.Table):
        demand_only(node, "this alias ordinality joins", "a table function")
        call = node.this
    return _Call(_call_name(call), _call_arguments(call), ordinality, name, columns)


def _call_name(call: exp.Expr) -> str:
    if isinstance(call, exp.GenerateSeries):
        return "range" if call.args.get("is_end_exclusive") else "generate_series"
    return call_name(call)


def _call_arguments(call: exp.Expr) -> list[exp.Expr]:
    if isinstance(call, exp.GenerateSeries):
        return [v for part in ("start", "end", "step") if (v := call.args.get(part)) is not None]
    if isinstance(call, exp.Anonymous):
        return list(call.expressions)
    return [v for v in call.iter_expressions() if isinstance(v, exp.Expr)]

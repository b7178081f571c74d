"""Scalar expressions: names become positions, everything else stays as written.

Law: a column of the FROM clause hides an alias of the SELECT list (DuckDB's rule everywhere but in
ORDER BY); an alias stands for its whole expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from ivm.sql.bind_columns import bind_place
from ivm.sql.bind_context import Names
from ivm.sql.bind_functions import Functions
from ivm.sql.bind_nested import Nesting
from ivm.sql.bind_scope import Scope
from ivm.sql.bind_sugar import desugared
from ivm.sql.columns import closed
from ivm.sql.placeholders import has_parameter
from ivm.sql.plan import NotIncremental
from ivm.sql.unnest_calls import bound_unnest

Aliases = Mapping[str, exp.Expression]
"""Lower-case alias → its bound expression."""


def bind_scalar(
    node: exp.Expression,
    scope: Scope,
    functions: Functions,
    aliases: Aliases | None = None,
    gives_way: Callable[[exp.Column], bool] = lambda _: False,
    nesting: Nesting | None = None,
) -> exp.Expression:
    """The bound copy of an expression; aggregates and window functions stay as nodes in it.

    Args:
        aliases: names that stand for expressions where the scope has no such column.
        gives_way: columns that are hidden by an alias of their name.
        nesting: lets nested queries stand here, and names of the queries around.

    Raises:
        NotIncremental: a name that nobody knows, or a refused construct.
    """
    tree = node.copy()
    if nesting is not None:
        tree, nested = nesting.taken_out(tree)
    outer = None if nesting is None else nesting.context.outer

    def again(part: exp.Expression) -> exp.Expression:
        return bind_scalar(part, scope, functions, aliases, gives_way, nesting)

    def swap(part: exp.Expression) -> exp.Expression:
        unnest = bound_unnest(part, again)
        if unnest is not None:
            return unnest
        if isinstance(part, exp.PositionalColumn):
            return bind_place(part, scope)
        plain = desugared(part) or functions.expanded(part)
        if plain is not None:
            return again(plain)
        functions.check(part)
        if isinstance(part, exp.Column):
            alias = (aliases or {}).get(part.name.lower()) if not part.table else None
            if alias is not None and gives_way(part):
                return closed(alias)
            return _column(part, scope, alias, outer)
        if isinstance(part, exp.Lambda):
            _check_parameters(part)
        return part

    tree = tree.transform(swap, copy=False)
    if nesting is not None:
        tree = nesting.completed(tree, nested, scope, aliases or {})
    if outer is not None:
        _check_aggregates(tree, functions)
    return tree


def _column(
    node: exp.Column, scope: Scope, alias: exp.Expression | None, outer: Names | None
) -> exp.Expression:
    if isinstance(node.this, exp.Star):
        raise NotIncremental("a star inside an expression")
    found = scope.resolve(node)
    if found is not None:
        return found
    if alias is not None:
        return closed(alias)
    found = scope.row(node)
    if found is None and outer is not None:
        found = outer.resolve(node)
    if found is None:
        raise NotIncremental(f"the name {node.sql()}, which is no column of this FROM clause")
    return found


def _check_aggregates(tree: exp.Expression, functions: Functions) -> None:
    """An aggregate of outer columns alone belongs to the query around."""
    for call in functions.aggregates(tree):
        if has_parameter(call) and call.find(exp.Column) is None:
            raise NotIncremental("an aggregate of an outer query's columns in a subquery")


def _check_parameters(node: exp.Lambda) -> None:
    """A parameter that looks like a position would capture columns."""
    for parameter in node.expressions:
        name = parameter.name.lower()
        if name[:1] == "c" and name[1:].isdigit():
            raise NotIncremental(f"a lambda parameter named {parameter.name}")

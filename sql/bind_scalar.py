"""Scalar expressions: names become positions, everything else stays as written.

Law: a column of the FROM clause hides an alias of the SELECT list (DuckDB's rule everywhere but in
ORDER BY); an alias stands for its whole expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from ivm.sql.bind_aggregate import is_window_function
from ivm.sql.bind_columns import bare, bind_place
from ivm.sql.bind_context import Names
from ivm.sql.bind_functions import Functions
from ivm.sql.bind_methods import parameter_of
from ivm.sql.bind_nested import Nesting, holds_mark
from ivm.sql.bind_scope import Scope
from ivm.sql.bind_sugar import desugared
from ivm.sql.columns import closed
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
        theirs = outer is not None and _is_of_outer(part, scope, functions, aliases or {})
        if nesting is not None and outer is not None and theirs:
            return _outer_aggregate(part, functions, outer, nesting)
        unnest = bound_unnest(part, again)
        if unnest is not None:
            return unnest
        if isinstance(part, exp.PositionalColumn):
            return bind_place(part, scope)
        plain = desugared(part) or functions.expanded(part) or _packed(part, scope, aliases or {})
        if plain is not None:
            return again(plain)
        functions.check(part)
        if isinstance(part, (exp.Star, exp.Columns)) and not _is_counted(part):
            raise NotIncremental("a star inside an expression")
        if isinstance(part, exp.Column):
            alias = (aliases or {}).get(part.name.lower()) if not part.table else None
            if alias is not None and gives_way(part):
                return closed(alias)
            hidden = None if scope.resolve(part) or scope.row(part) else parameter_of(part)
            return hidden or _column(part, scope, alias, outer, aliases or {})
        if isinstance(part, exp.Lambda):
            _check_parameters(part)
        return part

    tree = tree.transform(swap, copy=False)
    if nesting is not None:
        tree = nesting.completed(tree, nested, scope, aliases or {})
    return tree


def _packed(node: exp.Expression, scope: Scope, aliases: Aliases) -> exp.Expression | None:
    """struct_pack(a, b) with the names that its fields take from columns; None if all have names.

    Raises:
        NotIncremental: DuckDB makes up a name, or takes one that is not known here.
    """
    called = isinstance(node, exp.Anonymous) and node.name.lower() == "struct_pack"
    if not (called or isinstance(node, exp.Struct)) or all(map(_has_name, node.expressions)):
        return None
    fields = [e if _has_name(e) else _field(bare(e), scope, aliases) for e in node.expressions]
    return exp.Anonymous(this="struct_pack", expressions=fields)


def _has_name(field: exp.Expression) -> bool:
    return isinstance(field, (exp.PropertyEQ, exp.Kwarg))


def _field(node: exp.Expression, scope: Scope, aliases: Aliases) -> exp.Expression:
    found: exp.Expression | None = None
    if isinstance(node, exp.PositionalColumn):
        found = bind_place(node, scope)
    elif isinstance(node, exp.Column) and (node.table or node.name.lower() not in aliases):
        found = scope.resolve(node)
    name = scope.name(found) if isinstance(found, exp.Column) else None
    if name is None:
        raise NotIncremental("struct_pack() with a field that has no plain name")
    return exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=node.copy())


def _is_counted(star: exp.Expression) -> bool:
    call = star.parent
    return isinstance(call, exp.Count) or (
        isinstance(call, exp.Anonymous) and call.name.lower() == "count"
    )


def _column(
    node: exp.Column,
    scope: Scope,
    alias: exp.Expression | None,
    outer: Names | None,
    aliases: Aliases,
) -> exp.Expression:
    if isinstance(node.this, exp.Star):
        raise NotIncremental("a star inside an expression")
    found = scope.resolve(node)
    if found is not None:
        return found
    if alias is not None:
        return closed(alias)
    if node.table.lower() == "alias" and node.name.lower() in aliases:
        return closed(aliases[node.name.lower()])
    found = scope.row(node)
    if found is None and outer is not None:
        found = outer.resolve(node)
    if found is None:
        raise NotIncremental(f"the name {node.sql()}, which is no column of this FROM clause")
    return found


def _is_of_outer(
    node: exp.Expression, scope: Scope, functions: Functions, aliases: Aliases
) -> bool:
    """Whether an aggregate reads columns of the queries around alone: it is theirs, then."""
    if not functions.is_aggregate(node) or is_window_function(node):
        return False
    names = list(node.find_all(exp.Column))
    if not names or any(_is_own(name, scope, aliases) for name in names):
        return False
    if holds_mark(node):
        raise NotIncremental("an aggregate of a subquery and of an outer query's columns")
    return True


def _is_own(node: exp.Column, scope: Scope, aliases: Aliases) -> bool:
    named = not node.table and node.name.lower() in aliases
    return named or scope.resolve(node) is not None or scope.row(node) is not None


def _outer_aggregate(
    node: exp.Expression, functions: Functions, outer: Names, nesting: Nesting
) -> exp.Expression:
    """The parameter that an aggregate of the query around is to this one."""
    around = Nesting(outer.context, outer.plan, nesting.bind)
    return outer.parameter(bind_scalar(node, outer.scope, functions, outer.aliases, nesting=around))


def _check_parameters(node: exp.Lambda) -> None:
    """A parameter that looks like a position would capture columns."""
    for parameter in node.expressions:
        name = parameter.name.lower()
        if name[:1] == "c" and name[1:].isdigit():
            raise NotIncremental(f"a lambda parameter named {parameter.name}")

"""Expands COLUMNS(…) and filtered stars to one expression for every chosen column.

Law: columns are chosen by name alone: by a star, a regular expression (found anywhere in the name),
a list of names, or a predicate of the name, each evaluated by DuckDB; they come in FROM order. All
COLUMNS(…) in one expression must be equal, and stand for the same column in each copy of it.
"""

from __future__ import annotations

import duckdb
from sqlglot import exp

from ivm.sql.plan.built_in import call_name
from ivm.sql.plan.expressions import column, conjunction, index_of, structure, text
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.resolve.duckdb_types import probe
from ivm.sql.resolve.scope import Scope
from ivm.storage.identifiers import fold, literal
from ivm.storage.warehouse.duckdb.duck import rows

Choice = list[tuple[str, int]]
"""Names and positions of columns."""

_FILTERS = (exp.Like, exp.ILike, exp.SimilarTo, exp.Glob, exp.RegexpLike)
_POSITION = "position"


def column_at(position: int) -> exp.Expr:
    """Makes a column by its position in the plan, for an expression that is not bound yet."""
    node = exp.PositionalColumn(this=exp.Literal.number(position))
    node.meta[_POSITION] = position
    return node


def is_column_at(node: exp.PositionalColumn) -> bool:
    """Returns whether the node was made by `column_at`."""
    return _POSITION in node.meta


def bind_position(node: exp.PositionalColumn, scope: Scope) -> exp.Column:
    """Binds `#n`, the n-th column of the FROM clause, or a `column_at`."""
    position = node.meta.get(_POSITION)
    if position is not None:
        return column(int(position))
    known = scope.star(None)
    number = int(node.this.name)
    if number > len(known):
        raise NotIncremental(f"the position #{number}")
    return column(known[number - 1][1])


def star_columns(node: exp.Expr, scope: Scope) -> Choice | None:
    """The columns that a star (`*`, `t.*`, `* LIKE 'a%'`) expands to; None for other nodes."""
    node = bare(node)
    inner = bare(node.this) if isinstance(node, exp.Not) else node
    if isinstance(node, exp.Not) and isinstance(inner, _FILTERS):
        return _filtered(inner, scope, keep=False)
    if isinstance(node, _FILTERS):
        return _filtered(node, scope, keep=True)
    star = as_star(node)
    if star is None:
        return None
    known = scope.star(node.table or None) if isinstance(node, exp.Column) else scope.star(None)
    excluded = [_excluded(e, scope) for e in star.args.get("except_") or []]
    others = [(n, i) for n, i in known if fold(n) not in excluded and i not in excluded]
    pattern = star.args.get("ilike")
    return others if pattern is None else _where(others, f'"name" ILIKE {text(pattern)}')


def bare(node: exp.Expr) -> exp.Expr:
    """The expression without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def as_star(node: exp.Expr) -> exp.Star | None:
    """The star in `*` or `t.*`."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return node.this
    return node if isinstance(node, exp.Star) else None


def _excluded(node: exp.Expr, scope: Scope) -> str | int:
    """A folded name, or the position of a qualified column."""
    if not (isinstance(node, exp.Column) and node.table):
        return fold(node.name)
    found = scope.resolve(node)
    if not isinstance(found, exp.Column):
        raise NotIncremental(f"EXCLUDE of {text(node)}")
    return index_of(found)


def _filtered(node: exp.Expr, scope: Scope, *, keep: bool) -> Choice | None:
    choice = star_columns(node.this, scope)
    if choice is None:
        return None
    condition = node.copy()
    condition.set("this", exp.column("name", quoted=True))
    return _where(choice, text(condition), keep=keep)


def _where(choice: Choice, condition: str, *, keep: bool = True) -> Choice:
    """The columns whose names satisfy a condition."""
    names = ", ".join(f"({i}, {literal(name)})" for i, (name, _) in enumerate(choice))
    query = f'SELECT i FROM (VALUES {names}) AS v(i, "name") WHERE ({condition}) = {keep}'
    try:
        with probe() as cursor:
            found = {i for (i,) in rows(cursor, query)}
    except duckdb.Error as error:
        raise NotIncremental(f"a choice of columns by {condition}") from error
    return [c for i, c in enumerate(choice) if i in found]


def has_columns(node: exp.Expr) -> bool:
    """Returns whether the expression has COLUMNS(…) outside of nested queries."""
    return any(isinstance(part, exp.Columns) for part in node.walk(prune=_is_query))


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def may_expand(node: exp.Expr) -> bool:
    """Returns whether an expression may expand to any number of columns."""
    return any(isinstance(part, (exp.Columns, exp.Star)) for part in node.walk(prune=_is_query))


def is_all(key: exp.Expr) -> bool:
    """Returns whether the one key of an ORDER BY is ALL, or a bare star, which means ALL."""
    star = as_star(key.this if isinstance(key, exp.Columns) else key)
    bare = star is not None and not any(star.args.values())
    return bare or (isinstance(key, exp.Var) and key.name.upper() == "ALL")


def chosen_columns(node: exp.Expr, scope: Scope) -> Choice:
    """The columns that the COLUMNS(…) in an expression choose.

    Raises:
        NotIncremental: they are not all equal.
    """
    found = list(node.find_all(exp.Columns))
    if len({structure(part.this) for part in found}) > 1:
        raise NotIncremental("different COLUMNS(…) in one expression")
    return _choice(found[0].this, scope)


def _choice(node: exp.Expr, scope: Scope) -> Choice:
    star = as_star(node)
    if star is not None and (star.args.get("replace") or star.args.get("rename")):
        raise NotIncremental("COLUMNS(* REPLACE …)")
    found = star_columns(node, scope)
    if found is not None:
        return found
    known = scope.star(None)
    if isinstance(node, exp.Literal):
        return _where(known, f'regexp_matches("name", {text(node)})')
    if isinstance(node, exp.Lambda):
        return _where(known, f'len(list_filter(["name"], {text(node)})) > 0')
    return _where(known, f'list_contains({text(node)}, "name")')


def spread_columns(node: exp.Expr, scope: Scope) -> list[tuple[str | None, exp.Expr]]:
    """Expands an expression with COLUMNS(…) to unbound expressions with their names."""
    choice = chosen_columns(node, scope)
    if any(part.args.get("unpack") for part in node.find_all(exp.Columns)):
        return [(None, _unpacked(node, choice))]
    return [(name, _substituted(node, index)) for name, index in choice]


def _substituted(node: exp.Expr, index: int) -> exp.Expr:
    def swap(part: exp.Expr) -> exp.Expr:
        return column_at(index) if isinstance(part, exp.Columns) else part

    return node.copy().transform(swap, copy=False)


def _unpacked(node: exp.Expr, choice: Choice) -> exp.Expr:
    """Expands `f(*COLUMNS(…))` to a call with the columns as arguments."""

    def swap(part: exp.Expr) -> exp.Expr:
        for key, value in list(part.args.items()):
            values = value if isinstance(value, list) else [value]
            if not any(isinstance(v, exp.Columns) for v in values):
                continue
            spread = [w for v in values for w in _arguments(v, choice)]
            if isinstance(value, list):
                part.set(key, spread)
            elif key == "this" and isinstance(part, exp.Func):
                name, rest = call_name(part), part.expressions
                return exp.Anonymous(this=name, expressions=[*spread, *rest])
            else:
                raise NotIncremental("*COLUMNS(…) outside of a list of arguments")
        return part

    return node.copy().transform(swap, copy=False)


def _arguments(node: exp.Expr, choice: Choice) -> list[exp.Expr]:
    return [column_at(i) for _, i in choice] if isinstance(node, exp.Columns) else [node]


def spread_condition(node: exp.Expr, scope: Scope) -> exp.Expr:
    """Expands a condition with COLUMNS(…): it must hold for every column."""
    if not has_columns(node):
        return node
    parts = [exp.Paren(this=expr) for _, expr in spread_columns(node, scope)]
    return conjunction(parts) or exp.true()


def spread_key(key: exp.Ordered, scope: Scope) -> list[exp.Ordered]:
    """Expands a key of an ORDER BY that is a star or has COLUMNS(…) to one key for every column."""
    chosen = star_columns(key.this, scope)
    if chosen is None and not has_columns(key.this):
        return [key]
    found = spread_columns(key.this, scope) if chosen is None else _columns_at(chosen)
    return [exp.Ordered(**{**key.args, "this": expr}) for _, expr in found]


def _columns_at(choice: Choice) -> list[tuple[str | None, exp.Expr]]:
    return [(name, column_at(index)) for name, index in choice]

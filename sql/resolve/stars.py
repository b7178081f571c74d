"""Expands the select list to items with names and bound expressions.

Law: a star expands to the visible columns in FROM order; EXCLUDE drops columns, REPLACE replaces
their expressions, RENAME their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.plan.built_in import call
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.resolve.columns_calls import (
    Choice,
    as_star,
    bare,
    has_columns,
    spread_columns,
    star_columns,
)
from ivm.sql.resolve.scope import Scope
from ivm.storage.identifiers import fold

_STAR_PARTS = {"except_", "replace", "rename", "ilike"}


@dataclass(frozen=True)
class Item:
    """One column of a select list.

    Attributes:
        name: its name; None if DuckDB makes one of the expression.
        alias: the name by which other clauses may refer to it.
    """

    name: str | None
    alias: str | None
    expr: exp.Expr


def expand(
    nodes: Sequence[exp.Expr], scope: Scope, bind: Callable[[exp.Expr], exp.Expr]
) -> Iterator[Item]:
    """Expands and binds the items of a select list, in order.

    Args:
        bind: binds one expression; it may know the aliases of earlier items.
    """
    for node in nodes:
        alias = node.alias if isinstance(node, exp.Alias) else None
        item = node.this if isinstance(node, exp.Alias) else _plain_star(node)
        if _is_struct(node, scope):
            yield Item(None, None, bind(_fields(node)))
        elif (chosen := star_columns(item, scope)) is not None:
            items = list(_columns(chosen, as_star(bare(item)) or exp.Star(), bind))
            yield from items if alias is None else _named(items, alias)
        elif has_columns(node):
            yield from _spread(node, scope, bind)
        elif alias is not None:
            yield Item(alias, alias, bind(item))
        else:
            yield Item(_own_name(node), None, bind(node))


def _plain_star(item: exp.Expr) -> exp.Expr:
    """The star of a bare `COLUMNS(* REPLACE …)`, which means the same; else the item."""
    star = as_star(item.this) if isinstance(item, exp.Columns) else None
    changes = star is not None and (star.args.get("replace") or star.args.get("rename"))
    return item.this if changes and not item.args.get("unpack") else item


def _named(items: Sequence[Item], alias: str) -> Iterator[Item]:
    """Names all columns of a star by its alias."""
    for item in items:
        yield Item(alias, alias if len(items) == 1 else None, item.expr)


def _own_name(node: exp.Expr) -> str | None:
    inner = bare(node)
    return inner.name if isinstance(inner, exp.Column) else None


def _is_struct(node: exp.Expr, scope: Scope) -> bool:
    """Returns whether `s.*` means the fields of a column."""
    if not isinstance(node, exp.Column) or as_star(node) is None or not node.table:
        return False
    tables = [r for r in scope.relations if r.answers((node.table,))]
    return not tables and scope.visible(node.table) is not None


def _fields(node: exp.Expr) -> exp.Expr:
    star = as_star(node)
    if star is None or any(star.args.values()) or node.args.get("db"):
        raise NotIncremental("this kind of star")
    return call("unnest", exp.column(node.args["table"].copy()))


def _columns(
    chosen: Choice, star: exp.Star, bind: Callable[[exp.Expr], exp.Expr]
) -> Iterator[Item]:
    unknown = {k for k, v in star.args.items() if v} - _STAR_PARTS
    if unknown:
        raise NotIncremental("this kind of star")
    replaced = {fold(e.alias): e.this for e in star.args.get("replace") or []}
    renamed = {fold(e.this.name): e.alias for e in star.args.get("rename") or []}
    for name, index in chosen:
        key = fold(name)
        expr = bind(replaced[key]) if key in replaced else column(index)
        yield Item(renamed.get(key, name), None, expr)


def _spread(node: exp.Expr, scope: Scope, bind: Callable[[exp.Expr], exp.Expr]) -> Iterator[Item]:
    """Expands an item with COLUMNS(…); an alias with a group of its pattern is DuckDB's to fill."""
    alias = node.alias if isinstance(node, exp.Alias) else None
    parts = spread_columns(node.this if alias is not None else node, scope)
    known = alias if alias is not None and "\\" not in alias else None
    for name, expr in parts:
        bound = bind(expr)
        if alias is None:
            yield Item(name, None, bound)
        else:
            yield Item(known, known if len(parts) == 1 else None, bound)

"""The select list: stars expanded, every item with its name and bound expression.

Law: a star stands for the visible columns in FROM order; EXCLUDE drops, REPLACE recomputes in
place, RENAME renames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.bind_scope import Scope
from ivm.sql.columns import column
from ivm.sql.plan import NotIncremental

_STAR_PARTS = {"except_", "replace", "rename"}


@dataclass(frozen=True)
class Item:
    """One column of a select list.

    Attributes:
        name: None where DuckDB makes one up.
        alias: the name other clauses may use for it.
    """

    name: str | None
    alias: str | None
    expr: exp.Expression


def expand(
    nodes: Sequence[exp.Expression], scope: Scope, bind: Callable[[exp.Expression], exp.Expression]
) -> Iterator[Item]:
    """The bound items, in order.

    Args:
        bind: binds one expression; it may already know the aliases of earlier items.
    """
    for node in nodes:
        star = _star(node)
        if star is not None:
            yield from _columns(star, node, scope, bind)
        elif isinstance(node, exp.Alias):
            yield Item(node.alias, node.alias, bind(node.this))
        else:
            yield Item(_own_name(node), None, bind(node))


def _own_name(node: exp.Expression) -> str | None:
    bare = node.unnest()
    return bare.name if isinstance(bare, exp.Column) else None


def _star(node: exp.Expression) -> exp.Star | None:
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return node.this
    return node if isinstance(node, exp.Star) else None


def _columns(
    star: exp.Star, node: exp.Expression, scope: Scope, bind: Callable[..., exp.Expression]
) -> Iterator[Item]:
    unknown = {k for k, v in star.args.items() if v} - _STAR_PARTS
    qualifier = node.table if isinstance(node, exp.Column) else ""
    if unknown or (isinstance(node, exp.Column) and node.args.get("db")):
        raise NotIncremental("this kind of star")
    excluded = {e.name.lower() for e in star.args.get("except_") or []}
    replaced = {e.alias.lower(): e.this for e in star.args.get("replace") or []}
    renamed = {e.this.name.lower(): e.alias for e in star.args.get("rename") or []}
    if any(isinstance(e, exp.Column) and e.table for e in star.args.get("except_") or []):
        raise NotIncremental("EXCLUDE of a qualified column")
    for name, index in scope.star(qualifier or None):
        key = name.lower()
        if key not in excluded:
            expr = bind(replaced[key]) if key in replaced else column(index)
            yield Item(renamed.get(key, name), None, expr)

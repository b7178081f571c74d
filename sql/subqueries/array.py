"""ARRAY(query) as a scalar subquery that collects the query's rows in a list.

Law: ARRAY(Q) is `SELECT coalesce(list(v ORDER BY k₁, …), []) FROM Q`, where v is Q's one column and
the kᵢ are the keys of its ORDER BY, selected after v. DuckDB makes each key one more item of Q's
select list: there, a column hides an alias of its name, ALL is `*`, and of a key that is several
columns the first one orders the list; its ties are in Q's own order, of v and all of these columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ivm.sql.plan.built_in import ours
from ivm.sql.resolve.columns_calls import is_all, may_expand

_ROWS = "_ivm_rows"
_VALUE = "v"


def gathered(query: exp.Query, width: Callable[[exp.Expr], int]) -> exp.Expr:
    """The query of one row that ARRAY(query) comes to, unbound.

    Args:
        width: counts the columns that a query would have if it stood here instead of `query`.
    """
    order = query.args.get("order")
    keys: list[exp.Ordered] = order.expressions if order is not None else []
    items = [_carried(key.this, query) for key in keys]
    columns, heads, ties = [_VALUE], [], []
    for key, item in zip(keys, items, strict=True):
        names = _names(item, len(columns), query, width)
        columns += names
        heads.append(_ordered(key, (names or [_VALUE])[0]))
        ties += [_ordered(key, name) for name in ([_VALUE] if is_all(key.this) else []) + names]
    value = _of(_VALUE)
    ordered = heads + (ties if len(columns) > 1 + len(keys) else [])
    listed = exp.Order(this=value, expressions=ordered) if ordered else value
    gathering = exp.Coalesce(this=ours(exp.ArrayAgg(this=listed)), expressions=[exp.Array()])
    identifiers = [exp.to_identifier(name) for name in columns]
    alias = exp.TableAlias(this=exp.to_identifier(_ROWS), columns=identifiers)
    rows = exp.Subquery(this=_carrying(query, items), alias=alias)
    return exp.select(gathering).from_(rows)


def _carried(key: exp.Expr, query: exp.Query) -> exp.Expr | None:
    """The item selected for a key; None if that is the value itself."""
    if is_all(key):
        return exp.Star() if isinstance(query, exp.Select) else None
    return None if isinstance(key, exp.Literal) else key


def _names(
    item: exp.Expr | None,
    first: int,
    query: exp.Query,
    width: Callable[[exp.Expr], int],
) -> list[str]:
    """A name for each column of the item: a star may have several."""
    if item is None:
        return []
    carrying = _carrying(query, [item])
    assert isinstance(carrying, exp.Expr)
    count = width(carrying) - 1 if may_expand(item) else 1
    return [f"k{first + i}" for i in range(count)]


def _ordered(key: exp.Ordered, name: str) -> exp.Ordered:
    return exp.Ordered(**{**key.args, "this": _of(name)})


def _of(name: str) -> exp.Column:
    return exp.column(name, table=_ROWS)


def _carrying(query: exp.Query, items: Sequence[exp.Expr | None]) -> exp.Query:
    """The query with the items at the end of its select list."""
    found = [item.copy() for item in items if item is not None]
    if not found:
        return query.copy()
    if isinstance(query, exp.Select):
        return query.copy().select(*found)
    inner = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(_ROWS)))
    return exp.select("*", *found).from_(inner)

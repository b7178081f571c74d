"""ARRAY(query) as a scalar subquery that gathers the query's rows in a list.

Law: ARRAY(Q) is `SELECT coalesce(list(v ORDER BY k₁, …), []) FROM Q`, where v is Q's one column and
the kᵢ are the keys of its ORDER BY, carried beside v. As DuckDB does it, a carried key is one more
item of Q's select list: there, a column hides an alias of its name.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.plan import NotIncremental

_ROWS = "_ivm_rows"
_VALUE = "v"
_PLACES = (exp.Literal, exp.Var)  # 1, ALL


def gathered(query: exp.Query) -> exp.Expression:
    """The query of one row that ARRAY(query) stands for, unbound.

    Raises:
        NotIncremental: ORDER BY ALL of a SELECT.
    """
    order = query.args.get("order")
    keys: list[exp.Ordered] = order.expressions if order is not None else []
    if isinstance(query, exp.Select) and any(isinstance(key.this, exp.Var) for key in keys):
        raise NotIncremental("ARRAY(… ORDER BY ALL), which is by all columns of its FROM clause")
    names = [_VALUE if isinstance(k.this, _PLACES) else f"k{i}" for i, k in enumerate(keys)]
    carried = {n: key.this for n, key in zip(names, keys, strict=True) if n != _VALUE}
    placed = [exp.Ordered(**{**k.args, "this": _of(n)}) for k, n in zip(keys, names, strict=True)]
    value = _of(_VALUE)
    listed = exp.Order(this=value, expressions=placed) if placed else value
    gathering = exp.Coalesce(this=exp.ArrayAgg(this=listed), expressions=[exp.Array()])
    columns = [exp.to_identifier(name) for name in (_VALUE, *carried)]
    alias = exp.TableAlias(this=exp.to_identifier(_ROWS), columns=columns)
    rows = exp.Subquery(this=_carrying(query, list(carried.values())), alias=alias)
    return exp.select(gathering).from_(rows)


def _of(name: str) -> exp.Column:
    return exp.column(name, table=_ROWS)


def _carrying(query: exp.Query, keys: Sequence[exp.Expression]) -> exp.Query:
    """The query with the keys as further columns."""
    if not keys:
        return query.copy()
    if isinstance(query, exp.Select):
        return query.copy().select(*[key.copy() for key in keys])
    inner = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(_ROWS)))
    return exp.select("*", *[key.copy() for key in keys]).from_(inner)

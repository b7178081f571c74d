"""LIMIT and OFFSET by subqueries and percentages: the places of the rows to keep, as a plan.

Law: one row, (first, last): the rows at the places first + 1 … last are kept. As in DuckDB, NULL is
no bound, a percentage p of n rows is ⌊p / 100 · n⌋ whatever the offset, and numbers are rounded as
casts round doubles; what is negative, or above 100 %, is an error.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp

from ivm.sql.bind.limits import Limit, WrittenLimit
from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.plan.expressions import cast, column, replace
from ivm.sql.plan.nodes import Join, NotIncremental, Plan, Values, types
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.scope import Bound, Scope
from ivm.sql.subqueries.attach import attached
from ivm.sql.subqueries.nested import Nesting
from ivm.sql.subqueries.single_row import counted
from ivm.storage.values.order import orderable
from ivm.storage.values.types import type_of

BindQuery = Callable[[exp.Expression, Context], Bound]

_SINGLE = Values(((exp.true(),),), (("c0", type_of("BOOLEAN")),))
_END = 1 << 60
_NUMBER = f"""CASE WHEN c0 < 0 THEN error('LIMIT and OFFSET cannot be negative')
    WHEN c0 > {_END} THEN {_END} ELSE c0 END"""
_FIRST = f"coalesce({_NUMBER}, 0)"
_LAST = f"coalesce({_NUMBER}, {_END})"
_SHARE = f"""CASE WHEN c0 < 0 OR c0 > 100
    THEN error('Limit percent out of range, should be between 0% and 100%')
    ELSE coalesce(CAST(floor(c0 / 100.0 * c1) AS BIGINT), {_END}) END"""


def places_of(
    limit: Limit | WrittenLimit, context: Context, bind: BindQuery
) -> Limit | Callable[[Plan], Plan]:
    """Constant bounds as they are; of others, what gives the places for the rows to choose from.

    Args:
        bind: binds a nested query.
    """
    return limit if isinstance(limit, Limit) else lambda rows: _places(limit, rows, context, bind)


def _places(limit: WrittenLimit, rows: Plan, context: Context, bind: BindQuery) -> Plan:
    if not all(orderable(kind) for kind in types(rows)):
        raise NotIncremental("LIMIT by what is no constant over nested values")
    nesting = Nesting(context, _SINGLE, bind)
    written = [exp.Null() if e is None else e for e in (limit.count, limit.offset)]
    bound = [bind_scalar(e, Scope(), context.functions, nesting=nesting) for e in written]
    plan, values = attached(_SINGLE, bound, context)
    plan = context.project(plan, values)
    count, offset = [_as_number(plan, i, limit.percent and i == 0) for i in range(2)]
    first = _filled(_FIRST, [offset])
    if limit.percent:
        plan = Join(plan, counted(rows, context), "inner")
    last = _filled(_SHARE if limit.percent else _LAST, [count, column(2)])
    return context.project(plan, [first, exp.Add(this=first.copy(), expression=last)])


def _as_number(plan: Plan, index: int, as_share: bool) -> exp.Expression:
    """A column as DuckDB reads it: what is no integer by way of DOUBLE."""
    kind = types(plan)[index]
    if as_share:
        return cast(column(index), type_of("DOUBLE"))
    whole = kind.is_integer or kind.is_string
    number = column(index) if whole else cast(column(index), type_of("DOUBLE"))
    return cast(number, type_of("BIGINT"))


def _filled(text: str, images: list[exp.Expression]) -> exp.Expression:
    """An expression with images for its columns."""
    tree = sqlglot.parse_one(text, dialect="duckdb")
    assert isinstance(tree, exp.Expression)
    return replace(tree, lambda node: images[int(node.name[1:])])

"""LIMIT and OFFSET, constant or computed, with the order that chooses the rows.

Law: the chosen rows are a function of the multiset below: sort keys first, then all columns.

Law: bounds by subqueries and percentages are a plan of one row, (first, last): the rows of ranks
first … last − 1 are chosen. As in DuckDB, NULL is no bound, a percentage p of n rows is
⌊p / 100 · n⌋ whatever the offset, and numbers are rounded as casts round doubles. A negative number
and a percentage above 100 make `last` negative: they are errors once there is a row to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import duckdb
import sqlglot
from sqlglot import exp

from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.plan.expressions import cast, column, position, replace, text
from ivm.sql.plan.nodes import DynamicLimit, Join, NotIncremental, Plan, TopK, types, width
from ivm.sql.resolve.columns_calls import is_all
from ivm.sql.resolve.context import ONE_ROW, BindQuery, Context
from ivm.sql.resolve.duckdb_types import probe
from ivm.sql.resolve.scope import Scope
from ivm.sql.subqueries.attach import attached
from ivm.sql.subqueries.endless_recursion import refuse_endless
from ivm.sql.subqueries.nested import Nesting
from ivm.sql.subqueries.single_row import counted
from ivm.storage.values.ordering.order import OrderKey, orderable
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import rows


@dataclass(frozen=True)
class Limit:
    """Constant bounds.

    Attributes:
        count: None for no end.
    """

    count: int | None
    offset: int


@dataclass(frozen=True)
class WrittenLimit:
    """Bounds that depend on the data.

    Attributes:
        count: unbound; None for no end.
        percent: `count` is a share of the rows.
        offset: unbound; None for none.
    """

    count: exp.Expr | None
    percent: bool
    offset: exp.Expr | None


def read_limit(node: exp.Expr) -> Limit | WrittenLimit | None:
    """The LIMIT and OFFSET of a query; None if it has neither.

    Raises:
        NotIncremental: WITH TIES, or a constant that DuckDB alone can compute.
    """
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is None and offset is None:
        return None
    options = None if limit is None else limit.args.get("limit_options")
    if options is not None and options.args.get("with_ties"):
        raise NotIncremental("LIMIT WITH TIES")
    written = limit.args.get("count") if isinstance(limit, exp.Fetch) else None
    written = limit.expression if limit is not None and written is None else written
    passed = None if offset is None else offset.expression
    percent = bool(options is not None and options.args.get("percent"))
    if percent or any(part is not None and part.find(exp.Query) for part in (written, passed)):
        return WrittenLimit(written, percent, passed)
    count = None if written is None else _integer(written, "LIMIT")
    return Limit(count, 0 if passed is None else _integer(passed, "OFFSET") or 0)


def _integer(node: exp.Expr, clause: str) -> int | None:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    if isinstance(node, exp.Null) or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
        return None
    if node.find(exp.Placeholder, exp.Parameter):
        raise NotIncremental(f"{clause} with a parameter")
    try:
        with probe() as cursor:
            ((value,),) = rows(cursor, f"SELECT ({text(node)})::BIGINT")
    except duckdb.Error as error:
        raise NotIncremental(f"{clause} with an expression") from error
    return None if value is None else int(value)


def limited(
    plan: Plan,
    keys: Sequence[exp.Ordered],
    bind_key: Callable[[exp.Expr], exp.Expr],
    limit: Limit | Callable[[Plan], Plan],
    context: Context,
    partition: Sequence[exp.Expr] = (),
) -> Plan:
    """The rows of `plan` that LIMIT chooses, in each partition if there is one.

    Args:
        keys: the ORDER BY.
        bind_key: binds a key's expression over the plan's columns.
        limit: constants, or a function from the rows to the plan of the bounds (see above), which
            takes no partitions.
        partition: bound expressions.

    Raises:
        NotIncremental: DuckDB may end a recursive query below early.
    """
    bounded = not isinstance(limit, Limit) or limit.count is not None
    if bounded and not keys and not partition:
        refuse_endless(plan, "LIMIT without ORDER BY")
    before = width(plan)
    bound = [bind_key(k.this) for k in keys]
    extra = [e for e in [*partition, *bound] if position(e) is None]
    extended = context.project(plan, [column(i) for i in range(before)] + extra) if extra else plan
    free = iter(range(before, width(extended)))
    positions = [next(free) if (p := position(e)) is None else p for e in [*partition, *bound]]
    order = _order(positions[len(partition) :], keys)
    groups = tuple(dict.fromkeys(positions[: len(partition)]))
    top: Plan
    if not isinstance(limit, Limit):
        top = DynamicLimit(extended, limit(extended), order)
        return context.narrow(top, list(range(before))) if extra else top
    top = TopK(extended, groups, order, limit.count, limit.offset, False, extended.schema)
    return context.narrow(top, list(range(before))) if extra else top


def spread(keys: Sequence[exp.Ordered], count: int) -> list[exp.Ordered]:
    """ORDER BY ALL as its columns."""
    if len(keys) == 1 and is_all(keys[0].this):
        return [
            exp.Ordered(
                this=exp.Literal.number(i + 1),
                desc=keys[0].args.get("desc"),
                nulls_first=keys[0].args.get("nulls_first"),
            )
            for i in range(count)
        ]
    return list(keys)


def _order(positions: Sequence[int], keys: Sequence[exp.Ordered]) -> tuple[OrderKey, ...]:
    """The order by positions; a column that is ordered twice has its first key."""
    found: dict[int, OrderKey] = {}
    for index, key in zip(positions, keys, strict=True):
        descending = bool(key.args.get("desc"))
        nulls_first = bool(key.args.get("nulls_first"))
        found.setdefault(index, OrderKey(index, descending, nulls_first))
    return tuple(found.values())


_END = 1 << 60  # more rows than there are; the sum of two of them is a BIGINT
_WRONG = -2 * _END  # a sum with it is negative
_NUMBER = f"CASE WHEN c0 < 0 THEN {_WRONG} WHEN c0 > {_END} THEN {_END} ELSE c0 END"
_FIRST = f"coalesce({_NUMBER}, 0)"
_LAST = f"coalesce({_NUMBER}, {_END})"
_SHARE = f"""CASE WHEN c0 < 0 OR c0 > 100 THEN {_WRONG}
    ELSE coalesce(CAST(floor(c0 / 100.0 * c1) AS BIGINT), {_END}) END"""


def bounds_of(
    limit: Limit | WrittenLimit, context: Context, bind: BindQuery
) -> Limit | Callable[[Plan], Plan]:
    """Constant bounds unchanged; for others, a function from the rows to the plan of the bounds.

    Args:
        bind: binds a nested query.
    """
    return limit if isinstance(limit, Limit) else lambda rows: _bounds(limit, rows, context, bind)


def _bounds(limit: WrittenLimit, rows: Plan, context: Context, bind: BindQuery) -> Plan:
    if not all(orderable(kind) for kind in types(rows)):
        raise NotIncremental("LIMIT by what is no constant over nested values")
    nesting = Nesting(context, ONE_ROW, bind)
    written = [exp.Null() if e is None else e for e in (limit.count, limit.offset)]
    bound = [bind_scalar(e, Scope(), context.functions, nesting=nesting) for e in written]
    plan, values = attached(ONE_ROW, bound, context)
    plan = context.project(plan, values)
    count, offset = [_as_number(plan, i, limit.percent and i == 0) for i in range(2)]
    first = _filled(_FIRST, [offset])
    if limit.percent:
        plan = Join(plan, counted(rows, context), "inner")
    last = _filled(_SHARE if limit.percent else _LAST, [count, column(2)])
    return context.project(plan, [first, exp.Add(this=first.copy(), expression=last)])


def _as_number(plan: Plan, index: int, as_share: bool) -> exp.Expr:
    """A column as a number, cast as DuckDB does: by way of DOUBLE unless integer or string."""
    kind = types(plan)[index]
    if as_share:
        return cast(column(index), type_of("DOUBLE"))
    is_direct = kind.is_integer or kind.is_string
    number = column(index) if is_direct else cast(column(index), type_of("DOUBLE"))
    return cast(number, type_of("BIGINT"))


def _filled(text: str, images: list[exp.Expr]) -> exp.Expr:
    """An expression with images for its columns."""
    tree = sqlglot.parse_one(text, dialect="duckdb")
    assert isinstance(tree, exp.Expr)
    return replace(tree, lambda node: images[int(node.name[1:])])

"""ASOF joins: each left row with the nearest right row of its key.

Law: order the rows of both sides under each key by the compared value, right rows before or after
left ones as equality counts or not; then the nearest right row of a left one is the last right row
before it. Of right rows with equal keys and values the first in the order of all columns is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sqlglot
from sqlglot import exp

from ivm.sql.bind_context import Context
from ivm.sql.bind_scope import Bound
from ivm.sql.bind_types import comparison_type, probe
from ivm.sql.columns import cast, column, conjunction, remap, used
from ivm.sql.plan import Filter, NotIncremental, Plan, types, width
from ivm.storage.types import ColumnType

BindQuery = Callable[[exp.Expression, Context], Bound]

_MIRRORED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}
Pair = tuple[exp.Expression, exp.Expression]


def asof_joined(
    left: Plan, right: Plan, kind: str, terms: list[exp.Expression], context: Context,
    bind: BindQuery,
) -> Plan:  # fmt: skip
    """The join's rows: the left columns, then the right ones.

    Args:
        kind: ``inner`` or ``left``.
        terms: the condition over both sides' columns.
        bind: binds a query.
    """
    if kind not in ("inner", "left"):
        raise NotIncremental(f"an ASOF join of kind {kind}")
    split = width(left)
    own = [t for t in terms if used(t) and min(used(t)) >= split]
    only = conjunction([remap(t, lambda i: i - split) for t in own])
    right = right if only is None else Filter(right, only)
    pairs = [_sides(t, split) for t in terms if t not in own]
    keys = [pair for operator, pair in pairs if operator is exp.EQ]
    nearest = [(operator, pair) for operator, pair in pairs if operator is not exp.EQ]
    if len(nearest) != 1:
        raise NotIncremental("an ASOF join with several inequalities")
    ((operator, compared),) = nearest
    sides = _with_keys(left, right, [*keys, compared], context)
    inner = replace(context, ctes={**context.ctes, **sides})
    text = _query(split, width(right), len(keys), operator, kind)
    query = sqlglot.parse_one(text, dialect="duckdb")
    assert isinstance(query, exp.Select)
    return bind(query, inner).plan


def _sides(term: exp.Expression, split: int) -> tuple[type[exp.Expression], Pair]:
    """The comparison with its left side over the left plan, its right side over the right one."""
    bare = term.unnest()
    operator: type[exp.Expression] = type(bare)  # type: ignore[assignment]
    if operator not in _MIRRORED or not isinstance(bare, exp.Binary):
        raise NotIncremental("an ASOF join with a further condition")
    a, b = bare.this.unnest(), bare.expression.unnest()
    if not used(a) or not used(b):
        raise NotIncremental("an ASOF join with a condition on one side")
    if min(used(a)) >= split:
        a, b, operator = b, a, _MIRRORED[operator]
    if max(used(a)) >= split or min(used(b)) < split:
        raise NotIncremental("an ASOF join with a condition that mixes its sides")
    return operator, (a, remap(b, lambda i: i - split))


def _with_keys(left: Plan, right: Plan, pairs: list[Pair], context: Context) -> dict[str, Bound]:
    """Both sides' columns, NULLs for the other side's, and what is compared, in the types DuckDB
    compares in."""
    found = []
    for number, plan in enumerate((left, right)):
        exprs = [pair[number] for pair in pairs]
        found.append(context.types(exprs, plan))
    wanted = [_common(a, b) for a, b in zip(*found, strict=True)]
    sides = {}
    both = (("l", "a", left, "b", right), ("r", "b", right, "a", left))
    for number, (name, letter, plan, other_letter, other) in enumerate(both):
        own = [
            pair[number] if has == type else cast(pair[number], type)
            for pair, has, type in zip(pairs, found[number], wanted, strict=True)
        ]
        nulls = [cast(exp.null(), type) for type in types(other)]
        whole = context.project(plan, [*[column(i) for i in range(width(plan))], *nulls, *own])
        names = [f"{letter}{i}" for i in range(width(plan))]
        names += [f"{other_letter}{i}" for i in range(width(other))]
        keys = [f"k{i}" for i in range(len(pairs) - 1)]
        sides[f"_asof_{name}"] = Bound(whole, (*names, *keys, "v"))
    return sides


def _common(left: ColumnType, right: ColumnType) -> ColumnType:
    with probe() as cursor:
        wanted = comparison_type(cursor, left, right)
    if wanted is None or ((left.is_string or right.is_string) and not wanted.is_string):
        raise NotIncremental(f"an ASOF join of {left.sql} with {right.sql}")
    return wanted


def _query(left: int, right: int, keys: int, operator: type[exp.Expression], kind: str) -> str:
    """The join over the two sides, `there` marking right rows."""
    names = [f"k{i}" for i in range(keys)]
    a, b = [f"a{i}" for i in range(left)], [f"b{i}" for i in range(right)]
    compared = ", ".join([*names, "v"])
    present = " AND ".join(f"{name} IS NOT NULL" for name in [*names, "v"])
    equal = operator in (exp.GTE, exp.LTE)
    direction = "ASC" if operator in (exp.GT, exp.GTE) else "DESC"
    partition = f"PARTITION BY {', '.join(names)} " if names else ""
    fields = ", ".join(["there := TRUE", *[f"{name} := {name}" for name in b]])
    every = ", ".join([*a, *b])
    shown = [f"CASE WHEN v IS NOT NULL THEN struct_extract(m, '{n}') END AS {n}" for n in b]
    matched = " AND v IS NOT NULL AND struct_extract(m, 'there')" if kind == "inner" else ""
    return f"""
        SELECT {", ".join([*a, *shown])} FROM (
            SELECT *, last_value(CASE WHEN there THEN struct_pack({fields}) END IGNORE NULLS) OVER (
                {partition}ORDER BY v {direction} NULLS LAST, side
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS m
            FROM (
                SELECT {compared}, {int(equal)} AS side, FALSE AS there, {every}
                FROM _asof_l
                UNION ALL
                SELECT {compared}, {int(not equal)} AS side, TRUE AS there, {every}
                FROM (SELECT DISTINCT ON ({compared}) * FROM _asof_r WHERE {present})))
        WHERE NOT there{matched}"""

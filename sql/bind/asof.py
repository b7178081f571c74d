"""ASOF joins: each left row with the nearest right row of its key.

Law: of right rows with equal keys and values, only the first in the order of all columns is joined.
It is the nearest row from its own value up to (or down to) the next value of its key, which a
window function finds, so the join is a range join. A left row has no partner if no right row of its
key meets the inequality; a right row has none if no left row is joined with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from ivm.sql.bind.join_names import WrittenKind
from ivm.sql.plan.expressions import column, compared, conjunction, remap, text, used
from ivm.sql.plan.nodes import (
    Distinct,
    Join,
    JoinKind,
    NotIncremental,
    Plan,
    Union,
    Window,
    filtered_by,
    width,
)
from ivm.sql.plan.walks import with_inputs
from ivm.sql.resolve.context import BindQuery, Context
from ivm.sql.resolve.scope import Bound
from ivm.sql.rewrite.expand_joins import padded, picked
from ivm.sql.rewrite.split_keys import JoinSide, casts_strings, common_type

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
}
# How the left value must compare with the next right value, for the row before that to be nearest.
_NOT_BEYOND: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
}
Pair = tuple[exp.Expr, exp.Expr]


class _Condition(NamedTuple):
    """The condition on which two rows are candidates.

    Attributes:
        kinds: the operator that compares each pair; the last one is the inequality's.
        left: terms over the left columns alone.
        right: terms over the right columns alone.
    """

    kinds: list[type[exp.Expr]]
    pairs: list[Pair]
    left: list[exp.Expr]
    right: list[exp.Expr]


class _Keyed(NamedTuple):
    """Both sides with the compared values as columns, in the types in which DuckDB compares them.

    Attributes:
        positions: of each pair, in the left and in the right side.
    """

    left: Plan
    right: Plan
    kinds: list[type[exp.Expr]]
    positions: list[tuple[int, int]]

    def term(self, number: int) -> exp.Expr:
        """The comparison of a pair."""
        a, b = self.positions[number]
        return self.compared(self.kinds[number], a, b)

    def compared(self, kind: type[exp.Expr], a: int, b: int) -> exp.Expr:
        """A left column compared with a right one."""
        return compared(kind, column(a), column(width(self.left) + b))  # type: ignore[arg-type]

    def terms(self) -> list[exp.Expr]:
        return [self.term(i) for i in range(len(self.kinds))]


def asof_joined(
    left: Plan, right: Plan, kind: WrittenKind, terms: list[exp.Expr], context: Context,
    bind: BindQuery,
) -> Plan:  # fmt: skip
    """The join, with the columns of both sides (semi and anti: of the left one).

    Args:
        terms: the condition over both sides' columns.
        bind: binds a query.
    """
    condition = _condition(terms, width(left))
    keyed = _with_keys(left, right, condition)
    if kind in ("semi", "anti"):
        return picked(_candidates(keyed, kind, condition), range(width(left)))
    pairs = _pairs(keyed, condition, context, bind)
    first, last = width(left), width(keyed.left)
    found = picked(pairs, [*range(first), *range(last, last + width(right))])
    parts: list[Plan] = [found]
    if kind in ("left", "full"):
        rest = picked(_candidates(keyed, "anti", condition), range(first))
        parts.append(padded(rest, found.schema, 0))
    if kind in ("right", "full"):
        met = Distinct(picked(found, range(first, width(found))))
        rest = Union((right, met), right.schema, negated=(1,))
        parts.append(padded(rest, found.schema, first))
    return found if len(parts) == 1 else Union(tuple(parts), found.schema)


def _condition(terms: list[exp.Expr], split: int) -> _Condition:
    kinds, pairs, left, right = [], [], [], []
    for term in terms:
        columns = used(term)
        if columns and max(columns) < split:
            left.append(term)
        elif columns and min(columns) >= split:
            right.append(remap(term, lambda i: i - split))
        else:
            kind, pair = _sides(term, split)
            kinds.append(kind)
            pairs.append(pair)
    order = sorted(range(len(kinds)), key=lambda i: kinds[i] in _NOT_BEYOND)
    kinds, pairs = [kinds[i] for i in order], [pairs[i] for i in order]
    if sum(kind in _NOT_BEYOND for kind in kinds) != 1:
        raise NotIncremental("an ASOF join with several inequalities")
    return _Condition(kinds, pairs, left, right)


def _candidates(keyed: _Keyed, kind: JoinKind, condition: _Condition) -> Plan:
    """The left rows with (semi) or without (anti) a candidate on the right."""
    right = filtered_by(keyed.right, condition.right)
    residual = conjunction([*keyed.terms(), *condition.left])
    return Join(keyed.left, right, kind, residual=residual)


def _pairs(keyed: _Keyed, condition: _Condition, context: Context, bind: BindQuery) -> Plan:
    """The left rows, each joined with the nearest right row."""
    right = filtered_by(keyed.right, condition.right)
    nearest = _nearest(keyed._replace(right=right), context, bind)
    value, further = keyed.positions[-1][0], width(right)
    within = exp.Or(
        this=exp.Is(this=column(width(keyed.left) + further), expression=exp.Null()),
        expression=keyed.compared(_NOT_BEYOND[keyed.kinds[-1]], value, further),
    )
    residual = conjunction([*keyed.terms(), within])
    return Join(filtered_by(keyed.left, condition.left), nearest, "inner", residual=residual)


def _nearest(keyed: _Keyed, context: Context, bind: BindQuery) -> Plan:
    """The right rows, each with the next value of its key as last column.

    Of rows with equal keys and values, the one to be joined is ordered last (first, going down).
    The next value of the others is their own, so they are nearest to no left row.
    """
    names = [f"c{i}" for i in range(width(keyed.right))]
    compared_by = [names[b] for _, b in keyed.positions]
    keys, value = compared_by[:-1], compared_by[-1]
    pairs = zip(compared_by, keyed.kinds, strict=True)
    present = [f"{name} IS NOT NULL" for name, kind in pairs if kind is not exp.NullSafeEQ]
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    function, order = "lag", [value]
    if keyed.kinds[-1] in (exp.GT, exp.GTE):
        others = [name for name in names if name not in compared_by]
        function, order = "lead", [value, *[f"{name} DESC NULLS FIRST" for name in others]]
    nearest = f"""
        SELECT *, {function}({value}) OVER ({partition}ORDER BY {", ".join(order)}) AS further
        FROM _asof WHERE {" AND ".join(present)}"""
    query = sqlglot.parse_one(nearest, dialect="duckdb")
    assert isinstance(query, exp.Select)
    inner = replace(context, ctes={**context.ctes, "_asof": Bound(keyed.right, tuple(names))})
    return _ordered_by_one(bind(query, inner).plan)


def _ordered_by_one(plan: Plan) -> Plan:
    """The plan with one key of its window's order declared the user's: the others break ties."""
    if isinstance(plan, Window):
        return replace(plan, given=1)
    return with_inputs(plan, _ordered_by_one)


def _sides(term: exp.Expr, split: int) -> tuple[type[exp.Expr], Pair]:
    """Reads a comparison, its left side over the left plan and its right one over the right plan.

    Raises:
        NotIncremental: the term is something else, or mixes the plans in one side.
    """
    bare = term.unnest()
    operator: type[exp.Expr] = type(bare)
    if operator not in _MIRRORED or not isinstance(bare, exp.Binary):
        raise NotIncremental("an ASOF join with a further condition")
    a, b = bare.this.unnest(), bare.expression.unnest()
    if not used(a) or not used(b):
        raise NotIncremental("an ASOF join with a further condition")
    if min(used(a)) >= split:
        a, b, operator = b, a, _MIRRORED[operator]
    if max(used(a)) >= split or min(used(b)) < split:
        raise NotIncremental("an ASOF join with a condition that mixes its sides")
    return operator, (a, remap(b, lambda i: i - split))


def _with_keys(left: Plan, right: Plan, condition: _Condition) -> _Keyed:
    sides = JoinSide(left), JoinSide(right)
    positions = []
    for a, b in condition.pairs:
        wanted = common_type(*sides, a, b)
        if wanted is None or casts_strings(*sides, a, b, wanted):
            raise NotIncremental(f"an ASOF join that compares {text(a)} with {text(b)}")
        positions.append((sides[0].position_of(a, wanted), sides[1].position_of(b, wanted)))
    return _Keyed(sides[0].keyed(), sides[1].keyed(), condition.kinds, positions)

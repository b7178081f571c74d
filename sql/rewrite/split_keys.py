"""Equalities between the two sides of a join become its keys.

Law: a key column has one type on both sides, in which DuckDB compares them; where that is unknown,
the equality stays in the residual. Keys that are expressions are computed below the join.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb
from sqlglot import exp

from ivm.sql.plan.expressions import (
    cast,
    column,
    conjunction,
    conjuncts,
    position,
    remap,
    text,
    used,
)
from ivm.sql.plan.nodes import Join, NotIncremental, Plan, Project, width
from ivm.sql.resolve.duckdb_types import comparison_type, probe, types_of
from ivm.storage.values.types import ColumnType


def equality_sides(term: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Both sides of an `=` or IS NOT DISTINCT FROM; None for any other term."""
    bare = term.unnest()
    if isinstance(bare, (exp.EQ, exp.NullSafeEQ)):
        return bare.this.unnest(), bare.expression.unnest()
    return None


def split_keys(plan: Join) -> Plan:
    """Takes keys from the join's residual; the columns stay the same.

    Raises:
        NotIncremental: a string would be cast below the join.
    """
    split = width(plan.left)
    left, right = JoinSide(plan.left), JoinSide(plan.right)
    keys: list[tuple[int, int, bool]] = []
    rest = []
    for term in conjuncts(plan.residual):
        sides = _sides(term, split)
        key = None if sides is None else _key(left, right, *sides)
        if key is None:
            rest.append(term)
        else:
            keys.append((*key, isinstance(term.unnest(), exp.NullSafeEQ)))
    return _with_keys(plan, left, right, keys, rest)


def _sides(term: exp.Expr, split: int) -> tuple[exp.Expr, exp.Expr] | None:
    """An equality's side over the left input, and its side over the right one (by its positions).

    None for a term that is no equality of the two inputs.
    """
    sides = equality_sides(term)
    if sides is None or not (used(sides[0]) and used(sides[1])):
        return None
    a, b = sides
    if min(used(a)) >= split:
        a, b = b, a
    if max(used(a)) >= split or min(used(b)) < split:
        return None
    return a, remap(b, lambda i: i - split)


class JoinSide:
    """One input of a join and the key columns added to it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.exprs = [column(i) for i in range(width(plan))]
        self.schema = list(plan.schema)
        self._positions: dict[str, int] = {}
        self._types: dict[str, ColumnType] = {}

    def type(self, expr: exp.Expr) -> ColumnType:
        """The expression's type. Raises duckdb.Error where only the user's database knows it."""
        known = position(expr)
        if known is not None:
            return self.plan.schema[known][1]
        key = text(expr)
        if key not in self._types:
            with probe() as cursor:
                self._types[key] = types_of(cursor, [key], self.plan.schema)[0]
        return self._types[key]

    def position_of(self, expr: exp.Expr, wanted: ColumnType) -> int:
        """The position of the expression in the wanted type, added as a column if there is none."""
        known, own = position(expr), self.type(expr)
        if known is not None and own == wanted:
            return known
        expr = expr if own == wanted else cast(expr, wanted)
        key = text(expr)
        if key not in self._positions:
            self._positions[key] = len(self.exprs)
            self.exprs.append(expr)  # type: ignore[arg-type]
            self.schema.append((f"c{len(self.schema)}", wanted))
        return self._positions[key]

    def keyed(self) -> Plan:
        """The input with the columns that were added."""
        if not self._positions:
            return self.plan
        return Project(self.plan, tuple(self.exprs), tuple(self.schema))


def common_type(left: JoinSide, right: JoinSide, a: exp.Expr, b: exp.Expr) -> ColumnType | None:
    """The type in which DuckDB compares an expression of each side; None if that is not known."""
    try:
        own_a, own_b = left.type(a), right.type(b)
        with probe() as cursor:
            return comparison_type(cursor, own_a, own_b)
    except duckdb.Error:  # a type or function that only the user's database knows
        return None


def casts_strings(
    left: JoinSide, right: JoinSide, a: exp.Expr, b: exp.Expr, wanted: ColumnType
) -> bool:
    """Returns whether a string would be cast to the wanted type.

    DuckDB deviation: it casts in the rows that it compares, but a column below the join casts in
    all rows, also in those whose string is no number.
    """
    return not wanted.is_string and (left.type(a).is_string or right.type(b).is_string)


def _key(left: JoinSide, right: JoinSide, a: exp.Expr, b: exp.Expr) -> tuple[int, int] | None:
    wanted = common_type(left, right, a, b)
    if wanted is None:
        return None
    if casts_strings(left, right, a, b, wanted):
        raise NotIncremental(f"a join of text with {wanted.sql}")
    return left.position_of(a, wanted), right.position_of(b, wanted)


def _with_keys(
    plan: Join,
    left: JoinSide,
    right: JoinSide,
    keys: list[tuple[int, int, bool]],
    rest: list[exp.Expr],
) -> Plan:
    split = width(plan.left)
    added = len(left.exprs) - split
    residual = conjunction([remap(t, lambda i: i if i < split else i + added) for t in rest])
    joined = replace(
        plan,
        left=left.keyed(),
        right=right.keyed(),
        left_keys=tuple(a for a, _, _ in keys),
        right_keys=tuple(b for _, b, _ in keys),
        null_safe=tuple(safe for _, _, safe in keys),
        residual=residual,
    )
    if width(joined) == width(plan):
        return joined
    exprs = tuple(column(i if i < split else i + added) for i in range(width(plan)))
    return Project(joined, exprs, plan.schema)

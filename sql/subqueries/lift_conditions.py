"""Conditions on a nested query's parameters, pulled up to its join with the outer query.

Law: for all values p of the parameters, the query's rows are the rows of `plan` where all terms
hold for p. Past a node that groups, ranks or distinguishes rows, only equalities `column =
parameter` are pulled up, and the column joins its keys: each group then belongs to one value. So
the join with the outer query needs no domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.plan.columns import expressions
from ivm.sql.plan.expressions import (
    cast,
    column,
    compared,
    conjunction,
    conjuncts,
    position,
    remap,
    text,
    used,
)
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    SetOp,
    TopK,
    Union,
    Unnest,
    Window,
    filtered_by,
    types,
    width,
)
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import comparison_type
from ivm.sql.rewrite.carry_columns import Single, carried, columns, united, without_groups
from ivm.sql.rewrite.split_keys import equality_sides
from ivm.sql.subqueries.parameters import is_free, parameter_of, parameters


@dataclass(frozen=True)
class LiftedConditions:
    """A query that no longer reads its parameters, and the conditions on them.

    Attributes:
        plan: the query's columns, then the further columns that the terms read.
        terms: over the plan's columns and the parameters.
    """

    plan: Plan
    terms: list[exp.Expr]


class ConditionLift:
    """Pulls up the conditions of one nested query.

    Args:
        query: its number.
        existence: the query is only tested for rows, so their weights do not matter.
    """

    def __init__(self, query: int, context: Context, existence: bool = False) -> None:
        self._query = query
        self._context = context
        self._existence = existence

    def lifted(self, plan: Plan) -> LiftedConditions | None:
        """Pulls up all conditions on parameters; None if a parameter is read anywhere else."""
        if not self._free(plan):
            return LiftedConditions(plan, [])
        match plan:
            case Filter():
                return self._filter(plan)
            case Join():
                return self._join(plan)
            case Project() | Unnest():
                return self.carried(plan, self.lifted(plan.input))
            case Distinct() if self._existence:
                return self.lifted(plan.input)
            case Aggregate() | GroupRecompute() if without_groups(plan):
                return None
            case Aggregate() | GroupRecompute() | Distinct() | TopK() | Window():
                return self.grouped(plan)
            case Union() | SetOp():
                return self._sides(plan)
            case _:
                return None

    def grouped(self, plan: Single) -> LiftedConditions | None:
        """The node that groups, ranks or distinguishes rows, with the keys of its input as keys."""
        return self.carried(plan, self._keyed(plan.input))

    def carried(self, plan: Single, below: LiftedConditions | None) -> LiftedConditions | None:
        """The node over an input with terms, carrying the columns that these read."""
        if below is None or any(self._names(e) for e in expressions(plan)):
            return None
        read = sorted(_read(below.terms))
        positions = {old: width(plan) + new for new, old in enumerate(read)}
        made = carried(plan, below.plan, read).behind()
        return LiftedConditions(made, [remap(t, positions.__getitem__) for t in below.terms])

    def _keyed(self, plan: Plan) -> LiftedConditions | None:
        """The query with a key behind its columns for each term, which equates it to a value.

        None if some term is no equality `column = parameter`.
        """
        below = ConditionLift(self._query, self._context).lifted(plan)
        if below is None:
            return None
        found = [key for t in below.terms if (key := self._key(t, below.plan)) is not None]
        if len(found) < len(below.terms):
            return None
        start = width(plan)
        exprs = [*columns(range(start)), *[own for own, _, _ in found]]
        terms = [compared(k, column(i), v) for i, (_, v, k) in enumerate(found, start)]
        return LiftedConditions(self._context.project(below.plan, exprs), terms)

    def fixed(self, lifted: LiftedConditions) -> set[int]:
        """The columns that have one value in all rows where all terms hold."""
        keys = [self._key(term, lifted.plan) for term in lifted.terms]
        found = [position(key[0]) for key in keys if key is not None]
        return {i for i in found if i is not None}

    def _free(self, plan: Plan) -> bool:
        return is_free(plan, self._query)

    def _names(self, expr: exp.Expr) -> bool:
        return bool(parameters(expr, self._query))

    def _key(
        self, term: exp.Expr, plan: Plan
    ) -> tuple[exp.Expr, exp.Expr, type[exp.Binary]] | None:
        """An equality's column side and parameter side in the type compared, and its operator.

        None for any other term.
        """
        sides = equality_sides(term)
        if sides is None:
            return None
        own, value = sides if self._names(sides[1]) else (sides[1], sides[0])
        bare = value.this.unnest() if isinstance(value, exp.Cast) else value
        if parameter_of(bare, self._query) is None or self._names(own) or not used(own):
            return None
        inside, outside = self._context.types([own, value], plan)
        if inside.is_string != outside.is_string:
            return None
        wanted = comparison_type(self._context.cursor, inside, outside)
        if wanted is None:
            return None
        own = own if inside == wanted else cast(own, wanted)
        value = value if outside == wanted else cast(value, wanted)
        safe = isinstance(term.unnest(), exp.NullSafeEQ)
        return own, value, exp.NullSafeEQ if safe else exp.EQ

    def _filter(self, plan: Filter) -> LiftedConditions | None:
        below = self.lifted(plan.input)
        if below is None:
            return None
        terms = conjuncts(plan.predicate)
        mine = [t for t in terms if self._names(t)]
        rest = [t for t in terms if not self._names(t)]
        return LiftedConditions(filtered_by(below.plan, rest), below.terms + mine)

    def _join(self, plan: Join) -> LiftedConditions | None:
        depends = self._free(plan.right) or (
            plan.residual is not None and self._names(plan.residual)
        )
        # The pairs of an inner join show a row of the semi-join as well, only with other weights.
        kind = "inner" if self._existence and depends and plan.kind == "semi" else plan.kind
        one_sided = kind in ("left", "semi", "anti")
        if plan.left_keys or kind == "full" or (one_sided and depends):
            return None
        left = self.lifted(plan.left)
        right = self.lifted(plan.right)
        if left is None or right is None:
            return None
        split, by = width(plan.left), width(left.plan)
        own = [*range(split), *range(by, by + width(plan.right))]
        terms = [remap(t, own.__getitem__) for t in conjuncts(plan.residual)]
        mine = [*left.terms, *[remap(t, lambda i: i + by) for t in right.terms]]
        mine += [t for t in terms if self._names(t)]
        rest = conjunction([t for t in terms if not self._names(t)])
        joined = Join(left.plan, right.plan, kind, residual=rest)
        if kind in ("semi", "anti"):
            return LiftedConditions(joined, mine)
        positions = {old: new for new, old in enumerate([*own, *sorted(_read(mine) - set(own))])}
        narrow = self._context.narrow(joined, list(positions))
        return LiftedConditions(narrow, [remap(t, positions.__getitem__) for t in mine])

    def _sides(self, plan: Union | SetOp) -> LiftedConditions | None:
        """The node over inputs with keys; None unless all have the same terms on the same keys."""
        found = [self._keyed(part) for part in inputs(plan)]
        sides = [side for side in found if side is not None]
        if len(sides) < len(found) or len({_signature(s, width(plan)) for s in sides}) > 1:
            return None
        return LiftedConditions(united(plan, [side.plan for side in sides]), sides[0].terms)


def _read(terms: Sequence[exp.Expr]) -> set[int]:
    return {i for term in terms for i in used(term)}


def _signature(side: LiftedConditions, start: int) -> tuple[object, ...]:
    """A value that is equal for inputs with the same terms on keys (from `start`) of one type."""
    return (types(side.plan)[start:], *[text(term) for term in side.terms])

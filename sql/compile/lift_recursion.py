"""The step of a recursive query with the iteration as a column of its own.

Law: lift(q) holds (row, i) exactly as often as q, over the last rows Wᵢ, holds the row, for every i
at which the step is run: for i = 0, and wherever Wᵢ is not empty. So nodes that read W carry i;
what meets must meet at one i; what groups, orders or tells rows apart does so within one i. What
does not read W is an input, the same at every i: where a row of it counts by itself, it is
multiplied with the iterations there are.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ivm.sql.plan.expressions import column, remap
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Scan,
    SetOp,
    TopK,
    Union,
    Unnest,
    Values,
    Window,
    open_scans,
    width,
)
from ivm.sql.plan.render import render
from ivm.sql.rewrite.expand_joins import expand_join, picked
from ivm.sql.rewrite.merge_projects import merge_projects
from ivm.sql.rewrite.prune_columns import prune_columns
from ivm.storage.values.types import Schema, type_of

LAST_ROWS = "last rows"
_INPUT = "input "
_ITERATION: Schema = (("iteration", type_of("BIGINT")),)
_KINDS = ("inner", "left", "right", "full", "semi", "anti")
# The sides of a join that need no iteration where the other side has one.
_PLAIN_RIGHT = ("inner", "left", "semi", "anti")
_PLAIN_LEFT = ("inner", "right")


@dataclass(frozen=True)
class LiftedRecursion:
    """A lifted step.

    Attributes:
        plan: over scans of `LAST_ROWS` and of `input 1`, `input 2`, …; its last column is the
            iteration.
        inputs: the plans that these inputs stand for.
    """

    plan: Plan
    inputs: tuple[Plan, ...]


def lift_step(query: Recursive) -> LiftedRecursion:
    """The step over rows with iterations.

    Raises:
        NotIncremental: a construct in it has no form with iterations.
    """
    lifter = _Lifter(query.depth, query.schema)
    plan = merge_projects(prune_columns(lifter.lift(query.step)))
    return LiftedRecursion(plan, tuple(lifter.inputs.values()))


def input_position(relation: str) -> int:
    """The position among the operator's inputs, the base being the first."""
    return int(relation.removeprefix(_INPUT))


@dataclass
class _Lifter:
    depth: int
    schema: Schema
    inputs: dict[str, Plan] = field(default_factory=dict)
    _known: dict[int, Plan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = self.schema + _ITERATION
        self._rows = Scan(LAST_ROWS, tuple(range(len(rows))), rows)

    @functools.cached_property
    def _iterations(self) -> Plan:
        """All i at which the step is run: 0 in any case."""
        first = self._input(Values(((exp.Literal.number(0),),), _ITERATION))
        return Distinct(Union((first, picked(self._rows, [len(self.schema)])), _ITERATION))

    def lift(self, plan: Plan) -> Plan:
        """The plan with the iteration as its last column."""
        if id(plan) not in self._known:
            self._known[id(plan)] = self._lifted(plan)
        return self._known[id(plan)]

    def _reads(self, plan: Plan) -> bool:
        return bool(open_scans(plan))

    def _input(self, plan: Plan) -> Scan:
        """What does not read the last rows; its schema is the plan's."""
        text = render(plan)
        self.inputs.setdefault(text, plan)
        position = list(self.inputs).index(text) + 1
        return Scan(f"{_INPUT}{position}", tuple(range(width(plan))), plan.schema)

    def _lifted(self, plan: Plan) -> Plan:
        if not self._reads(plan):
            return Join(self._input(plan), self._iterations, "inner")
        match plan:
            case RecursiveScan():
                return self._rows
            case Filter():
                return Filter(self.lift(plan.input), plan.predicate)
            case Project():
                exprs = (*plan.exprs, column(width(plan.input)))
                return Project(self.lift(plan.input), exprs, plan.schema + _ITERATION)
            case Join():
                return self._join(plan)
            case Aggregate() if plan.groups:
                return self._grouped(plan)
            case Aggregate():
                return self._scalar_aggregate(plan)
            case GroupRecompute() if plan.partition or not plan.grouped:
                return self._recomputed(plan)
            case Distinct():
                return Distinct(self.lift(plan.input))
            case Union():
                parts = tuple(self.lift(part) for part in plan.inputs)
                return replace(plan, inputs=parts, schema=plan.schema + _ITERATION)
            case SetOp():
                sides = self.lift(plan.left), self.lift(plan.right)
                schema = plan.schema + _ITERATION
                return replace(plan, left=sides[0], right=sides[1], schema=schema)
            case TopK() | Window():
                return self._top_k(plan)
            case Unnest():
                return self._unnest(plan)
            case _:
                kind = type(plan).__name__
                raise NotIncremental(f"{kind} over the recursive table in a recursive term")

    def _join(self, plan: Join) -> Plan:
        """Both sides at one iteration; a side that does not read W is there at all of them."""
        reads = self._reads(plan.left), self._reads(plan.right)
        if plan.kind not in _KINDS:
            raise NotIncremental(f"a {plan.kind} join over the recursive table in a recursive term")
        if plan.kind == "semi" and not reads[0]:
            return self.lift(expand_join(plan))
        plain_left = not reads[0] and plan.kind in _PLAIN_LEFT
        plain_right = not reads[1] and plan.kind in _PLAIN_RIGHT
        left = self._input(plan.left) if plain_left else self.lift(plan.left)
        right = self._input(plan.right) if plain_right else self.lift(plan.right)
        return self._joined(plan, left, right, not plain_left, not plain_right)

    def _joined(self, plan: Join, left: Plan, right: Plan, at_left: bool, at_right: bool) -> Plan:
        split, count = width(plan.left), width(plan.right)
        by = width(left)
        joined = replace(plan, left=left, right=right)
        if plan.residual is not None:
            moved = remap(plan.residual, lambda i: i if i < split else i - split + by)
            joined = replace(joined, residual=moved)
        if at_left and at_right:
            joined = replace(
                joined,
                left_keys=(*plan.left_keys, split),
                right_keys=(*plan.right_keys, count),
                null_safe=(*plan.null_safe, False),
            )
        if plan.kind in ("semi", "anti"):
            return joined
        iteration: exp.Expression = column(split if at_left else by + count)
        if plan.kind == "right":
            iteration = column(by + count)
        elif plan.kind == "full":
            iteration = exp.Coalesce(this=column(split), expressions=[column(by + count)])
        places = [*range(split), *range(by, by + count)]
        exprs = (*[column(i) for i in places], iteration)
        return Project(joined, exprs, plan.schema + _ITERATION)

    def _grouped(self, plan: Aggregate) -> Plan:
        groups = (*plan.groups, width(plan.input))
        by = len(plan.groups)
        schema = plan.schema[:by] + _ITERATION + plan.schema[by:]
        whole = Aggregate(self.lift(plan.input), groups, plan.aggregates, schema)
        return picked(whole, [*range(by), *range(by + 1, len(schema)), by])

    def _scalar_aggregate(self, plan: Aggregate) -> Plan:
        """Iterations without rows have the aggregates of no rows."""
        some = self._grouped(plan)
        keys = ((0,), (width(plan),), (False,))
        others = Join(self._iterations, some, "anti", *keys)
        nothing = Values((), plan.input.schema)
        none = self._input(replace(plan, input=nothing))
        return Union((some, Join(none, others, "inner")), plan.schema + _ITERATION)

    def _recomputed(self, plan: GroupRecompute) -> Plan:
        iteration = column(width(plan.input))
        exprs = plan.exprs if plan.grouped else [_partitioned(e, iteration) for e in plan.exprs]
        return replace(
            plan,
            input=self.lift(plan.input),
            partition=(*plan.partition, width(plan.input)),
            exprs=(*exprs, iteration),
            schema=plan.schema + _ITERATION,
        )

    def _top_k(self, plan: TopK | Window) -> Plan:
        place = width(plan.input)
        schema = plan.schema[:place] + _ITERATION + plan.schema[place:]
        partition = (*plan.partition, place)
        whole = replace(plan, input=self.lift(plan.input), partition=partition, schema=schema)
        return picked(whole, [*range(place), *range(place + 1, len(schema)), place])

    def _unnest(self, plan: Unnest) -> Plan:
        place = len(plan.kept)
        schema = plan.schema[:place] + _ITERATION + plan.schema[place:]
        kept = (*plan.kept, width(plan.input))
        whole = replace(plan, input=self.lift(plan.input), kept=kept, schema=schema)
        return picked(whole, [*range(place), *range(place + 1, len(schema)), place])


def _partitioned(expr: exp.Expression, iteration: exp.Expression) -> exp.Expression:
    """The expression with every window within one iteration."""
    whole = expr.copy()
    for window in list(whole.find_all(exp.Window)):
        window.append("partition_by", iteration.copy())
    return whole

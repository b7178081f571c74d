"""Lifts the step of a recursive query to rows of all iterations, the iteration in a further column.

Law: lift(q) holds (row, i) exactly as often as q, over the last rows Wᵢ, holds the row, for every i
at which the step is run: for i = 0, and wherever Wᵢ is not empty. Plans that read W carry i. A plan
that does not is an input, equal at every i: where its rows are rows of the result, it is joined
with all iterations.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Recursive,
    RecursiveScan,
    Scan,
    Union,
    Values,
    width,
)
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import free_recursions
from ivm.sql.rewrite.carry_columns import Carry
from ivm.sql.rewrite.expand_joins import expand_join, picked
from ivm.sql.rewrite.merge_projects import merge_projects
from ivm.sql.rewrite.prune_columns import prune_columns
from ivm.storage.values.types import Schema, type_of

LAST_ROWS = "last rows"
_INPUT = "input "
_ITERATION: Schema = (("iteration", type_of("BIGINT")),)


@dataclass(frozen=True)
class LiftedRecursion:
    """A lifted step.

    Attributes:
        plan: a plan over scans of `LAST_ROWS` and of `input 1`, `input 2`, …; its last column is
            the iteration.
        inputs: the plans of `input 1`, `input 2`, ….
    """

    plan: Plan
    inputs: tuple[Plan, ...]


def lift_step(query: Recursive) -> LiftedRecursion:
    """Lifts the step of a recursive query.

    Raises:
        NotIncremental: a node of the step cannot be lifted.
    """
    lifter = _IterationCarry(query.schema)
    plan = merge_projects(prune_columns(lifter.over(query.step)))
    return LiftedRecursion(plan, tuple(lifter.inputs.values()))


def input_index(relation: str) -> int:
    """The index of a scanned input among the operator's inputs, where the base has index 0."""
    return int(relation.removeprefix(_INPUT))


class _IterationCarry(Carry):
    """Carries the iteration through a step.

    Args:
        schema: the schema of the last rows.

    Attributes:
        inputs: the plans that do not read the last rows, by their renderings.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(_ITERATION)
        rows = schema + _ITERATION
        self._rows = Scan(LAST_ROWS, tuple(range(len(rows))), rows)
        self.inputs: dict[str, Plan] = {}

    @functools.cached_property
    def _iterations(self) -> Plan:
        """All i at which the step is run; 0 is always one."""
        first = self.alone(Values(((exp.Literal.number(0),),), _ITERATION))
        return Distinct(Union((first, picked(self._rows, [width(self._rows) - 1])), _ITERATION))

    def depends(self, plan: Plan) -> bool:
        return bool(free_recursions(plan))

    def alone(self, plan: Plan) -> Plan:
        """Makes the plan an input, and returns a scan of it."""
        text = render(plan)
        self.inputs.setdefault(text, plan)
        index = list(self.inputs).index(text) + 1
        return Scan(f"{_INPUT}{index}", tuple(range(width(plan))), plan.schema)

    def everywhere(self, plan: Plan) -> Plan:
        return Join(self.alone(plan), self._iterations, "inner")

    def join(self, plan: Join) -> Plan:
        """Expands a semi-join with an input on its left, which need not be joined with all
        iterations first."""
        inside = plan.kind == "semi" and not self.depends(plan.left)
        return self.over(expand_join(plan)) if inside else super().join(plan)

    def met(self, join: Join, left: Sequence[int], right: Sequence[int]) -> Join:
        return replace(
            join,
            left_keys=(*join.left_keys, *left),
            right_keys=(*join.right_keys, *right),
            null_safe=(*join.null_safe, *[False] * len(left)),
        )

    def each(self, plan: Aggregate | GroupRecompute) -> Plan:
        """Adds the aggregates of no rows at iterations without rows."""
        if isinstance(plan, GroupRecompute):
            return self.source(plan)
        some = self.node(plan).behind()
        others = Join(self._iterations, some, "anti", (0,), (width(plan),), (False,))
        none = self.alone(replace(plan, input=Values((), plan.input.schema)))
        return Union((some, Join(none, others, "inner")), plan.schema + _ITERATION)

    def source(self, plan: Plan) -> Plan:
        if isinstance(plan, RecursiveScan):
            return self._rows
        kind = type(plan).__name__
        raise NotIncremental(f"{kind} over the recursive table in a recursive term")

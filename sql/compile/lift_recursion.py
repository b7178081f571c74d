"""The step of a recursive query with the iteration as a column of its own.

Law: lift(q) holds (row, i) exactly as often as q, over the last rows Wᵢ, holds the row, for every i
at which the step is run: for i = 0, and wherever Wᵢ is not empty. What reads W carries i. What does
not is an input, the same at every i: where a row of it counts by itself, it is multiplied with the
iterations there are.
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
    open_scans,
    width,
)
from ivm.sql.plan.render import render
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
    lifter = _IterationCarry(query.schema)
    plan = merge_projects(prune_columns(lifter.over(query.step)))
    return LiftedRecursion(plan, tuple(lifter.inputs.values()))


def input_position(relation: str) -> int:
    """The position among the operator's inputs, the base being the first."""
    return int(relation.removeprefix(_INPUT))


class _IterationCarry(Carry):
    """Carries the iteration through a step.

    Args:
        schema: that of the last rows.

    Attributes:
        inputs: what does not read the last rows, by its text.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(_ITERATION)
        rows = schema + _ITERATION
        self._rows = Scan(LAST_ROWS, tuple(range(len(rows))), rows)
        self.inputs: dict[str, Plan] = {}

    @functools.cached_property
    def _iterations(self) -> Plan:
        """All i at which the step is run: 0 in any case."""
        first = self.alone(Values(((exp.Literal.number(0),),), _ITERATION))
        return Distinct(Union((first, picked(self._rows, [width(self._rows) - 1])), _ITERATION))

    def depends(self, plan: Plan) -> bool:
        return bool(open_scans(plan))

    def alone(self, plan: Plan) -> Plan:
        """An input; its schema is the plan's."""
        text = render(plan)
        self.inputs.setdefault(text, plan)
        position = list(self.inputs).index(text) + 1
        return Scan(f"{_INPUT}{position}", tuple(range(width(plan))), plan.schema)

    def everywhere(self, plan: Plan) -> Plan:
        return Join(self.alone(plan), self._iterations, "inner")

    def join(self, plan: Join) -> Plan:
        """Rows of an input are not multiplied with the iterations to look for partners."""
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
        """Iterations without rows have the aggregates of no rows."""
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

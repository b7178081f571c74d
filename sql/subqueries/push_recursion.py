"""Which recursive queries can be run for all values of a domain at once.

Law: run for each value by itself, the recursion stops for the value when its last rows are none.
Run for all values together, it goes on while any value has rows; that is the same if every row of
the step comes from a last row, hence from one of its own value.
"""

from __future__ import annotations

from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    RecursiveScan,
    SetOp,
    TopK,
    Union,
    Unnest,
    Window,
)


def driven(plan: Plan, depth: int) -> bool:
    """Whether the plan has no rows where the recursive query of that depth has no last rows."""
    match plan:
        case RecursiveScan():
            return plan.depth == depth
        case Filter() | Project() | Distinct() | TopK() | Unnest() | Window():
            return driven(plan.input, depth)
        case Aggregate():
            return bool(plan.groups) and driven(plan.input, depth)
        case GroupRecompute():
            return bool(plan.partition or not plan.grouped) and driven(plan.input, depth)
        case Union():
            return all(
                driven(part, depth) for i, part in enumerate(plan.inputs) if i not in plan.negated
            )
        case SetOp():
            either = plan.kind == "intersect" and driven(plan.right, depth)
            return driven(plan.left, depth) or either
        case Join():
            return _join_driven(plan, depth)
        case _:
            return False


def _join_driven(plan: Join, depth: int) -> bool:
    left, right = driven(plan.left, depth), driven(plan.right, depth)
    match plan.kind:
        case "inner" | "semi":
            return left or right
        case "left" | "anti":
            return left
        case "right":
            return right
        case _:
            return left and right

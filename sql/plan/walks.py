"""Walks over plans: a node's inputs, all nodes below it, images of it over other inputs.

Law: inputs come in the order of the node's own fields, and an image keeps that order. A plan may
have a node in several places, which a walk over all nodes meets once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ivm.sql.plan.nodes import (
    Arrivals,
    Arrived,
    Awaited,
    DynamicLimit,
    Emit,
    Join,
    Plan,
    Recursive,
    RecursiveScan,
    Scan,
    SetOp,
    TableFunction,
    Union,
    Values,
    ViewScan,
)


def inputs(plan: Plan) -> tuple[Plan, ...]:
    """The plan's direct inputs, in order."""
    match plan:
        case Scan() | Values() | TableFunction() | RecursiveScan():
            return ()
        case Join() | SetOp():
            return (plan.left, plan.right)
        case Recursive():
            return (plan.base, plan.step)
        case DynamicLimit():
            return (plan.input, plan.bounds)
        case Emit() | Awaited():
            return (plan.input, plan.bound)
        case Arrived():
            return (plan.input, plan.origin)
        case Union():
            return plan.inputs
        case _:
            return (plan.input,)


def nodes(plan: Plan) -> Iterator[Plan]:
    """The plan and all nodes below it, those of other views too; a shared node comes once."""
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += inputs(node)
            yield node


def with_inputs(plan: Plan, image: Callable[[Plan], Plan]) -> Plan:
    """Returns the plan with each direct input replaced by its image, but not that of a ViewScan."""
    match plan:
        case Scan() | Values() | ViewScan() | TableFunction() | RecursiveScan():
            return plan
        case Join() | SetOp():
            return replace(plan, left=image(plan.left), right=image(plan.right))
        case Recursive():
            return replace(plan, base=image(plan.base), step=image(plan.step))
        case DynamicLimit():
            return replace(plan, input=image(plan.input), bounds=image(plan.bounds))
        case Emit():
            return replace(plan, input=image(plan.input), bound=image(plan.bound))
        case Awaited() | Arrivals() | Arrived():
            return plan  # what is below is made for it
        case Union():
            return replace(plan, inputs=tuple(image(part) for part in plan.inputs))
        case _:
            return replace(plan, input=image(plan.input))


def free_recursions(plan: Plan) -> frozenset[int]:
    """Depths of the recursive queries around the plan whose last rows it reads."""
    known: dict[int, frozenset[int]] = {}

    def look(part: Plan) -> frozenset[int]:
        if id(part) not in known:
            known[id(part)] = free_recursions_over(part, [look(below) for below in inputs(part)])
        return known[id(part)]

    return look(plan)


def free_recursions_over(plan: Plan, below: Sequence[frozenset[int]]) -> frozenset[int]:
    """`free_recursions` of a node, from the results for its inputs."""
    if isinstance(plan, RecursiveScan):
        return frozenset([plan.depth])
    every = frozenset[int]().union(*below)
    return every - {plan.depth} if isinstance(plan, Recursive) else every

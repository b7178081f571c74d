"""Dependencies of plan nodes on the columns of their inputs: read, passed on, moved.

Law: which rows a node has depends on the columns that it `reads` and on those that break ties in
its order (see `tie_breakers`). Each column of a node is an input's column, given by `origins`, or a
function of the columns it reads. So the inputs need no columns that the node neither reads nor
passes on (`moved`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.calls import moved_order
from ivm.sql.plan.expressions import position, remap, used
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    DynamicLimit,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    TableFunction,
    TopK,
    Union,
    Unnest,
    Values,
    ViewScan,
    Window,
    width,
)
from ivm.sql.plan.walks import inputs, nodes, with_inputs


def expressions(plan: Plan) -> tuple[exp.Expr, ...]:
    """The node's own expressions."""
    match plan:
        case Filter():
            return (plan.predicate,)
        case Join():
            return () if plan.residual is None else (plan.residual,)
        case Project() | GroupRecompute():
            return plan.exprs
        case Window():
            return tuple(expr for call in plan.calls for expr in call.expressions())
        case Values():
            return tuple(expr for row in plan.rows for expr in row)
        case TableFunction():
            return (plan.call,)
        case _:
            return ()


def all_expressions(plan: Plan) -> Iterator[exp.Expr]:
    """The expressions of all nodes of the plan; a shared node's come once."""
    for node in nodes(plan):
        yield from expressions(node)


def reads(plan: Plan) -> tuple[frozenset[int], ...]:
    """For each input, positions of the columns whose values the node depends on."""
    match plan:
        case ViewScan() | Union(negated=()):
            return (frozenset(),) * len(inputs(plan))
        case Filter():
            return (_used([plan.predicate]),)
        case Project():
            return (_used(e for e in plan.exprs if position(e) is None),)
        case Join():
            return _join_reads(plan)
        case Aggregate():
            return (frozenset(plan.groups).union(*[call.reads() for call in plan.aggregates]),)
        case GroupRecompute():
            return (_used(plan.exprs).union(plan.partition),)
        case TopK():
            return (_ordered(plan).union(plan.partition),)
        case Window():
            return (_ordered(plan).union(plan.partition, *[call.reads() for call in plan.calls]),)
        case DynamicLimit():
            return (_ordered(plan), _every(plan.bounds))
        case Unnest():
            return (frozenset(plan.lists),)
        case _:  # set operations compare all columns
            return tuple(_every(part) for part in inputs(plan))


def origins(plan: Plan) -> tuple[Mapping[int, int], ...]:
    """For each input, the node's columns that are the input's: position → position in the input.

    In the padded rows of an outer join these columns are NULL.
    """
    match plan:
        case Union():
            return (_same(width(plan)),) * len(plan.inputs)
        case Join():
            left = width(plan.left)
            return _same(left), {i: i - left for i in range(left, width(plan))}
        case Project() | GroupRecompute():
            positions = enumerate(map(position, plan.exprs))
            return ({i: below for i, below in positions if below is not None},)
        case Aggregate():
            return (dict(enumerate(plan.groups)),)
        case Unnest():
            return (dict(enumerate(plan.kept)),)
        case Filter() | Distinct() | ViewScan() | TopK() | Window():
            return (_same(width(plan.input)),)
        case DynamicLimit():
            return _same(width(plan)), {}
        case _:
            return ({},) * len(inputs(plan))


def moved(plan: Plan, below: Sequence[Plan], positions: Sequence[Mapping[int, int]]) -> Plan:
    """Returns the node over other inputs, with columns at other positions.

    Args:
        below: the inputs, with all columns if the node compares all columns.
        positions: for each input, the new positions of the columns that the node reads or passes
            on.
    """
    if not below:
        return plan
    waiting = iter(below)
    made = with_inputs(plan, lambda _: next(waiting))
    if isinstance(plan, Join) and isinstance(made, Join):
        return _moved_join(plan, made, positions)
    at = positions[0].__getitem__
    match made:
        case Filter():
            return replace(made, predicate=remap(made.predicate, at))
        case Project():
            return replace(made, exprs=tuple(remap(e, at) for e in made.exprs))
        case GroupRecompute():
            exprs = tuple(remap(e, at) for e in made.exprs)
            return replace(made, partition=tuple(map(at, made.partition)), exprs=exprs)
        case Aggregate():
            calls = tuple(call.moved(at) for call in made.aggregates)
            return replace(made, groups=tuple(map(at, made.groups)), aggregates=calls)
        case Unnest():
            return replace(made, kept=tuple(map(at, made.kept)), lists=tuple(map(at, made.lists)))
        case Window():
            return replace(
                made,
                partition=tuple(map(at, made.partition)),
                order=moved_order(made.order, at),
                calls=tuple(call.mapped(lambda e: remap(e, at)) for call in made.calls),
                schema=made.input.schema + made.schema[-len(made.calls) :],
            )
        case _:
            return made


def _moved_join(plan: Join, made: Join, positions: Sequence[Mapping[int, int]]) -> Join:
    split, by = width(plan.left), width(made.left)
    left, right = positions

    def at(i: int) -> int:
        return left[i] if i < split else by + right[i - split]

    return replace(
        made,
        left_keys=tuple(left[i] for i in plan.left_keys),
        right_keys=tuple(right[i] for i in plan.right_keys),
        residual=None if plan.residual is None else remap(plan.residual, at),
    )


def _join_reads(plan: Join) -> tuple[frozenset[int], frozenset[int]]:
    split, inside = width(plan.left), _used(expressions(plan))
    left = {i for i in inside if i < split}
    right = {i - split for i in inside if i >= split}
    return frozenset(left.union(plan.left_keys)), frozenset(right.union(plan.right_keys))


def _used(exprs: Iterable[exp.Expr]) -> frozenset[int]:
    return frozenset[int]().union(*map(used, exprs))


def _ordered(plan: TopK | Window | DynamicLimit) -> frozenset[int]:
    return frozenset(key.column for key in plan.order)


def _every(plan: Plan) -> frozenset[int]:
    return frozenset(range(width(plan)))


def _same(count: int) -> Mapping[int, int]:
    return {i: i for i in range(count)}

"""Columns that nobody above reads are not carried.

Law: a projection onto the needed columns stays the same when every node below is narrowed to what
it needs itself. DISTINCT, set operations and top-k need all their columns, since these tell rows
apart or break ties; so do recursive queries, whose steps read them. No relation is narrowed to no
column at all: its rows must be counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ivm.sql.plan.expressions import column, remap, used
from ivm.sql.plan.nodes import (
    Aggregate,
    AggregateCall,
    Distinct,
    DynamicLimit,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Scan,
    SetOp,
    TableFunction,
    TopK,
    Union,
    Unnest,
    Values,
    ViewScan,
    Window,
    width,
)
from ivm.storage.values.types import ColumnType, Schema

Needed = list[int]


def prune_columns(plan: Plan) -> Plan:
    """The plan with every node as narrow as its readers allow."""
    return _pruned(plan, list(range(width(plan))))


def _scan(plan: Scan, needed: Needed) -> Scan:
    whole = plan.key is not None and set(plan.key) <= set(needed)
    key = tuple(needed.index(i) for i in plan.key) if plan.key and whole else None
    columns = tuple(plan.columns[i] for i in needed)
    collated = tuple(needed.index(i) for i in plan.collated if i in needed)
    return Scan(plan.relation, columns, _schema(plan, needed), key, collated)


def _pruned(plan: Plan, needed: Needed) -> Plan:
    """The needed columns of the plan (ascending, at least one), and no others."""
    match plan:
        case Scan():
            return _scan(plan, needed)
        case Values():
            rows = tuple(tuple(row[i] for i in needed) for row in plan.rows)
            return Values(rows, _schema(plan, needed))
        case Project():
            return _project(plan, needed)
        case Filter():
            below, places = _below(plan.input, {*needed, *used(plan.predicate)})
            kept = Filter(below, remap(plan.predicate, places.__getitem__))
            return _narrow(kept, [places[i] for i in needed])
        case Join():
            return _join(plan, needed)
        case Aggregate():
            return _aggregate(plan, needed)
        case GroupRecompute():
            return _group_recompute(plan, needed)
        case Union():
            parts = tuple(_pruned(part, needed) for part in plan.inputs)
            return replace(plan, inputs=parts, schema=_schema(plan, needed))
        case TopK():
            return _top_k(plan, needed)
        case Window():
            return _window(plan, needed)
        case DynamicLimit():
            whole = replace(
                plan, input=prune_columns(plan.input), places=prune_columns(plan.places)
            )
            return _narrow(whole, needed)
        case SetOp():
            left, right = prune_columns(plan.left), prune_columns(plan.right)
            return _narrow(replace(plan, left=left, right=right), needed)
        case Distinct():
            return _narrow(Distinct(prune_columns(plan.input)), needed)
        case Unnest():
            return _unnest(plan, needed)
        case Recursive():
            base, step = prune_columns(plan.base), prune_columns(plan.step)
            return _narrow(replace(plan, base=base, step=step), needed)
        case ViewScan() | TableFunction() | RecursiveScan():
            return _narrow(plan, needed)


def _schema(plan: Plan, needed: Needed) -> Schema:
    return tuple(plan.schema[i] for i in needed)


def _narrow(plan: Plan, needed: Needed) -> Plan:
    if needed == list(range(width(plan))):
        return plan
    return Project(plan, tuple(column(i) for i in needed), _schema(plan, needed))


def _below(plan: Plan, needed: Iterable[int]) -> tuple[Plan, Mapping[int, int]]:
    """The plan narrowed to the needed columns, and where each of them stands then."""
    columns = sorted(set(needed)) or [_cheapest(plan)]
    return _pruned(plan, columns), {old: new for new, old in enumerate(columns)}


def _cheapest(plan: Plan) -> int:
    """The column to keep where rows are only counted."""

    def cost(type: ColumnType) -> int:
        return 1000 if type.dtype is None else type.dtype.itemsize

    return min(range(width(plan)), key=lambda i: (cost(plan.schema[i][1]), i))


def _project(plan: Project, needed: Needed) -> Plan:
    exprs = [plan.exprs[i] for i in needed]
    below, places = _below(plan.input, {i for e in exprs for i in used(e)})
    moved = tuple(remap(e, places.__getitem__) for e in exprs)
    return Project(below, moved, _schema(plan, needed))


def _join(plan: Join, needed: Needed) -> Plan:
    split = width(plan.left)
    inside = {*needed, *(used(plan.residual) if plan.residual is not None else ())}
    left, at_left = _below(plan.left, {i for i in inside if i < split} | {*plan.left_keys})
    wanted_right = {i - split for i in inside if i >= split} | {*plan.right_keys}
    right, at_right = _below(plan.right, wanted_right)
    by = width(left)

    def place(i: int) -> int:
        return at_left[i] if i < split else at_right[i - split] + by

    joined = replace(
        plan,
        left=left,
        right=right,
        left_keys=tuple(at_left[i] for i in plan.left_keys),
        right_keys=tuple(at_right[i] for i in plan.right_keys),
        residual=None if plan.residual is None else remap(plan.residual, place),
    )
    return _renamed(_narrow(joined, [place(i) for i in needed]), plan, needed)


def _renamed(narrow: Plan, plan: Plan, needed: Needed) -> Plan:
    """A projection with the names that the columns had in the wide plan."""
    schema = _schema(plan, needed)
    return replace(narrow, schema=schema) if isinstance(narrow, Project) else narrow


def _aggregate(plan: Aggregate, needed: Needed) -> Plan:
    count = len(plan.groups)
    calls = [plan.aggregates[i - count] for i in needed if i >= count]
    read = {*plan.groups, *(c for call in calls for c in _reads(call))}
    below, places = _below(plan.input, read)
    moved = tuple(_moved(call, places) for call in calls)
    kept = [*range(count), *(i for i in needed if i >= count)]
    groups = tuple(places[i] for i in plan.groups)
    narrow = Aggregate(below, groups, moved, _schema(plan, kept)) if kept else plan
    return _narrow(narrow, [kept.index(i) for i in needed])


def _reads(call: AggregateCall) -> list[int]:
    order = [key.column for key in call.order]
    return [*call.arguments, *order, *([] if call.filter is None else [call.filter])]


def _moved(call: AggregateCall, places: Mapping[int, int]) -> AggregateCall:
    return replace(
        call,
        arguments=tuple(places[i] for i in call.arguments),
        filter=None if call.filter is None else places[call.filter],
        order=tuple(replace(key, column=places[key.column]) for key in call.order),
    )


def _group_recompute(plan: GroupRecompute, needed: Needed) -> Plan:
    exprs = [plan.exprs[i] for i in needed]
    below, places = _below(plan.input, {*plan.partition, *(i for e in exprs for i in used(e))})
    return GroupRecompute(
        below,
        tuple(places[i] for i in plan.partition),
        tuple(remap(e, places.__getitem__) for e in exprs),
        plan.grouped,
        _schema(plan, needed),
    )


def _top_k(plan: TopK, needed: Needed) -> Plan:
    ranked = plan.rank and width(plan) - 1 in needed
    schema = plan.schema if ranked or not plan.rank else plan.schema[:-1]
    kept = replace(plan, input=prune_columns(plan.input), rank=ranked, schema=schema)
    return _narrow(kept, needed)


def _unnest(plan: Unnest, needed: Needed) -> Plan:
    """All lists stay, since they tell how many rows there are; other columns only if read."""
    count, call = len(plan.kept), plan.call
    kept = [plan.kept[i] for i in needed if i < count]
    below, places = _below(plan.input, {*kept, *plan.lists})
    columns = [*(i for i in needed if i < count), *range(count, width(plan))]
    if call is not None:
        columns = needed
        read = tuple(call.columns[i - count] for i in needed if i >= count)
        call = replace(call, columns=read)
    narrow = replace(
        plan,
        input=below,
        kept=tuple(places[i] for i in kept),
        lists=tuple(places[i] for i in plan.lists),
        schema=_schema(plan, columns),
        call=call,
    )
    return _narrow(narrow, [columns.index(i) for i in needed])


def _window(plan: Window, needed: Needed) -> Plan:
    """Functions that nobody reads go; the rows stay whole where all columns break ties."""
    split = width(plan.input)
    kept = [i - split for i in needed if i >= split] if plan.most is None else [0]
    if not kept:
        return _pruned(plan.input, needed)
    calls = [plan.calls[i] for i in kept]
    read = {i for i in needed if i < split} | {*plan.partition, *(k.column for k in plan.order)}
    read |= {i for call in calls for e in call.expressions() for i in used(e)}
    if any(call.ties != "none" for call in calls):
        read = set(range(split))
    below, places = _below(plan.input, read)
    schema = below.schema + tuple(plan.schema[split + i] for i in kept)
    moved = replace(
        plan,
        input=below,
        partition=tuple(places[i] for i in plan.partition),
        order=tuple(replace(key, column=places[key.column]) for key in plan.order),
        calls=tuple(c.mapped(lambda e: remap(e, places.__getitem__)) for c in calls),
        schema=schema,
    )
    by = width(below)
    places = {**places, **{split + i: by + new for new, i in enumerate(kept)}}
    return _renamed(_narrow(moved, [places[i] for i in needed]), plan, needed)

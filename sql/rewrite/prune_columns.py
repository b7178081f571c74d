"""Columns that no operator above reads are not carried.

Law: a projection onto the needed columns stays the same when every node below is narrowed to what
it needs itself. DISTINCT, set operations and top-k need all their columns, since these tell rows
apart or break ties; so do recursive queries, whose steps read them. No relation is narrowed to no
column at all: its rows must be counted.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.sql.plan.columns import breaks_ties, moved, origins, reads
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import (
    Aggregate,
    GroupRecompute,
    Plan,
    Project,
    Scan,
    TopK,
    Union,
    Unnest,
    Values,
    ViewScan,
    Window,
    inputs,
    width,
)
from ivm.storage.values.types import ColumnType, Schema

Needed = list[int]


def prune_columns(plan: Plan) -> Plan:
    """The plan with every node as narrow as its readers allow."""
    return _pruned(plan, list(range(width(plan))))


def _pruned(plan: Plan, needed: Needed) -> Plan:
    """The needed columns of the plan (ascending, at least one), and no others."""
    match plan:
        case ViewScan():
            return _narrow(plan, needed, _schema(plan, needed))
        case Union():
            parts = tuple(_pruned(part, needed) for part in plan.inputs)
            return replace(plan, inputs=parts, schema=_schema(plan, needed))
        case Window(most=None) if needed[-1] < width(plan.input):
            return _pruned(plan.input, needed)
    node, kept = _trimmed(plan, needed)
    wanted = _wanted(node, {kept.index(i) for i in needed})
    below = [_pruned(part, columns) for part, columns in zip(inputs(node), wanted, strict=True)]
    places = [{old: new for new, old in enumerate(columns)} for columns in wanted]
    passed = zip(origins(node), places, strict=True)
    gone = {i for own, stay in passed for i, place in own.items() if place not in stay}
    left = [old for i, old in enumerate(kept) if i not in gone]
    made = moved(node, below, places)
    return _narrow(made, [left.index(i) for i in needed], _schema(plan, needed))


def _wanted(plan: Plan, shown: set[int]) -> list[Needed]:
    """For each input, the columns that the node reads or shows; one where it only counts rows."""
    found = []
    for part, read, own in zip(inputs(plan), reads(plan), origins(plan), strict=True):
        columns = read.union(place for i, place in own.items() if i in shown)
        every = range(width(part)) if breaks_ties(plan) else columns
        found.append(sorted(every) or [_cheapest(part)])
    return found


def _schema(plan: Plan, needed: Needed) -> Schema:
    return tuple(plan.schema[i] for i in needed)


def _narrow(plan: Plan, needed: Needed, schema: Schema) -> Plan:
    if needed == list(range(width(plan))):
        return plan
    return Project(plan, tuple(column(i) for i in needed), schema)


def _cheapest(plan: Plan) -> int:
    """The column to keep where rows are only counted."""

    def cost(type: ColumnType) -> int:
        return 1000 if type.dtype is None else type.dtype.itemsize

    return min(range(width(plan)), key=lambda i: (cost(plan.schema[i][1]), i))


def _trimmed(plan: Plan, needed: Needed) -> tuple[Plan, Needed]:
    """The node without the columns it makes that are not needed, and the columns it still has."""
    match plan:
        case Scan():
            return _scan(plan, needed), needed
        case Values():
            rows = tuple(tuple(row[i] for i in needed) for row in plan.rows)
            return Values(rows, _schema(plan, needed)), needed
        case Project() | GroupRecompute():
            exprs = tuple(plan.exprs[i] for i in needed)
            return replace(plan, exprs=exprs, schema=_schema(plan, needed)), needed
        case Aggregate():
            kept, own = _own(len(plan.groups), needed)
            calls = tuple(plan.aggregates[i] for i in own)
            return replace(plan, aggregates=calls, schema=_schema(plan, kept)), kept
        case Window(most=None):
            kept, own = _own(width(plan.input), needed)
            functions = tuple(plan.calls[i] for i in own)
            return replace(plan, calls=functions, schema=_schema(plan, kept)), kept
        case TopK():
            kept, own = _own(width(plan.input), needed)
            return replace(plan, rank=bool(own), schema=_schema(plan, kept)), kept
        case Unnest():
            return _unnest(plan, needed)
    return plan, list(range(width(plan)))


def _own(start: int, needed: Needed) -> tuple[Needed, Needed]:
    """All columns before `start` and the needed ones after it; these, counted from there."""
    own = [i for i in needed if i >= start]
    return [*range(start), *own], [i - start for i in own]


def _scan(plan: Scan, needed: Needed) -> Scan:
    whole = plan.key is not None and set(plan.key) <= set(needed)
    key = tuple(needed.index(i) for i in plan.key) if plan.key and whole else None
    columns = tuple(plan.columns[i] for i in needed)
    collated = tuple(needed.index(i) for i in plan.collated if i in needed)
    return Scan(plan.relation, columns, _schema(plan, needed), key, collated)


def _unnest(plan: Unnest, needed: Needed) -> tuple[Unnest, Needed]:
    """All lists stay, since they tell how many rows there are; other columns only if read."""
    count, call = len(plan.kept), plan.call
    passed = [i for i in needed if i < count]
    kept = [*passed, *range(count, width(plan))]
    if call is not None:
        kept = needed
        call = replace(call, columns=tuple(call.columns[i - count] for i in needed[len(passed) :]))
    places = tuple(plan.kept[i] for i in passed)
    return replace(plan, kept=places, schema=_schema(plan, kept), call=call), kept

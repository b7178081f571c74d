"""Columns that no operator above reads are removed.

Law: a projection onto the needed columns stays the same when every node below is narrowed to the
columns that it needs itself. DISTINCT, set operations and top-k need all their columns, since these
distinguish rows or break ties (those of a window that do are its `tie_breakers`); so do recursive
queries, whose steps read them. No relation is narrowed to no column at all: its rows must be
counted.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.sql.plan.columns import moved, origins, reads
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
    width,
)
from ivm.sql.plan.tie_breakers import tie_breakers
from ivm.sql.plan.walks import inputs
from ivm.storage.values.types import ColumnType, Schema

Needed = list[int]


def prune_columns(plan: Plan) -> Plan:
    """The plan in which every node has only the columns that its readers need."""
    return _pruned(plan, list(range(width(plan))))


def _pruned(plan: Plan, needed: Needed) -> Plan:
    """The plan's needed columns (ascending, at least one), and no others."""
    match plan:
        case ViewScan():
            return _narrow(plan, needed, _schema(plan, needed))
        case Union():
            parts = tuple(_pruned(part, needed) for part in plan.inputs)
            return replace(plan, inputs=parts, schema=_schema(plan, needed))
        case Window(max_rank=None) if needed[-1] < width(plan.input):
            return _pruned(plan.input, needed)
    node, left = _trimmed(plan, needed)
    wanted = _wanted(node, {left.index(i) for i in needed})
    below = [_pruned(part, columns) for part, columns in zip(inputs(node), wanted, strict=True)]
    positions = [{old: new for new, old in enumerate(columns)} for columns in wanted]
    passed = zip(origins(node), positions, strict=True)
    # A column that the node merely passes on goes with the input's column, if nobody needs that.
    gone = {i for own, stay in passed for i, source in own.items() if source not in stay}
    stays = [old for i, old in enumerate(left) if i not in gone]
    made = moved(node, below, positions)
    return _narrow(made, [stays.index(i) for i in needed], _schema(plan, needed))


def _wanted(plan: Plan, shown: set[int]) -> list[Needed]:
    """For each input, the columns that the node reads or shows; one, if it only counts rows."""
    found = []
    for part, read, own in zip(inputs(plan), reads(plan), origins(plan), strict=True):
        columns = read.union(source for i, source in own.items() if i in shown)
        columns = columns.union(tie_breakers(plan, part, columns))
        found.append(sorted(columns) or [_cheapest(part)])
    return found


def _schema(plan: Plan, needed: Needed) -> Schema:
    return tuple(plan.schema[i] for i in needed)


def _narrow(plan: Plan, needed: Needed, schema: Schema) -> Plan:
    if needed == list(range(width(plan))):
        return plan
    return Project(plan, tuple(column(i) for i in needed), schema)


def _cheapest(plan: Plan) -> int:
    """The narrowest column, to be kept where rows are only counted."""

    def cost(type: ColumnType) -> int:
        return 1000 if type.dtype is None else type.dtype.itemsize

    return min(range(width(plan)), key=lambda i: (cost(plan.schema[i][1]), i))


def _trimmed(plan: Plan, needed: Needed) -> tuple[Plan, Needed]:
    """The node without the columns that it computes in vain, and the positions it still has."""
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
            left, own = _own(len(plan.groups), needed)
            calls = tuple(plan.aggregates[i] for i in own)
            return replace(plan, aggregates=calls, schema=_schema(plan, left)), left
        case Window(max_rank=None):
            left, own = _own(width(plan.input), needed)
            functions = tuple(plan.calls[i] for i in own)
            return replace(plan, calls=functions, schema=_schema(plan, left)), left
        case TopK():
            left, own = _own(width(plan.input), needed)
            return replace(plan, rank=bool(own), schema=_schema(plan, left)), left
        case Unnest():
            return _unnest(plan, needed)
    return plan, list(range(width(plan)))


def _own(start: int, needed: Needed) -> tuple[Needed, Needed]:
    """All columns before `start` and the needed ones from there on; the latter less `start`."""
    own = [i for i in needed if i >= start]
    return [*range(start), *own], [i - start for i in own]


def _scan(plan: Scan, needed: Needed) -> Scan:
    has_key = plan.key is not None and set(plan.key) <= set(needed)
    key = tuple(needed.index(i) for i in plan.key) if plan.key and has_key else None
    columns = tuple(plan.columns[i] for i in needed)
    collated = tuple(needed.index(i) for i in plan.collated if i in needed)
    return Scan(plan.relation, columns, _schema(plan, needed), key, collated)


def _unnest(plan: Unnest, needed: Needed) -> tuple[Unnest, Needed]:
    """The node with all its lists, since their lengths determine the number of rows."""
    count, call = len(plan.kept), plan.call
    passed = [i for i in needed if i < count]
    left = [*passed, *range(count, width(plan))]
    if call is not None:
        left = needed
        call = replace(call, columns=tuple(call.columns[i - count] for i in needed[len(passed) :]))
    positions = tuple(plan.kept[i] for i in passed)
    return replace(plan, kept=positions, schema=_schema(plan, left), call=call), left

"""What a query fixes of its answer where SQL leaves an order open: which columns, taken together.

Law: a `FixedPart` names columns of a plan whose values, as a multiset of rows, are the same in
every right answer. Where rows tie, a LIMIT chooses any of them, ROW_NUMBER tells them apart in any
order, and so does list(); a plan completes such orders by its columns, DuckDB does not.
A lower materialized view is read as its rows stand, so what it chose is fixed for the views above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.plan.calls import AggregateCall, WindowCall
from ivm.sql.plan.columns import reads
from ivm.sql.plan.expressions import position, used
from ivm.sql.plan.nodes import (
    Aggregate,
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
    inputs,
    width,
)
from ivm.sql.plan.unique_key import unique_keys


class FixedPart(NamedTuple):
    """Columns that are fixed together.

    Attributes:
        exact: their values.
        shuffled: lists, or texts made of them, up to the order of what is in them.
    """

    exact: frozenset[int]
    shuffled: frozenset[int] = frozenset()


Parts = tuple[FixedPart, ...]
"""Each is fixed, without regard to the others; none: not even the number of rows is."""

_LISTS = frozenset(["list", "string_agg"])
_MOST = 16  # parts


def fixed_parts(plan: Plan) -> Parts:
    """The parts of a plan's columns that are fixed by the query it says."""
    match plan:
        case Filter():
            return _selected(fixed_parts(plan.input), used(plan.predicate))
        case Project():
            return _distinct(_projected(p, plan.exprs) for p in fixed_parts(plan.input))
        case Join():
            return _joined(plan)
        case Aggregate():
            return _aggregated(plan)
        case GroupRecompute():
            return _regrouped(plan)
        case Union():
            return _united(plan)
        case Distinct() | SetOp() | Recursive():
            return _whole(plan, inputs(plan))
        case TopK():
            return _distinct(_of_top_k(plan))
        case DynamicLimit():
            return _distinct(_of_open_limit(plan))
        case Window():
            return _distinct(_of_window(plan))
        case Unnest():
            return _distinct(_unnested(plan))
        case (
            Scan() | Values() | ViewScan() | TableFunction() | RecursiveScan()
        ):  # rows that are given
            return (FixedPart(_every(plan)),)


def is_whole(part: FixedPart, plan: Plan) -> bool:
    """Whether the part is all columns, to their last bit."""
    return part.exact == _every(plan)


def _every(plan: Plan) -> frozenset[int]:
    return frozenset(range(width(plan)))


def _whole(plan: Plan, below: Sequence[Plan]) -> Parts:
    """All columns, where all columns below are fixed; else nothing is."""
    fixed = all(any(is_whole(p, part) for p in fixed_parts(part)) for part in below)
    return (FixedPart(_every(plan)),) if fixed else ()


def _distinct(parts: Iterable[FixedPart]) -> Parts:
    """The parts without those that another one holds; of very many, those with most columns."""
    found = list(dict.fromkeys(parts))
    wide = [p for p in found if not any(_holds(q, p) for q in found if q != p)]
    if len(wide) > _MOST:  # joins multiply them, and nothing is wrong with knowing less
        wide.sort(key=lambda part: (len(part.exact), len(part.shuffled)), reverse=True)
    return tuple(wide[:_MOST])


def _holds(more: FixedPart, less: FixedPart) -> bool:
    return less.exact <= more.exact and less.shuffled <= more.shuffled | more.exact


def _selected(parts: Parts, read: Iterable[int]) -> Parts:
    return tuple(p for p in parts if p.exact.issuperset(read))


def _projected(part: FixedPart, exprs: Sequence[exp.Expr]) -> FixedPart:
    places = list(enumerate(exprs))
    exact = frozenset(i for i, e in places if part.exact.issuperset(used(e)))
    return FixedPart(exact, frozenset(i for i, e in places if position(e) in part.shuffled))


def _joined(plan: Join) -> Parts:
    split = width(plan.left)
    left, right = reads(plan)
    pairs = [
        FixedPart(a.exact | _moved(b.exact, split), a.shuffled | _moved(b.shuffled, split))
        for a in fixed_parts(plan.left)
        for b in fixed_parts(plan.right)
    ]
    found = _selected(tuple(pairs), left | _moved(right, split))
    if plan.kind in ("semi", "anti"):
        found = tuple(_below_split(p, split) for p in found)
    return _distinct(found)


def _moved(columns: frozenset[int], by: int) -> frozenset[int]:
    return frozenset(i + by for i in columns)


def _below_split(part: FixedPart, split: int) -> FixedPart:
    return FixedPart(*[frozenset(i for i in columns if i < split) for columns in part])


def _united(plan: Union) -> Parts:
    every = [fixed_parts(part) for part in plan.inputs]
    if plan.negated:
        return _whole(plan, plan.inputs)
    found = every[0]
    for parts in every[1:]:
        found = _distinct([_shared(a, b) for a in found for b in parts])
    return found


def _shared(a: FixedPart, b: FixedPart) -> FixedPart:
    exact = a.exact & b.exact
    return FixedPart(exact, ((a.exact | a.shuffled) & (b.exact | b.shuffled)) - exact)


def _aggregated(plan: Aggregate) -> Parts:
    keys = [frozenset(key) for key in unique_keys(plan.input)]
    found = [_grouped(p, plan, keys) for p in _selected(fixed_parts(plan.input), plan.groups)]
    return _distinct(found) if plan.groups else _distinct([FixedPart(frozenset()), *found])


def _grouped(part: FixedPart, plan: Aggregate, keys: Sequence[frozenset[int]]) -> FixedPart:
    count = len(plan.groups)
    exact, shuffled = set(range(count)), set()
    for place, call in enumerate(plan.aggregates, count):
        read = {*call.arguments, *(() if call.filter is None else (call.filter,))}
        told = {key.column for key in call.order[: call.given]}
        if not part.exact.issuperset(read | told):
            continue
        if _is_told(call, told | set(plan.groups), keys):
            exact.add(place)
        elif call.function in _LISTS:
            shuffled.add(place)
    return FixedPart(frozenset(exact), frozenset(shuffled))


def _is_told(call: AggregateCall, told: set[int], keys: Sequence[frozenset[int]]) -> bool:
    """Whether the user's own order, if the call looks at one, leaves nothing open."""
    if not call.order or told.issuperset(call.arguments):
        return True
    return any(key <= told for key in keys)


def _regrouped(plan: GroupRecompute) -> Parts:
    def is_fixed(expr: exp.Expr, part: FixedPart) -> bool:
        simple = plan.grouped and expr.find(exp.Order) is None
        return part.exact.issuperset(used(expr)) and (simple or position(expr) is not None)

    found = _selected(fixed_parts(plan.input), plan.partition)
    return _distinct(
        FixedPart(frozenset(i for i, e in enumerate(plan.exprs) if is_fixed(e, p))) for p in found
    )


def _of_top_k(plan: TopK) -> Iterator[FixedPart]:
    told = {*plan.partition, *[key.column for key in plan.order]}
    number = {width(plan.input)} if plan.rank else set[int]()
    unique = any(told.issuperset(key) for key in unique_keys(plan.input))
    for part in _selected(fixed_parts(plan.input), told):
        if unique:
            yield FixedPart(part.exact | number, part.shuffled)
            continue
        yield FixedPart(frozenset(told | number))
        if plan.limit is None and not plan.offset:
            yield part


def _of_open_limit(plan: DynamicLimit) -> Iterator[FixedPart]:
    told = {key.column for key in plan.order}
    unique = any(told.issuperset(key) for key in unique_keys(plan.input))
    if _whole(plan.places, [plan.places]):
        for part in _selected(fixed_parts(plan.input), told):
            yield part if unique else FixedPart(frozenset(told))


def _of_window(plan: Window) -> Iterator[FixedPart]:
    told = {*plan.partition, *[key.column for key in plan.order[: plan.given]]}
    unique = any(told.issuperset(key) for key in unique_keys(plan.input))
    calls = list(enumerate(plan.calls, width(plan.input)))
    for part in fixed_parts(plan.input):
        known = part.exact.issuperset(told)
        exact = [i for i, c in calls if known and _is_fixed_call(c, part, told, unique)]
        if plan.most is None or exact:
            yield FixedPart(part.exact.union(exact), part.shuffled)
        if known and plan.most is None:  # the rows in order look all alike, as far as `told` goes
            alike = [i for i, c in calls if c.reads() <= told and not c.function.find(exp.Distinct)]
            yield FixedPart(frozenset(told).union(alike))  # distinct values come in no order at all


def _is_fixed_call(call: WindowCall, part: FixedPart, told: set[int], unique: bool) -> bool:
    peers_alike = call.ties == "none" or (call.ties == "argument" and call.reads() <= told)
    fixed = (unique or peers_alike) and part.exact.issuperset(call.reads())
    return fixed and call.function.find(exp.Order) is None


def _unnested(plan: Unnest) -> Iterator[FixedPart]:
    alone = len(plan.lists) == 1 and not plan.ordinality and plan.call is None
    count = len(plan.kept)
    for part in fixed_parts(plan.input):
        readable = part.exact | part.shuffled if alone else part.exact
        if not readable.issuperset(plan.lists):
            continue
        exact = {i for i, c in enumerate(plan.kept) if c in part.exact}
        shuffled = {i for i, c in enumerate(plan.kept) if c in part.shuffled}
        yield FixedPart(frozenset(exact).union(range(count, width(plan))), frozenset(shuffled))

"""The columns of an answer that a query determines where it leaves the order of ties open.

Law: a `FixedPart` names columns of a plan whose values, as a multiset of rows, are the same in
every correct answer. Among ties a LIMIT may choose any row, and ROW_NUMBER or list() may follow any
order; a plan breaks ties by its columns, DuckDB does not.
The rows of a lower materialized view are fixed for the views above, whichever it chose.
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
    Arrivals,
    Arrived,
    Awaited,
    Distinct,
    DynamicLimit,
    Emit,
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
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.plan.walks import inputs


class FixedPart(NamedTuple):
    """Columns that are fixed together.

    Attributes:
        exact: positions of the columns whose values are fixed.
        shuffled: positions of lists, or strings joined of them, fixed up to their elements' order.
    """

    exact: frozenset[int]
    shuffled: frozenset[int] = frozenset()


Parts = tuple[FixedPart, ...]
"""Each part is fixed by itself; without any part, not even the number of rows is fixed."""

_LISTS = frozenset(["list", "string_agg"])
_MOST = 16  # parts


def fixed_parts(plan: Plan) -> Parts:
    """The largest known sets of columns that a plan's query fixes together."""
    match plan:
        case Filter():
            return _selected(fixed_parts(plan.input), used(plan.predicate))
        case Emit():
            return _selected(fixed_parts(plan.input), [plan.by])
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
            return _all_or_none(plan, inputs(plan))
        case TopK():
            return _distinct(_of_top_k(plan))
        case DynamicLimit():
            return _distinct(_of_dynamic_limit(plan))
        case Window():
            return _distinct(_of_window(plan))
        case Unnest():
            return _distinct(_unnested(plan))
        case (
            Scan()
            | Values()
            | ViewScan()
            | TableFunction()
            | RecursiveScan()
            | Awaited()
            | Arrivals()
            | Arrived()
        ):  # their rows depend on no order
            return (FixedPart(_every(plan)),)


def fixes_all(part: FixedPart, plan: Plan) -> bool:
    """Returns whether the part fixes the values of all columns."""
    return part.exact == _every(plan)


def _every(plan: Plan) -> frozenset[int]:
    return frozenset(range(width(plan)))


def _all_or_none(plan: Plan, below: Sequence[Plan]) -> Parts:
    """All columns if the inputs' columns are all fixed, else no part."""
    fixed = all(any(fixes_all(p, part) for p in fixed_parts(part)) for part in below)
    return (FixedPart(_every(plan)),) if fixed else ()


def _distinct(parts: Iterable[FixedPart]) -> Parts:
    """The parts that no other part contains; of very many, those with the most columns."""
    found = list(dict.fromkeys(parts))
    largest = [p for p in found if not any(_holds(q, p) for q in found if q != p)]
    if len(largest) > _MOST:  # joins multiply the parts, and dropping some is safe
        largest.sort(key=lambda part: (len(part.exact), len(part.shuffled)), reverse=True)
    return tuple(largest[:_MOST])


def _holds(more: FixedPart, less: FixedPart) -> bool:
    return less.exact <= more.exact and less.shuffled <= more.shuffled | more.exact


def _selected(parts: Parts, read: Iterable[int]) -> Parts:
    return tuple(p for p in parts if p.exact.issuperset(read))


def _projected(part: FixedPart, exprs: Sequence[exp.Expr]) -> FixedPart:
    numbered = list(enumerate(exprs))
    exact = frozenset(i for i, e in numbered if part.exact.issuperset(used(e)))
    return FixedPart(exact, frozenset(i for i, e in numbered if position(e) in part.shuffled))


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
        return _all_or_none(plan, plan.inputs)
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
    for index, call in enumerate(plan.aggregates, count):
        read = {*call.arguments, *(() if call.filter is None else (call.filter,))}
        written = {key.column for key in call.order[: call.given]}
        if not part.exact.issuperset(read | written):
            continue
        if _has_one_result(call, written | set(plan.groups), keys):
            exact.add(index)
        elif call.function in _LISTS:
            shuffled.add(index)
    return FixedPart(frozenset(exact), frozenset(shuffled))


def _has_one_result(
    call: AggregateCall, distinguishing: set[int], keys: Sequence[frozenset[int]]
) -> bool:
    """Returns whether the call needs no order, or the user's order leaves no ties that matter."""
    if not call.order or distinguishing.issuperset(call.arguments):
        return True
    return any(key <= distinguishing for key in keys)


def _regrouped(plan: GroupRecompute) -> Parts:
    def is_fixed(expr: exp.Expr, part: FixedPart) -> bool:
        simple = plan.grouped and expr.find(exp.Order) is None
        return part.exact.issuperset(used(expr)) and (simple or position(expr) is not None)

    found = _selected(fixed_parts(plan.input), plan.partition)
    return _distinct(
        FixedPart(frozenset(i for i, e in enumerate(plan.exprs) if is_fixed(e, p))) for p in found
    )


def _of_top_k(plan: TopK) -> Iterator[FixedPart]:
    ordered = {*plan.partition, *[key.column for key in plan.order]}
    number = {width(plan.input)} if plan.rank else set[int]()
    unique = any(ordered.issuperset(key) for key in unique_keys(plan.input))
    for part in _selected(fixed_parts(plan.input), ordered):
        if unique:
            yield FixedPart(part.exact | number, part.shuffled)
            continue
        yield FixedPart(frozenset(ordered | number))
        if plan.limit is None and not plan.offset:
            yield part


def _of_dynamic_limit(plan: DynamicLimit) -> Iterator[FixedPart]:
    ordered = {key.column for key in plan.order}
    unique = any(ordered.issuperset(key) for key in unique_keys(plan.input))
    if _all_or_none(plan.bounds, [plan.bounds]):
        for part in _selected(fixed_parts(plan.input), ordered):
            yield part if unique else FixedPart(frozenset(ordered))


def _of_window(plan: Window) -> Iterator[FixedPart]:
    ordered = {*plan.partition, *[key.column for key in plan.order[: plan.given]]}
    unique = any(ordered.issuperset(key) for key in unique_keys(plan.input))
    calls = list(enumerate(plan.calls, width(plan.input)))
    for part in fixed_parts(plan.input):
        known = part.exact.issuperset(ordered)
        exact = [i for i, c in calls if known and _is_fixed_call(c, part, ordered, unique)]
        if plan.max_rank is None or exact:
            yield FixedPart(part.exact.union(exact), part.shuffled)
        if known and plan.max_rank is None:
            # Ties agree in these columns, so calls that read no others do not depend on the order
            # of ties; but DISTINCT values have no order at all.
            alike = [
                i for i, c in calls if c.reads() <= ordered and not c.function.find(exp.Distinct)
            ]
            yield FixedPart(frozenset(ordered).union(alike))


def _is_fixed_call(call: WindowCall, part: FixedPart, ordered: set[int], unique: bool) -> bool:
    peers_alike = call.ties == "none" or (call.ties == "argument" and call.reads() <= ordered)
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

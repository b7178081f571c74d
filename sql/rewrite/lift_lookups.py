"""Joins that only look up columns of a group by a unique key move above the aggregate.

Law: let T have a unique key k, and let the aggregate read columns of T in the join A ⋈ T on a = k
only as groups. If the group determines a, then γ(G; A ⋈ T) = γ(G'; A) ⋈ T on a = k, where G' is G
without T's columns and with a: the same rows form a group, and each group has one row of T.

So a grouping by a customer's key and attributes keeps accumulators by the key alone, and a change
of an attribute touches one row. T is not filtered: under a filter, groups would be formed of rows
that it excludes. The same is true of rows without a partner in T, so all other expressions must
have a value for any row (`cannot_fail`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import (
    column,
    compared,
    conjunction,
    conjuncts,
    index_of,
    position,
    remap,
    used,
)
from ivm.sql.plan.nodes import (
    Aggregate,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    filtered_by,
    types,
    width,
)
from ivm.sql.plan.walks import with_inputs
from ivm.sql.rewrite.cannot_fail import cannot_fail
from ivm.sql.rewrite.split_keys import equality_sides
from ivm.storage.values.types import ColumnType

# The others add up: sums of decimals of so many digits fit into 38 over 10¹⁰ rows.
_PICKS = (
    "count_star", "count", "min", "max", "first", "last", "any_value", "arg_min", "arg_max", "list",
    "string_agg", "mode", "bool_and", "bool_or", "count_if",
)  # fmt: skip
_SUMMED_DIGITS = 28


@dataclass(frozen=True)
class _Block:
    """Inner joins taken apart: the items, the conditions on them, and a projection.

    Columns are numbered through all items, in their order.
    """

    items: tuple[Plan, ...]
    terms: tuple[exp.Expr, ...]
    exprs: tuple[exp.Expr, ...]

    def start(self, item: int) -> int:
        """The position of the item's first column."""
        return sum(width(plan) for plan in self.items[:item])

    def columns(self, item: int) -> range:
        """The positions of the item's columns."""
        start = self.start(item)
        return range(start, start + width(self.items[item]))

    def equal(self) -> list[tuple[int, int]]:
        """Pairs of columns of one type that the conditions equate."""
        given = [t for item in self.items for t in types(item)]
        pairs = [pair for term in self.terms if (pair := _pair(term)) is not None]
        return [(a, b) for a, b in pairs if given[a] == given[b]]

    def determined(self, known: set[int]) -> set[int]:
        """All columns whose values follow from those of the known ones."""
        found: set[int] = set()
        known = set(known)
        while found != known:
            found = set(known)
            for a, b in self.equal():
                known |= {a, b} if a in known or b in known else set()
            for item, plan in enumerate(self.items):
                if isinstance(plan, Scan) and plan.key is not None:
                    start = self.start(item)
                    if all(start + i in known for i in plan.key):
                        known |= set(self.columns(item))
        return known

    def without(self, item: int, lost: set[int], stand_in: int) -> _Block:
        """The block without one item and the conditions on it.

        Args:
            lost: positions of expressions that read the item: `stand_in` takes their place, so
                that the others keep their positions.
        """
        gone = self.columns(item)

        def moved(i: int) -> int:
            return i - len(gone) if i >= gone.stop else i

        terms = tuple(remap(t, moved) for t in self.terms if used(t).isdisjoint(gone))
        exprs = [column(stand_in) if i in lost else e for i, e in enumerate(self.exprs)]
        items = self.items[:item] + self.items[item + 1 :]
        return _Block(items, terms, tuple(remap(e, moved) for e in exprs))


def _pair(term: exp.Expr) -> tuple[int, int] | None:
    """The two columns that an equality compares; None for any other condition."""
    sides = equality_sides(term)
    if sides is None or not isinstance(term.unnest(), exp.EQ):
        return None
    a, b = position(sides[0]), position(sides[1])
    return None if a is None or b is None else (a, b)


def lift_lookups(plan: Plan) -> Plan:
    """Moves every such join above its aggregate."""
    plan = with_inputs(plan, lift_lookups)
    return _lifted(plan) if isinstance(plan, Aggregate) and plan.groups else plan


def _lifted(plan: Aggregate) -> Plan:
    items, terms, positions = _flatten(plan.input, 0)
    exprs: Sequence[exp.Expr] = [column(i) for i in positions]
    if isinstance(plan.input, Project):
        items, terms, positions = _flatten(plan.input.input, 0)
        exprs = [remap(e, positions.__getitem__) for e in plan.input.exprs]
    block = _Block(tuple(items), tuple(terms), tuple(exprs))
    for item in range(len(items)):
        partners = _partners(block, item, plan)
        if partners is not None:
            return _apart(plan, block, item, partners)
    return plan


def _flatten(plan: Plan, start: int) -> tuple[list[Plan], list[exp.Expr], list[int]]:
    """The items of inner joins, the conditions on them, and the plan's columns as positions.

    Args:
        start: the position of the first item's first column.
    """
    match plan:
        case Filter():
            items, terms, positions = _flatten(plan.input, start)
            own = [remap(t, positions.__getitem__) for t in conjuncts(plan.predicate)]
            return items, terms + own, positions
        case Join(kind="inner", left_keys=()):
            items, terms, positions = _flatten(plan.left, start)
            others = _flatten(plan.right, start + sum(width(item) for item in items))
            positions = positions + others[2]
            own = [remap(t, positions.__getitem__) for t in conjuncts(plan.residual)]
            return items + others[0], terms + others[1] + own, positions
        case Project() if all(position(e) is not None for e in plan.exprs):
            items, terms, positions = _flatten(plan.input, start)
            columns = [positions[i] for e in plan.exprs if (i := position(e)) is not None]
            return items, terms, columns
        case _:
            return [plan], [], list(range(start, start + width(plan)))


def _partners(block: _Block, item: int, plan: Aggregate) -> list[int] | None:
    """The columns equal to the item's key, in its order; None if it does not look up a group."""
    table, own = block.items[item], block.columns(item)
    if not isinstance(table, Scan) or table.key is None or len(block.items) < 2:
        return None
    touching = [t for t in block.terms if not used(t).isdisjoint(own)]
    pairs = [pair for pair in block.equal() if (pair[0] in own) != (pair[1] in own)]
    equal = {a - own.start: b for a, b in (p if p[0] in own else p[::-1] for p in pairs)}
    if len(touching) != len(table.key) or set(equal) != set(table.key):
        return None
    partners = [equal[i] for i in table.key]
    groups = {i for g in plan.groups if (i := position(block.exprs[g])) is not None}
    of_one = any(set(partners) <= set(block.columns(i)) for i in range(len(block.items)))
    fits = of_one and _looks_up(block, own, plan) and set(partners) <= block.determined(groups)
    return partners if fits else None


def _looks_up(block: _Block, own: range, plan: Aggregate) -> bool:
    """Returns whether the aggregate reads the item only as groups, and nothing else can fail."""
    lost = {i for i, e in enumerate(block.exprs) if position(e) in own}
    read = set[int]().union(*[call.reads() for call in plan.aggregates])
    others = [e for i, e in enumerate(block.exprs) if i not in lost]
    given = [t for item in block.items for t in types(item)]
    safe = all(used(e).isdisjoint(own) and cannot_fail(e, given) for e in others)
    safe = safe and all(_adds_up(call, types(plan.input)) for call in plan.aggregates)
    return safe and not lost.isdisjoint(plan.groups) and lost.isdisjoint(read)


def _adds_up(call: AggregateCall, given: Sequence[ColumnType]) -> bool:
    """Returns whether the call cannot fail, whatever rows it gets."""
    arguments = [given[i] for i in call.arguments]
    short = [t.is_word or (t.is_decimal and t.precision <= _SUMMED_DIGITS) for t in arguments]
    return call.function in _PICKS or all(short)


def _apart(plan: Aggregate, block: _Block, item: int, partners: list[int]) -> Plan:
    """The aggregate over the other items, joined with the item.

    The new groups are the old ones that are not the item's, and the partners that are not yet
    among them; a projection on top restores the plan's columns.
    """
    own, table = block.columns(item), block.items[item]
    assert isinstance(table, Scan)
    assert table.key is not None
    lost = {i for i, e in enumerate(block.exprs) if position(e) in own}
    count = len(block.exprs)
    others = [g for g in plan.groups if g not in lost]
    positions = [position(block.exprs[g]) for g in others]
    new = [i for i in partners if i not in positions]
    longer = replace(block, exprs=(*block.exprs, *[column(i) for i in new]))
    groups = others + list(range(count, count + len(new)))
    below = _aggregate(plan, longer.without(item, lost, partners[0]), groups)
    split = len(groups) + len(plan.aggregates)
    found = [column([*positions, *new].index(i)) for i in partners]
    pairs = zip(found, table.key, strict=True)
    terms = [compared(exp.EQ, partner, column(split + i)) for partner, i in pairs]
    joined = Join(_lifted(below), table, "inner", residual=conjunction(terms))
    shown = []
    for g in plan.groups:
        looked_up = position(block.exprs[g]) if g in lost else None
        shown.append(groups.index(g) if looked_up is None else split + looked_up - own.start)
    shown += range(len(groups), split)
    return Project(joined, tuple(column(i) for i in shown), plan.schema)


def _aggregate(plan: Aggregate, block: _Block, groups: list[int]) -> Aggregate:
    """The plan's aggregates over the block, in other groups."""
    joined = block.items[0]
    for item in block.items[1:]:
        joined = Join(joined, item, "inner")
    source = filtered_by(joined, block.terms)
    given = plan.input.schema
    extra = [joined.schema[index_of(e)] for e in block.exprs[len(given) :]]  # type: ignore[arg-type]
    schema = []
    for e, own in zip(block.exprs, (*given, *extra), strict=True):
        found = position(e)
        schema.append((own[0], own[1] if found is None else joined.schema[found][1]))
    below = Project(source, block.exprs, tuple(schema))
    names = tuple((f"c{n}", schema[g][1]) for n, g in enumerate(groups))
    results = plan.schema[len(plan.groups) :]
    return Aggregate(below, tuple(groups), plan.aggregates, names + tuple(results))

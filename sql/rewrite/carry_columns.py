"""A plan with further columns behind its own: correlation keys, a row of a domain, an iteration.

Law: over inputs that hold, for each value v of the further columns, the rows of a plan's inputs at
v, the node built here holds for each v the plan's rows at v. So a node that looks at each row by
itself passes the columns on; one that groups rows, ranks them or tells them apart has them among
its keys; two inputs meet where they agree on them; an input that is the same for every v need not
have them where each of its rows meets rows that do. An aggregate without groups has its row also
at a v without rows: only who knows all v can tell which rows these are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeGuard

from sqlglot import exp

from ivm.sql.plan.expressions import column, remap
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    SetOp,
    TopK,
    Union,
    Unnest,
    Window,
    inputs,
    width,
    with_inputs,
)
from ivm.sql.rewrite.expand_joins import picked
from ivm.storage.values.types import Schema

Single: TypeAlias = (
    Filter | Project | Aggregate | GroupRecompute | Distinct | TopK | Window | Unnest
)
"""Nodes of one input."""


def without_groups(plan: object) -> TypeGuard[Aggregate | GroupRecompute]:
    """Whether the node is an aggregate that has its one row also over no rows."""
    if isinstance(plan, Aggregate):
        return not plan.groups
    return isinstance(plan, GroupRecompute) and plan.grouped and not plan.partition


@dataclass(frozen=True)
class Carried:
    """A node with further columns.

    Attributes:
        own: where its own columns stand.
        further: where the carried ones do.
    """

    plan: Plan
    own: Sequence[int]
    further: Sequence[int]

    def behind(self) -> Plan:
        """Its own columns, then the carried ones."""
        order = [*self.own, *self.further]
        return self.plan if order == list(range(width(self.plan))) else picked(self.plan, order)


def columns(places: Iterable[int]) -> list[exp.Expr]:
    """The columns at some places."""
    return [column(i) for i in places]


def carried(
    plan: Single,
    below: Plan,
    places: Sequence[int],
    image: Callable[[exp.Expr], exp.Expr] = lambda e: e,
) -> Carried:
    """The node over a wider input, with columns of it.

    Args:
        below: the columns of the node's input, then others.
        places: those that are carried; where rows are ranked or told apart, all others.
        image: what becomes of the node's own expressions.
    """
    at, keys = _insertion(plan), tuple(places)
    schema = (*plan.schema[:at], *[below.schema[i] for i in keys], *plan.schema[at:])
    made: Plan
    match plan:
        case Filter():
            made = Filter(below, image(plan.predicate))
        case Distinct():
            made = Distinct(below)
        case Project():
            made = Project(below, (*map(image, plan.exprs), *columns(keys)), schema)
        case Aggregate():
            made = Aggregate(below, (*plan.groups, *keys), plan.aggregates, schema)
        case GroupRecompute():
            exprs = [image(e) if plan.grouped else _partitioned(image(e), keys) for e in plan.exprs]
            partition = (*plan.partition, *keys)
            made = GroupRecompute(below, partition, (*exprs, *columns(keys)), plan.grouped, schema)
        case TopK():
            partition = (*plan.partition, *keys)
            made = replace(plan, input=below, partition=partition, schema=schema)
        case Window():
            partition, calls = (*plan.partition, *keys), tuple(c.mapped(image) for c in plan.calls)
            made = replace(plan, input=below, partition=partition, calls=calls, schema=schema)
        case Unnest():
            made = replace(plan, input=below, kept=(*plan.kept, *keys), schema=schema)
    after = at + len(keys)
    return Carried(made, [*range(at), *range(after, len(schema))], range(at, after))


def _insertion(plan: Single) -> int:
    """Behind how many of its own columns a node has those that it carries."""
    match plan:
        case Aggregate():
            return len(plan.groups)
        case Unnest():
            return len(plan.kept)
        case TopK() | Window():
            return width(plan.input)
        case _:
            return width(plan)


def _partitioned(expr: exp.Expr, keys: Sequence[int]) -> exp.Expr:
    """The expression with every window in it divided by further columns."""
    whole = expr.copy()
    for window in whole.find_all(exp.Window):
        window.set("partition_by", [*(window.args.get("partition_by") or []), *columns(keys)])
    return whole


def united(plan: Union | SetOp, parts: Sequence[Plan]) -> Plan:
    """The node over inputs that have further columns of the same types."""
    given = iter(parts)
    made = with_inputs(plan, lambda _: next(given))
    assert isinstance(made, Union | SetOp)
    return replace(made, schema=plan.schema + parts[0].schema[width(plan) :])


class Carry(ABC):
    """Carries columns through a whole plan, from the nodes that have them by nature.

    Args:
        schema: the columns'.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.count = len(schema)

    @abstractmethod
    def depends(self, plan: Plan) -> bool:
        """Whether the plan's rows are others for other values."""

    @abstractmethod
    def everywhere(self, plan: Plan) -> Plan:
        """A plan that does not depend, with every value there is."""

    @abstractmethod
    def source(self, plan: Plan) -> Plan:
        """A node that has the columns by nature, with them. Raises NotIncremental for others."""

    @abstractmethod
    def each(self, plan: Aggregate | GroupRecompute) -> Plan:
        """An aggregate without groups, with its row for every value there is."""

    @abstractmethod
    def met(self, join: Join, left: Sequence[int], right: Sequence[int]) -> Join:
        """A join whose inputs agree on columns of the left and of the right one."""

    def alone(self, plan: Plan) -> Plan:
        """A plan that does not depend, beside one that has the values."""
        return plan

    def expression(self, expr: exp.Expr, places: Sequence[int]) -> exp.Expr:
        """An expression over rows whose carried columns stand at some places."""
        return expr

    def over(self, plan: Plan) -> Plan:
        """The plan's columns, then the carried ones."""
        if not self.depends(plan):
            return self.everywhere(plan)
        if without_groups(plan):
            return self.each(plan)
        if isinstance(plan, Single):
            return self.node(plan).behind()
        if isinstance(plan, Union | SetOp):
            return united(plan, [self.over(part) for part in inputs(plan)])
        return self.join(plan) if isinstance(plan, Join) else self.source(plan)

    def node(self, plan: Single) -> Carried:
        """The node over its input with the columns."""
        start = width(plan.input)
        places = range(start, start + self.count)
        return carried(plan, self.over(plan.input), places, lambda e: self.expression(e, places))

    def join(self, plan: Join) -> Plan:
        """Both inputs at one value, or one of them at any where the other one's rows decide."""
        any_left = plan.kind == "inner" and not self.depends(plan.left)
        any_right = plan.kind != "full" and not self.depends(plan.right)
        left = self.alone(plan.left) if any_left else self.over(plan.left)
        right = self.alone(plan.right) if any_right else self.over(plan.right)
        split, by, count = width(plan.left), width(left), width(plan.right)
        own = [*range(split), *range(by, by + count)]
        at_left, at_right = range(split, by), range(by + count, by + width(right))
        joined = replace(plan, left=left, right=right)
        if plan.residual is not None:
            residual = remap(plan.residual, own.__getitem__)
            joined = replace(joined, residual=self.expression(residual, at_left or at_right))
        if at_left and at_right:
            joined = self.met(joined, at_left, range(count, width(right)))
        if plan.kind == "full":
            return self._either(joined, own, at_left, at_right)
        if plan.kind in ("semi", "anti"):
            return joined
        return Carried(joined, own, at_left or at_right).behind()

    def _either(
        self, joined: Join, own: Sequence[int], left: Sequence[int], right: Sequence[int]
    ) -> Plan:
        """Of a full join either side may be missing, and its carried columns with it."""
        pairs = zip(left, right, strict=True)
        found = [exp.Coalesce(this=column(a), expressions=[column(b)]) for a, b in pairs]
        schema = (*[joined.schema[i] for i in own], *self.schema)
        return Project(joined, (*columns(own), *found), schema)

"""Carried columns through a plan: correlation keys, a row of a domain, an iteration.

Law: over inputs that hold, for each value v of the carried columns, the rows of a plan's inputs at
v, the node built here holds for each v the plan's rows at v. So a node that looks at each row by
itself passes the columns on; a node that groups, ranks or distinguishes rows has them among its
keys; a join of two inputs that have them demands that they agree; an input that is the same for
every v need not have them if each of its rows is joined with rows that do. An aggregate without
groups has its row also at a v without rows, so its row is made from the set of all v (`each`).
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
    width,
)
from ivm.sql.plan.walks import inputs, with_inputs
from ivm.sql.rewrite.expand_joins import picked
from ivm.storage.values.types import Schema

Single: TypeAlias = (
    Filter | Project | Aggregate | GroupRecompute | Distinct | TopK | Window | Unnest
)
"""Nodes of one input."""


def without_groups(plan: object) -> TypeGuard[Aggregate | GroupRecompute]:
    """Returns whether the node is an aggregate that has its one row also over no rows."""
    if isinstance(plan, Aggregate):
        return not plan.groups
    return isinstance(plan, GroupRecompute) and plan.grouped and not plan.partition


@dataclass(frozen=True)
class Carried:
    """A node with carried columns.

    Attributes:
        own: positions of its own columns.
        further: positions of the carried ones.
    """

    plan: Plan
    own: Sequence[int]
    further: Sequence[int]

    def behind(self) -> Plan:
        """The plan with its own columns first, then the carried ones."""
        order = [*self.own, *self.further]
        return self.plan if order == list(range(width(self.plan))) else picked(self.plan, order)


def columns(positions: Iterable[int]) -> list[exp.Expr]:
    return [column(i) for i in positions]


def carried(
    plan: Single,
    below: Plan,
    positions: Sequence[int],
    image: Callable[[exp.Expr], exp.Expr] = lambda e: e,
) -> Carried:
    """The node over an input with more columns, some of which it carries.

    Args:
        below: the columns of the node's input, then others.
        positions: of the columns to carry; all others, if the node ranks or distinguishes rows.
        image: rewrites the node's own expressions.
    """
    at, keys = _insertion(plan), tuple(positions)
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
    """The position of a node's first carried column: keys, and inputs' columns, come first."""
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
    """The expression with the columns added to PARTITION BY of every window in it."""
    whole = expr.copy()
    for window in whole.find_all(exp.Window):
        window.set("partition_by", [*(window.args.get("partition_by") or []), *columns(keys)])
    return whole


def united(plan: Union | SetOp, parts: Sequence[Plan]) -> Plan:
    """The node over inputs with carried columns of the same types."""
    given = iter(parts)
    made = with_inputs(plan, lambda _: next(given))
    assert isinstance(made, Union | SetOp)
    return replace(made, schema=plan.schema + parts[0].schema[width(plan) :])


class Carry(ABC):
    """Carries columns through all nodes of a plan, from the nodes that introduce them (`source`).

    Args:
        schema: of the carried columns.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.count = len(schema)

    @abstractmethod
    def depends(self, plan: Plan) -> bool:
        """Returns whether the plan's rows depend on the values of the carried columns."""

    @abstractmethod
    def everywhere(self, plan: Plan) -> Plan:
        """A plan that does not depend on the values, joined with all of them."""

    @abstractmethod
    def source(self, plan: Plan) -> Plan:
        """A node that introduces the columns, with them. Raises NotIncremental for other nodes."""

    @abstractmethod
    def each(self, plan: Aggregate | GroupRecompute) -> Plan:
        """An aggregate without groups, with its row for each of all values."""

    @abstractmethod
    def met(self, join: Join, left: Sequence[int], right: Sequence[int]) -> Join:
        """The join under the condition that these columns of its inputs agree."""

    def alone(self, plan: Plan) -> Plan:
        """The input of a join that does not depend on the values, where the other input does."""
        return plan

    def expression(self, expr: exp.Expr, positions: Sequence[int]) -> exp.Expr:
        """Rewrites an expression over rows whose carried columns stand at some positions."""
        return expr

    def over(self, plan: Plan) -> Plan:
        """The plan with its own columns first, then the carried ones."""
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
        own = range(start, start + self.count)
        return carried(plan, self.over(plan.input), own, lambda e: self.expression(e, own))

    def join(self, plan: Join) -> Plan:
        """The join of both inputs at equal values, or of one with an input that has none.

        An input that does not depend on the values need not have them, unless its rows without a
        partner are in the result: these are needed at every value. Where the condition alone
        depends, one input has them all the same.
        """
        any_left = plan.kind == "inner" and not self.depends(plan.left)
        any_right = plan.kind != "full" and not any_left and not self.depends(plan.right)
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
        """The full join with its carried columns from the side that is there."""
        pairs = zip(left, right, strict=True)
        found = [exp.Coalesce(this=column(a), expressions=[column(b)]) for a, b in pairs]
        schema = (*[joined.schema[i] for i in own], *self.schema)
        return Project(joined, (*columns(own), *found), schema)

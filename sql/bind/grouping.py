"""GROUP BY, aggregates and HAVING: expressions over rows become expressions over groups.

Law: after grouping, an expression consists of grouped expressions, aggregate calls, GROUPING(…) and
constants; whatever else it holds DuckDB would have refused. A constant that a grouping set may
leave out is a grouped expression wherever it is written.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.sql.bind.group_plan import GroupingCall, group_plan
from ivm.sql.plan.built_in import call_name
from ivm.sql.plan.expressions import column, structure, text, used
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.functions import Functions
from ivm.sql.subqueries.attach import attached_lists
from ivm.sql.subqueries.parameters import holds_stand_in

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_GROUPING = ("grouping", "grouping_id")
_ALIKE = (  # what is the same tree in DuckDB, operands and all
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.DPipe, exp.And, exp.Or, exp.Not, exp.EQ,
    exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between,
    exp.Paren, exp.Cast, exp.DataType, exp.Coalesce, exp.Case, exp.If, exp.Anonymous, exp.Upper,
    exp.Lower, exp.Abs, exp.Round, exp.Window, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Order,
    exp.Ordered, exp.Literal, exp.Null, exp.Boolean, exp.Identifier,
)  # fmt: skip


def is_window_function(node: exp.Expression) -> bool:
    """Whether the call is what a window is opened for (`sum(x)` in `sum(x) OVER ()`)."""
    while isinstance(node.parent, _WRAPPERS) and node.arg_key == "this":
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


@dataclass
class Grouping:
    """Collects the aggregates of a SELECT and rewrites its expressions over the groups.

    Args:
        groups: the grouped expressions, over the input.
        sets: the grouping sets, as positions in `groups`; None: all of them.
    """

    groups: Sequence[exp.Expression]
    functions: Functions
    sets: Sequence[Sequence[int]] | None = None
    _calls: dict[Hashable, tuple[int, exp.Expression | GroupingCall]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A constant stands for itself: NULL in `x IS NULL` is not the NULL that is grouped by.
        self._known = self._places([bool(used(e)) for e in self.groups])
        self._constants = self._places([not used(e) and self.sets is not None for e in self.groups])

    def _places(self, chosen: Sequence[bool]) -> dict[Hashable, int]:
        return {structure(e): i for i, e in reversed(list(enumerate(self.groups))) if chosen[i]}

    def covers(self, expr: exp.Expression) -> bool:
        """Whether the expression is one of the grouped ones."""
        return structure(expr) in self._known

    def lift(self, expr: exp.Expression) -> exp.Expression:
        """The expression over the grouped output (groups first, then aggregates)."""

        def swap(node: exp.Expression) -> exp.Expression:
            group = self._known.get(structure(node))
            group = self._constant(node) if group is None else group
            if group is not None:
                return column(group)
            if self.functions.is_aggregate(node) and not is_window_function(node):
                return column(len(self.groups) + self._register(node))
            if isinstance(node, exp.Func) and call_name(node) in _GROUPING:
                return column(len(self.groups) + self._enter(structure(node), self._bits(node)))
            if isinstance(node, exp.Column):
                raise NotIncremental("a column outside of GROUP BY")
            self._check_alike(node)
            return node

        return expr.copy().transform(swap, copy=False)

    def _constant(self, node: exp.Expression) -> int | None:
        """The group that a constant is."""
        is_null_test = isinstance(node, exp.Null) and isinstance(node.parent, exp.Is)
        return None if is_null_test else self._constants.get(structure(node))

    def _check_alike(self, node: exp.Expression) -> None:
        """DuckDB finds a constant group in its own tree of an expression: ours must be the same."""
        known = isinstance(node, _ALIKE) or self.functions.is_aggregate(node)
        if isinstance(node, exp.Is):
            known = isinstance(node.expression, exp.Null)
        if self._constants and (not known or holds_stand_in(node)):
            raise NotIncremental(f"{text(node)} beside constants in GROUPING SETS, ROLLUP or CUBE")

    def _register(self, node: exp.Expression) -> int:
        return self._enter(structure(node), node.copy())

    def _enter(self, key: Hashable, call: exp.Expression | GroupingCall) -> int:
        if key not in self._calls:
            self._calls[key] = (len(self._calls), call)
        return self._calls[key][0]

    def _bits(self, node: exp.Expression) -> GroupingCall:
        """The groups that a GROUPING(…) asks about; none named means all."""
        named = [structure(e) for e in node.expressions]
        known = {**self._known, **self._constants}
        if not set(named) <= set(known):
            raise NotIncremental("GROUPING() of something that is not grouped by")
        places = [known[key] for key in named]
        return GroupingCall(tuple(places or range(len(self.groups))))

    def apply(self, plan: Plan, context: Context) -> Plan:
        """The grouped plan, with every aggregate met by `lift`."""
        nodes = [node for _, node in self._calls.values()]
        sets = [range(len(self.groups))] if self.sets is None else self.sets
        calls = [node for node in nodes if isinstance(node, exp.Expression)]
        plan, (groups, calls) = attached_lists(plan, [list(self.groups), calls], context)
        rest = iter(calls)
        nodes = [next(rest) if isinstance(node, exp.Expression) else node for node in nodes]
        return group_plan(plan, groups, sets, nodes, context)

"""GROUP BY, aggregates and HAVING: expressions over rows become expressions over groups.

Law: after grouping, an expression consists of grouped expressions, aggregate calls and constants;
whatever else it holds DuckDB would have refused. Aggregates beyond the known list, and all that
stand beside one, are computed by DuckDB over the whole group, in a completed order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.sql.bind_context import Context
from ivm.sql.bind_functions import Functions, call_name
from ivm.sql.bind_order import complete_aggregate
from ivm.sql.bind_parse import synonyms
from ivm.sql.bind_types import types_of
from ivm.sql.columns import column, remap, structure, text, used
from ivm.sql.plan import (
    Aggregate,
    AggregateCall,
    GroupRecompute,
    NotIncremental,
    Plan,
    types,
    width,
)
from ivm.sql.render import call_text
from ivm.storage.types import type_of

MAINTAINED = frozenset(
    [
        "count_star",
        "count",
        "count_if",
        "sum",
        "avg",
        "var_pop",
        "var_samp",
        "stddev_pop",
        "stddev_samp",
        "bool_and",
        "bool_or",
        "min",
        "max",
    ]
)
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


@dataclass(frozen=True)
class _Call:
    """A plain aggregate call over expressions of the input."""

    function: str
    arguments: tuple[exp.Expression, ...]
    distinct: bool
    filter: exp.Expression | None


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
    """

    groups: Sequence[exp.Expression]
    functions: Functions
    _calls: dict[Hashable, tuple[int, exp.Expression]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A constant stands for itself: NULL in `x IS NULL` is not the NULL that is grouped by.
        places = [(i, e) for i, e in enumerate(self.groups) if used(e)]
        self._known = {structure(e): i for i, e in reversed(places)}

    def covers(self, expr: exp.Expression) -> bool:
        """Whether the expression is one of the grouped ones."""
        return structure(expr) in self._known

    def lift(self, expr: exp.Expression) -> exp.Expression:
        """The expression over the grouped output (groups first, then aggregates)."""

        def swap(node: exp.Expression) -> exp.Expression:
            group = self._known.get(structure(node))
            if group is not None:
                return column(group)
            if self.functions.is_aggregate(node) and not is_window_function(node):
                return column(len(self.groups) + self._register(node))
            if isinstance(node, exp.Column):
                raise NotIncremental("a column outside of GROUP BY")
            return node

        return expr.copy().transform(swap, copy=False)

    def _register(self, node: exp.Expression) -> int:
        key = structure(node)
        if key not in self._calls:
            self._calls[key] = (len(self._calls), node.copy())
        return self._calls[key][0]

    def apply(self, plan: Plan, context: Context) -> Plan:
        """The grouped plan, with every aggregate met by `lift`."""
        nodes = [node for _, node in self._calls.values()]
        calls = [_plain_call(node, context) for node in nodes]
        plain = [call for call in calls if call is not None]
        if len(plain) < len(calls):
            return _recompute(plan, list(self.groups), nodes, context)
        return _maintain(plan, list(self.groups), plain, context)


def _plain_call(node: exp.Expression, context: Context) -> _Call | None:
    """The call as the operators know it; None sends it to group recompute."""
    condition = None
    if isinstance(node, exp.Filter):
        node, condition = node.this, node.expression.this
    if isinstance(node, _WRAPPERS):
        return None
    name = call_name(node)
    name = synonyms(context.cursor).get(name, name)
    arguments = node.expressions if isinstance(node, exp.Anonymous) else _arguments(node)
    distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = arguments[0].expressions
    if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        name, arguments = "count_star", []
    wanted = 0 if name == "count_star" else 1
    known = name in MAINTAINED and len(arguments) == wanted
    if not known or any(isinstance(a, (exp.Order, exp.Distinct, exp.Star)) for a in arguments):
        return None
    return _Call(name, tuple(arguments), distinct, condition)


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    return [v for v in node.iter_expressions() if isinstance(v, exp.Expression)]


class _Inputs:
    """The columns below a grouping: each expression once."""

    def __init__(self, groups: list[exp.Expression]) -> None:
        self.exprs = list(groups)
        self._known = {structure(e): i for i, e in reversed(list(enumerate(groups)))}

    def place(self, expr: exp.Expression) -> int:
        key = structure(expr)
        if key not in self._known:
            self._known[key] = len(self.exprs)
            self.exprs.append(expr)
        return self._known[key]


def _maintain(
    plan: Plan, groups: list[exp.Expression], calls: list[_Call], context: Context
) -> Plan:
    inputs = _Inputs(groups)
    placed = []
    for call in calls:
        arguments = tuple(inputs.place(a) for a in call.arguments)
        condition = None if call.filter is None else inputs.place(_boolean(call.filter))
        unknown = type_of("BOOLEAN")
        placed.append(AggregateCall(call.function, arguments, call.distinct, condition, unknown))
    below = context.project(plan, inputs.exprs or [exp.true()])
    answers = types_of(context.cursor, [call_text(c) for c in placed], below.schema)
    typed = [
        AggregateCall(c.function, c.arguments, c.distinct, c.filter, t)
        for c, t in zip(placed, answers, strict=True)
    ]
    found = [*types(below)[: len(groups)], *answers]
    schema = tuple((f"c{i}", t) for i, t in enumerate(found))
    return Aggregate(below, tuple(range(len(groups))), tuple(typed), schema)


def _boolean(expr: exp.Expression) -> exp.Expression:
    return exp.Cast(this=expr.copy(), to=exp.DataType(this=exp.DType.BOOLEAN))


def _recompute(
    plan: Plan, groups: list[exp.Expression], nodes: list[exp.Expression], context: Context
) -> Plan:
    """Whole groups to DuckDB: the input holds the groups and every column the calls read."""
    inputs = _Inputs(groups)
    places = {i: inputs.place(column(i)) for node in nodes for i in sorted(used(node))}
    below = context.project(plan, inputs.exprs or [exp.true()])
    count = width(below)
    calls = [complete_aggregate(remap(n, places.__getitem__), count, context) for n in nodes]
    exprs = [column(i) for i in range(len(groups))] + calls
    partition = tuple(range(len(groups)))
    tail = f"GROUP BY {', '.join(f't.c{i}' for i in partition)}" if partition else ""
    found = types_of(context.cursor, [text(e) for e in exprs], below.schema, tail)
    schema = tuple((f"c{i}", t) for i, t in enumerate(found))
    return GroupRecompute(below, partition, tuple(exprs), True, schema)

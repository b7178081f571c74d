"""Window functions: all functions over one window become one node that adds their columns.

Law: where rows tie and the function depends on their order, all columns complete the order: that of
the window or, where this would change the peers, an order of the arguments.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ivm.sql.bind.distinct_windows import Marked, marked
from ivm.sql.parse.query import verbatim
from ivm.sql.plan.built_in import PEERS_ALIKE, call_name, chief_name
from ivm.sql.plan.calls import Ties, WindowCall
from ivm.sql.plan.expressions import Expressions, cast, column, position, structure, used
from ivm.sql.plan.nodes import NotIncremental, Plan, Window, types, width
from ivm.sql.plan.render_split import splittable
from ivm.sql.plan.render_window import window_texts, with_order
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.resolve.orders import ORDERLESS, complete_aggregate, parts_of
from ivm.storage.identifiers import fold
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of

_BY_RANK = frozenset(["lag", "lead", "ntile", "row_number"])
_SUMS = frozenset(["sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"])
_PARTS = ("partition_by", "order", "spec")
_NULLS = (exp.IgnoreNulls, exp.RespectNulls)


@dataclass
class Windows:
    """Collects the window functions of a SELECT and rewrites its expressions over their results.

    Args:
        definitions: the WINDOW clause: folded name → window.
        count: columns of the plan below.
    """

    definitions: dict[str, exp.Expr]
    count: int
    _found: dict[Hashable, tuple[int, exp.Expr]] = field(default_factory=dict)

    def lift(self, expr: exp.Expr) -> exp.Expr:
        """The expression over the plan's columns, followed by one column per window function."""

        def swap(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Window):
                return node
            key = structure(node)
            if key not in self._found:
                self._found[key] = (len(self._found), node.copy())
            return column(self.count + self._found[key][0])

        return expr.copy().transform(swap, copy=False)

    def apply(self, plan: Plan, context: Context) -> Plan:
        """The plan with a column behind its own for every window function that `lift` has met."""
        positions: dict[int, int] = {}
        for batch in self._batches():
            positions |= {index: width(plan) + i for i, (index, _) in enumerate(batch)}
            plan = _add(plan, [node for _, node in batch], context)
        order = [positions[i] for i in range(len(positions))]
        return context.narrow(plan, [*range(self.count), *order])

    def _batches(self) -> list[list[tuple[int, exp.Expr]]]:
        """The functions by their window: computed together, they see equal rows in one order."""
        batches: dict[Hashable, list[tuple[int, exp.Expr]]] = {}
        for index, found in self._found.values():
            node = self._defined(found)
            parts = [structure(node.args.get(part)) for part in ("partition_by", "order")]
            batches.setdefault(tuple(parts), []).append((index, node))
        return list(batches.values())

    def _defined(self, node: exp.Expr) -> exp.Expr:
        """The window with the parts of the named window that it refers to.

        Raises:
            NotIncremental: there is no such window.
        """
        name = node.args.get("alias")
        if name is None:
            return node
        base = self.definitions.get(fold(name.name))
        if base is None:
            raise NotIncremental(f"the window {name.name}")
        base = self._defined(base)
        whole = node.copy()
        whole.set("alias", None)
        for part in _PARTS:
            if not whole.args.get(part):
                whole.set(part, base.copy().args.get(part))
        return whole


def _add(plan: Plan, nodes: Sequence[exp.Expr], context: Context) -> Plan:
    """The plan with the columns of functions over one window behind its own."""
    before = width(plan)
    distinct = {i: found for i, n in enumerate(nodes) if (found := marked(n, context)) is not None}
    if not distinct:
        return _plainly_added(plan, nodes, context)
    whole = plan
    for i, call in distinct.items():
        whole = _marked(whole, nodes[i], call, context)
    marks = {i: before + number for number, i in enumerate(distinct)}
    changed = [distinct[i].over(n, marks[i]) if i in marks else n for i, n in enumerate(nodes)]
    start = width(whole)
    whole = _plainly_added(whole, changed, context)
    return context.narrow(whole, [*range(before), *range(start, width(whole))])


def _marked(plan: Plan, node: exp.Expr, call: Marked, context: Context) -> Plan:
    """The plan with the mark of the call's rows as last column."""
    count = width(plan)
    every: list[exp.Expr] = [column(i) for i in range(count)]
    flagged = context.project(plan, [*every, exp.true()])
    found = _plainly_added(flagged, [call.window(node, count)], context)
    return context.project(found, [*every, call.mark(count + 1)])


def _plainly_added(plan: Plan, nodes: Sequence[exp.Expr], context: Context) -> Plan:
    order = nodes[0].args.get("order")
    keys = list(order.expressions) if order is not None else []
    parts = list(nodes[0].args.get("partition_by") or [])
    plain = [_plain(node.this) for node in nodes]
    before = width(plan)
    widened = _WidenedInput(before)
    partition = tuple(dict.fromkeys([widened.position_of(e) for e in parts]))
    terms = _terms(keys, [widened.position_of(k.this) for k in keys])
    calls = [replace(call, function=widened.moved(call.function)) for call in plain]
    below = context.project(plan, widened.exprs) if len(widened.exprs) > before else plan
    pairs = zip(calls, nodes, strict=True)
    distinguishing = {*partition, *[key.column for key in terms]}
    unique = any(distinguishing.issuperset(key) for key in unique_keys(below))
    framed = [replace(call, frame=_spelt(node.args.get("spec"))) for call, node in pairs]
    given = [_tied(call, below, terms, unique, context) for call in framed]
    done = _window(below, partition, terms, given, context)
    return context.narrow(done, [*range(before), *range(width(below), width(done))])


def _spelt(frame: exp.Expr | None) -> exp.Expr | None:
    """The frame with its keywords in capitals: sqlglot leaves some as they were written."""
    if frame is None:
        return None
    spelt = frame.copy()
    for part, word in frame.args.items():
        if isinstance(word, str):
            spelt.set(part, word.upper())
    return spelt


def _terms(keys: list[exp.Ordered], positions: list[int]) -> tuple[OrderKey, ...]:
    found: dict[int, OrderKey] = {}
    for key, index in zip(keys, positions, strict=True):
        descending, nulls_first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
        found.setdefault(index, OrderKey(index, descending, nulls_first))
    return tuple(found.values())


class _WidenedInput(Expressions):
    """The input of a window: the plan's columns, then the expressions that the window reads."""

    def __init__(self, count: int) -> None:
        super().__init__([])
        self.exprs += [column(i) for i in range(count)]

    def position_of(self, expr: exp.Expr) -> int:
        known = position(expr)
        return super().position_of(expr) if known is None else known

    def moved(self, call: exp.Expr) -> exp.Expr:
        """The call over columns: expressions among its arguments are computed in the input."""
        made = call.copy()
        if isinstance(made, exp.Filter):
            condition = made.expression
            flag = cast(condition.this, type_of("BOOLEAN"))
            condition.set("this", column(self.position_of(flag)))
        function = made.this if isinstance(made, exp.Filter) else made
        has_order = any(isinstance(a, exp.Order) for a in function.expressions)  # of its arguments
        if not has_order:
            function.set("expressions", [self._argument(a) for a in function.expressions])
        return made

    def _argument(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Distinct):
            return exp.Distinct(expressions=[self._argument(e) for e in node.expressions])
        if isinstance(node, (exp.Order, exp.Star, exp.Lambda)) or not used(node):
            return node
        return column(self.position_of(node))


def _plain(function: exp.Expr) -> WindowCall:
    """The call with its FILTER, spelled as DuckDB does.

    Raises:
        NotIncremental: the call has a syntax of its own.
    """
    call = verbatim(function)
    inner = call.this if isinstance(call, exp.Filter) else call
    if not isinstance(inner, exp.Anonymous):
        raise NotIncremental(f"{call_name(inner) or 'this call'}() OVER in this form")
    words = list(inner.find_all(*_NULLS))
    for word in words:
        word.replace(word.this)
    return WindowCall(call, None, any(isinstance(w, exp.IgnoreNulls) for w in words), "none")


def _tied(
    call: WindowCall, plan: Plan, order: Sequence[OrderKey], unique: bool, context: Context
) -> WindowCall:
    """The call with its ties broken (there are none if the order is `unique`)."""
    function, frame = call.function, call.frame
    inner = function.this if isinstance(function, exp.Filter) else function
    name = chief_name(call_name(inner))
    ties = _ties(name, inner, frame)
    if name == "fill" and not _has_order(inner):
        return _filled(call, order, unique)
    by_rank = name in _BY_RANK | PEERS_ALIKE
    if _excludes_peers(frame) and not by_rank and not unique:
        aggregate = context.functions.is_aggregate(function) and not call.ignore_nulls
        return _split(call, name, aggregate, types(plan))
    if _has_order(inner) and name not in ORDERLESS | _SUMS:
        if by_rank or name == "fill":
            raise NotIncremental(f"{name}() OVER with an order of its own")
        function = complete_aggregate(function, width(plan), context)
        ties = "none" if ties == "argument" else ties
    return replace(call, function=function, ties=ties)


def _filled(call: WindowCall, order: Sequence[OrderKey], unique: bool) -> WindowCall:
    """The call of fill(), which reads no frame, with its ties broken.

    It has one key, by which it interpolates. Where that may tie, all columns complete the window's
    order, and the key moves to the argument.
    """
    if unique:
        return replace(call, frame=None)
    return replace(call, function=with_order(call.function, order), frame=None, ties="window")


def _split(call: WindowCall, name: str, aggregate: bool, given: Sequence[ColumnType]) -> WindowCall:
    """The call with its frame split around the row's peers (see render_split).

    Raises:
        NotIncremental: the function cannot be computed from its parts.
    """
    function = call.function.copy()
    inner = function.this if isinstance(function, exp.Filter) else function
    assert call.frame is not None
    if _has_order(inner) or not splittable(name, aggregate, inner.expressions, call.frame, given):
        raise NotIncremental(f"{name}() OVER a ROWS frame that excludes peers")
    inner.set("this", name)
    return replace(call, function=function, ties="split")


def _ties(name: str, call: exp.Expr, frame: exp.Expr | None) -> Ties:
    by_rows = frame is not None and frame.args.get("kind") == "ROWS"
    if name in PEERS_ALIKE:
        return "none"
    if name in _BY_RANK:
        return "window"
    if by_rows:
        return "window"
    return "none" if name in ORDERLESS | _SUMS or not call.expressions else "argument"


def _has_order(call: exp.Expr) -> bool:
    """Returns whether the arguments have an order, or are DISTINCT and so ordered by themselves."""
    distinct, _, keys = parts_of(call)
    return distinct or bool(keys)


def _excludes_peers(frame: exp.Expr | None) -> bool:
    """Returns whether a ROWS frame excludes peers."""
    if frame is None or frame.args.get("kind") != "ROWS":
        return False
    exclude = frame.args.get("exclude")
    return exclude is not None and exclude.name.upper() in ("GROUP", "TIES")


def _window(
    plan: Plan,
    partition: tuple[int, ...],
    order: tuple[OrderKey, ...],
    calls: list[WindowCall],
    context: Context,
) -> Plan:
    bare = Window(plan, partition, order, tuple(calls), plan.schema)
    answers = types_of(context.cursor, window_texts(bare), plan.schema)
    names = [f"c{width(plan) + i}" for i in range(len(calls))]
    schema = (*plan.schema, *zip(names, answers, strict=True))
    return Window(plan, partition, order, tuple(calls), schema)

"""Window functions: each becomes a node that adds one column.

Law: ROW_NUMBER alone is a top-k without an end; other functions, and those that share its window,
are DuckDB's own over whole partitions.
Where rows tie and the function looks at their order, the order is completed by all columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.sql.bind_context import Context
from ivm.sql.bind_functions import call_name
from ivm.sql.bind_order import ORDERLESS, ordered
from ivm.sql.bind_parse import synonyms
from ivm.sql.bind_types import types_of
from ivm.sql.columns import column, position, structure, text
from ivm.sql.plan import GroupRecompute, NotIncremental, Plan, TopK, width
from ivm.storage.ordering import OrderKey
from ivm.storage.types import type_of

_PEERS_ALIKE = frozenset(["rank", "rank_dense", "dense_rank", "percent_rank", "cume_dist"])
_BY_POSITION = frozenset(["lag", "lead", "ntile", "row_number"])
_BY_FRAME = frozenset(["first_value", "last_value", "nth_value", "first", "last", "any_value"])
_SUMS = frozenset(
    ["sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "median", "quantile_cont"]
)


@dataclass
class Windows:
    """Collects the window functions of a SELECT and rewrites its expressions over their results.

    Args:
        definitions: the WINDOW clause: lower-case name → window.
        count: columns of the plan below.
    """

    definitions: dict[str, exp.Expression]
    count: int
    _found: dict[Hashable, tuple[int, exp.Expression]] = field(default_factory=dict)

    def lift(self, expr: exp.Expression) -> exp.Expression:
        """The expression over the plan's columns followed by one per window function."""

        def swap(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Window):
                return node
            key = structure(node)
            if key not in self._found:
                self._found[key] = (len(self._found), node.copy())
            return column(self.count + self._found[key][0])

        return expr.copy().transform(swap, copy=False)

    def apply(self, plan: Plan, context: Context) -> Plan:
        """The plan with one column added per window function met by `lift`."""
        places: dict[int, int] = {}
        for batch in self._batches():
            places |= {index: width(plan) + i for i, (index, _) in enumerate(batch)}
            plan = _add(plan, [node for _, node in batch], context)
        order = [places[i] for i in range(len(places))]
        return context.narrow(plan, [*range(self.count), *order])

    def _batches(self) -> list[list[tuple[int, exp.Expression]]]:
        """Functions over one window are computed together: equal rows must stay in one order."""
        batches: dict[Hashable, list[tuple[int, exp.Expression]]] = {}
        for index, found in self._found.values():
            node = self._defined(found)
            parts = [structure(node.args.get(part)) for part in ("partition_by", "order")]
            batches.setdefault(tuple(parts), []).append((index, node))
        return list(batches.values())

    def _defined(self, node: exp.Expression) -> exp.Expression:
        """The window with the named one it refers to written out."""
        name = node.args.get("alias")
        if name is None:
            return node
        base = self.definitions.get(name.name.lower())
        parts = ("partition_by", "order", "spec")
        if base is None or base.args.get("alias") or any(node.args.get(k) for k in parts):
            raise NotIncremental(f"the window {name.name}")
        whole = node.copy()
        whole.set("alias", None)
        for part in parts:
            whole.set(part, base.copy().args.get(part))
        return whole


def _is_rank(node: exp.Expression) -> bool:
    return isinstance(node.this, exp.RowNumber) and not node.args.get("spec")


def _add(plan: Plan, nodes: Sequence[exp.Expression], context: Context) -> Plan:
    """The plan with the columns of window functions over one and the same window at the end."""
    order = nodes[0].args.get("order")
    keys = list(order.expressions) if order is not None else []
    parts = list(nodes[0].args.get("partition_by") or [])
    before = width(plan)
    extra = [e for e in [*parts, *[k.this for k in keys]] if position(e) is None]
    wide = context.project(plan, [column(i) for i in range(before)] + extra) if extra else plan
    places = {structure(e): before + i for i, e in enumerate(extra)}

    def place(expr: exp.Expression) -> int:
        known = position(expr)
        return places[structure(expr)] if known is None else known

    partition = tuple(dict.fromkeys(place(e) for e in parts))
    if len(nodes) == 1 and _is_rank(nodes[0]):
        done = _ranked(wide, partition, [_key(k, place(k.this)) for k in keys])
    else:
        completed = [_completed(node, keys, before, context) for node in nodes]
        done = _recomputed(wide, partition, completed, context)
    return context.narrow(done, [*range(before), *range(width(wide), width(done))])


def _key(node: exp.Ordered, place: int) -> OrderKey:
    return OrderKey(place, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _ranked(plan: Plan, partition: tuple[int, ...], keys: Sequence[OrderKey]) -> Plan:
    schema = (*plan.schema, ("rank", type_of("BIGINT")))
    first = {key.column: key for key in reversed(keys)}
    order = tuple(first[c] for c in dict.fromkeys(k.column for k in keys))
    return TopK(plan, partition, order, None, 0, True, schema)


def _recomputed(
    plan: Plan, partition: tuple[int, ...], nodes: list[exp.Expression], context: Context
) -> Plan:
    answers = types_of(context.cursor, [text(node) for node in nodes], plan.schema)
    exprs = (*[column(i) for i in range(width(plan))], *nodes)
    schema = (*plan.schema, *[(f"window{i}", t) for i, t in enumerate(answers)])
    return GroupRecompute(plan, partition, exprs, False, schema)


def _completed(
    node: exp.Expression, keys: list[exp.Ordered], count: int, context: Context
) -> exp.Expression:
    """The window with its order completed where the function depends on it."""
    function = node.this
    while isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        function = function.this
    name = call_name(function)
    name = synonyms(context.cursor).get(name, name)
    rows_frame = node.args.get("spec") is not None and node.args["spec"].args.get("kind") == "ROWS"
    if name in _PEERS_ALIKE:
        return node
    if name in _BY_POSITION or (rows_frame and name in _BY_FRAME | ORDERLESS | _SUMS):
        return _with_ties(node, keys, count)
    if name in ORDERLESS | _SUMS:
        return node
    if name in ("first_value", "first") and node.args.get("spec") is None:
        return _with_ties(node, keys, count)
    raise NotIncremental(f"{name}() OVER with ties that SQL leaves open")


def _with_ties(node: exp.Expression, keys: list[exp.Ordered], count: int) -> exp.Expression:
    listed = {structure(k.this) for k in keys}
    ties = [ordered(column(i)) for i in range(count) if structure(column(i)) not in listed]
    whole = node.copy()
    whole.set("order", exp.Order(expressions=[*[k.copy() for k in keys], *ties]))
    return whole

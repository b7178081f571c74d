"""Renders plans as SQL.

Law: content(plan) = DuckDB's answer to render(plan). A node is `SELECT … AS c0, … AS c1` over its
inputs; nodes that occur more than once become one common table expression each, so the text grows
with the number of nodes. Ties of an order are broken in the SQL, so DuckDB has no choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlglot import exp

from ivm.delta_ops.ordered.dynamic_limit import WRONG_LIMIT
from ivm.sql.plan.built_in import duck_text, qualified, without_schemas
from ivm.sql.plan.calls import AggregateCall, key_text
from ivm.sql.plan.expressions import cast, column, index_of, replace, text
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
from ivm.sql.plan.render_unnest import render_table_function, render_unnest, unnest_text
from ivm.sql.plan.render_window import render_window, window_texts
from ivm.sql.plan.walks import free_recursions, free_recursions_over, inputs
from ivm.storage.errors import InternalError
from ivm.storage.identifiers import canonical_name, literal, quote, split_name
from ivm.storage.values.ordering.order import OrderKey

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


def render(plan: Plan) -> str:
    """Renders the plan as one SELECT whose columns have the names of the plan's schema."""
    renderer = _Renderer(plan)
    source = renderer.source(renderer.root)
    names = ", ".join(f"c{i} AS {quote(name)}" for i, (name, _) in enumerate(plan.schema))
    return f"{renderer.prologue()}SELECT {names} FROM {source}"


def render_body(plan: Plan, sources: Sequence[str]) -> str:
    """Renders one node as a SELECT over a FROM item per input, a table or a parenthesised query."""
    match plan:
        case Scan():
            return _scan(plan)
        case Values():
            return _values(plan)
        case ViewScan() | Distinct():
            distinct = "DISTINCT " if isinstance(plan, Distinct) else ""
            return f"SELECT {distinct}{_columns(width(plan))} FROM {sources[0]} AS t"
        case Filter():
            where = duck_text(plan.predicate)
            return f"SELECT {_columns(width(plan))} FROM {sources[0]} AS t WHERE {where}"
        case Project():
            return f"SELECT {_listed([duck_text(e) for e in plan.exprs])} FROM {sources[0]} AS t"
        case Join():
            return _join(plan, sources)
        case Aggregate():
            return _aggregate(plan, sources[0])
        case GroupRecompute():
            return _group_recompute(plan, sources[0])
        case Union():
            return _union(plan, sources)
        case SetOp():
            word = plan.kind.upper() + (" ALL" if plan.all else "")
            return f" {word} ".join(_select(width(plan), s) for s in sources)
        case TopK():
            return _top_k(plan, sources[0])
        case DynamicLimit():
            return _dynamic_limit(plan, sources)
        case Emit() | Arrived():
            return _scan(plan.stored)
        case Arrivals() | Awaited():
            raise InternalError(f"{summary(plan)}: no relation to be read; please report this")
        case Window():
            return render_window(plan, sources[0])
        case Unnest():
            return render_unnest(plan, sources[0])
        case TableFunction():
            return render_table_function(plan)
        case Recursive():
            return _recursive(plan, sources)
        case RecursiveScan():
            return f"SELECT {_columns(width(plan))} FROM {_last_rows(plan)} AS t"


def summary(plan: Plan) -> str:
    """Describes the node without its inputs, for EXPLAIN."""
    match plan:
        case Scan():
            return f"Scan {plan.relation} ({', '.join(name for name, _ in plan.schema)})"
        case Filter():
            return f"Filter {text(plan.predicate)}"
        case Project():
            return f"Project {', '.join(text(e) for e in plan.exprs)}"
        case Join():
            return f"{'Lookup' if plan.lookup else 'Join'} {plan.kind} {_condition(plan)}"
        case Aggregate():
            calls = ", ".join(without_schemas(call_text(call)) for call in plan.aggregates)
            return f"Aggregate {calls} by ({', '.join(f'c{i}' for i in plan.groups)})"
        case GroupRecompute():
            return f"GroupRecompute {', '.join(text(e) for e in plan.exprs)}"
        case Unnest():
            return unnest_text(plan)
        case Recursive():
            return f"Recursive {'UNION' if plan.distinct else 'UNION ALL'}"
        case Window():
            return f"Window {without_schemas(', '.join(window_texts(plan)))}"
        case TopK():
            return f"TopK limit {plan.limit} offset {plan.offset} by {_over(plan)}"
        case Emit():
            sign = "<=" if plan.inclusive else "<"
            whole = ", ".join(sorted(_whole(plan.input)))
            over = f", over all rows of {whole}" if whole else ""
            return f"Emit c{plan.by} {sign} watermark of {', '.join(plan.tables)}{over}"
        case Awaited():
            until = without_schemas(duck_text(plan.time))
            return f"Awaited until {until}, by the watermark of {', '.join(plan.tables)}"
        case Arrived():
            return f"Arrived by ({', '.join(f'c{i}' for i in plan.key)}): fixed at arrival"
        case DynamicLimit():
            return f"OpenLimit by {order_text(plan.order, width(plan))}"
        case _:
            return type(plan).__name__


def _whole(plan: Plan) -> set[str]:
    """The names of the relations below a plan of which no rows go."""
    names, seen, waiting = set[str](), set[int](), [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scan):
            names.add(canonical_name(split_name(node.relation)[1:]))
        elif isinstance(node, ViewScan):
            names.add(node.name)
        elif id(node) not in seen and not isinstance(node, Awaited):
            waiting += inputs(node)
        seen.add(id(node))
    return names


class _Renderer:
    """Nests nodes that are used once and names those used more often; equal bodies are one node.

    A node that reads the last rows of a recursive query is always nested: outside of that query
    DuckDB does not know them.
    """

    def __init__(self, root: Plan) -> None:
        self._bodies: list[tuple[Plan, tuple[int, ...]]] = []
        self._numbers: dict[str, int] = {}
        self._known: dict[int, int] = {}
        self._tables: dict[int, str] = {}
        self._free: list[frozenset[int]] = []
        self.root = self._number(root)
        self._uses = Counter(part for _, parts in self._bodies for part in parts)

    def _number(self, plan: Plan) -> int:
        """Numbers the node after its inputs; nodes of equal SQL have one number."""
        if id(plan) not in self._known:
            is_stored = isinstance(plan, Emit | Arrived)  # what is below it is not read
            below = () if is_stored else inputs(plan)
            parts = tuple(self._number(part) for part in below)
            body = render_body(plan, [f"#{part}" for part in parts])
            if body not in self._numbers:
                self._numbers[body] = len(self._bodies)
                self._bodies.append((plan, parts))
                self._free.append(free_recursions_over(plan, [self._free[part] for part in parts]))
            self._known[id(plan)] = self._numbers[body]
        return self._known[id(plan)]

    def source(self, number: int) -> str:
        """Renders the node as a FROM item."""
        name = f"_shared_{number}"
        if number in self._tables:
            return name
        plan, parts = self._bodies[number]
        body = render_body(plan, [self.source(part) for part in parts])
        if self._uses[number] < 2 or self._free[number]:
            return f"({body})"
        self._tables[number] = f"{name} AS ({body})"
        return name

    def prologue(self) -> str:
        return f"WITH {', '.join(self._tables.values())} " if self._tables else ""


def _columns(count: int, table: str = "t") -> str:
    return ", ".join(f"{table}.c{i} AS c{i}" for i in range(count))


def _listed(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))


def _select(count: int, source: str) -> str:
    return f"SELECT {_columns(count)} FROM {source} AS t"


def _union(plan: Union, sources: Sequence[str]) -> str:
    """Renders UNION ALL; subtracted inputs come last, by EXCEPT ALL."""
    numbered = list(enumerate(sources))
    added = [_select(width(plan), s) for i, s in numbered if i not in plan.negated]
    subtracted = [_select(width(plan), s) for i, s in numbered if i in plan.negated]
    union = " UNION ALL ".join(added)
    return " EXCEPT ALL ".join([f"({union})", *subtracted]) if subtracted else union


def _scan(plan: Scan) -> str:
    columns = [quote(name) for name, _ in plan.schema]
    for i in plan.collated:
        columns[i] += ' COLLATE "C"'
    return f"SELECT {_listed(columns)} FROM {plan.relation}"


def _values(plan: Values) -> str:
    def row(values: Sequence[exp.Expr]) -> str:
        pairs = zip(values, plan.schema, strict=True)
        return "SELECT " + _listed([duck_text(cast(v, t)) for v, (_, t) in pairs])

    if plan.rows:
        return " UNION ALL ".join(row(values) for values in plan.rows)
    nulls = [exp.Null() for _ in plan.schema]
    return row(nulls) + " WHERE FALSE"


def _join(plan: Join, sources: Sequence[str]) -> str:
    columns = [f"l.c{i}" for i in range(width(plan.left))]
    if plan.kind not in ("semi", "anti"):
        columns += [f"r.c{i}" for i in range(width(plan.right))]
    joined = f"{sources[0]} AS l {_JOINS[plan.kind]} {sources[1]} AS r"
    condition = _condition(plan)
    if plan.kind in ("semi", "anti") and not plan.left_keys and free_recursions(plan):
        condition = f"coalesce({condition}, FALSE)"  # DuckDB's fault `merge_joins_in_recursion`
    return f"SELECT {_listed(columns)} FROM {joined} ON {condition}"


def _condition(plan: Join) -> str:
    conditions = [
        f"l.c{a} {'IS NOT DISTINCT FROM' if safe else '='} r.c{b}"
        for a, b, safe in zip(plan.left_keys, plan.right_keys, plan.null_safe, strict=True)
    ]
    if plan.residual is not None:
        conditions.append(f"({duck_text(_sided(plan.residual, width(plan.left)))})")
    return " AND ".join(conditions) or "TRUE"


def _sided(expr: exp.Expr, split: int) -> exp.Expr:
    def sided(node: exp.Column) -> exp.Expr:
        index = index_of(node)
        return column(index, "l") if index < split else column(index - split, "r")

    return replace(expr, sided)


def call_text(call: AggregateCall) -> str:
    """Renders an aggregate call over columns ``c<i>``."""
    columns = [f"c{i}" for i in call.arguments]
    if call.fields:
        count = len(call.fields)
        pairs = zip(call.fields, columns[:count], strict=True)
        packed = ", ".join(f"{literal(name)}: {value}" for name, value in pairs)
        columns = [f"{{{packed}}}", *columns[count:]]
    arguments = ", ".join([*columns, *call.parameters])
    keys = ", ".join(key_text(key) for key in call.order)
    order = f" ORDER BY {keys}" if keys else ""
    distinct = "DISTINCT " if call.distinct else ""
    tail = "" if call.filter is None else f" FILTER (WHERE c{call.filter})"
    if call.function == "count_star":
        return f"{qualified('count')}(*){tail}"
    return f"{qualified(call.function)}({distinct}{arguments}{order}){tail}"


def _aggregate(plan: Aggregate, source: str) -> str:
    items = [f"c{i}" for i in plan.groups] + [call_text(call) for call in plan.aggregates]
    return f"SELECT {_listed(items)} FROM {source} AS t{_group_by(plan.groups)}"


def _group_by(groups: Sequence[int]) -> str:
    return f" GROUP BY {', '.join(f't.c{i}' for i in groups)}" if groups else ""


def _group_recompute(plan: GroupRecompute, source: str) -> str:
    tail = _group_by(plan.partition) if plan.grouped else ""
    return f"SELECT {_listed([duck_text(e) for e in plan.exprs])} FROM {source} AS t{tail}"


def order_text(order: Sequence[OrderKey], count: int) -> str:
    """Renders an order's keys, then all other columns ascending to break ties."""
    keys = [key_text(key, "t.c") for key in order]
    listed = {key.column for key in order}
    keys += [f"t.c{i} ASC NULLS LAST" for i in range(count) if i not in listed]
    return ", ".join(keys)


def _over(plan: TopK) -> str:
    order = order_text(plan.order, width(plan.input))
    partition = ", ".join(f"t.c{i}" for i in plan.partition)
    return f"PARTITION BY {partition} ORDER BY {order}" if partition else f"ORDER BY {order}"


def _top_k(plan: TopK, source: str) -> str:
    count = width(plan.input)
    number = f"{qualified('row_number')}() OVER ({_over(plan)}) AS c{count}"
    ranked = f"SELECT {_columns(count)}, {number} FROM {source} AS t"
    bounds = [f"t.c{count} > {plan.offset}"] if plan.offset else []
    if plan.limit is not None:
        bounds.append(f"t.c{count} <= {plan.offset + plan.limit}")
    where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
    return f"SELECT {_columns(width(plan))} FROM ({ranked}) AS t{where}"


def _dynamic_limit(plan: DynamicLimit, sources: Sequence[str]) -> str:
    count = width(plan)
    number = (
        f"{qualified('row_number')}() OVER (ORDER BY {order_text(plan.order, count)}) AS c{count}"
    )
    ranked = f"SELECT {_columns(count)}, {number} FROM {sources[0]} AS t"
    wrong = f"WHEN p.c1 < 0 THEN {qualified('error')}({literal(WRONG_LIMIT)})"
    chosen = f"CASE {wrong} ELSE t.c{count} > p.c0 AND t.c{count} <= p.c1 END"
    return f"SELECT {_columns(count)} FROM ({ranked}) AS t, {sources[1]} AS p WHERE {chosen}"


def _recursive(plan: Recursive, sources: Sequence[str]) -> str:
    name, names = _last_rows(plan), ", ".join(f"c{i}" for i in range(width(plan)))
    base, step = (_select(width(plan), s) for s in sources)
    union = f"({base}) {'UNION' if plan.distinct else 'UNION ALL'} ({step})"
    return f"WITH RECURSIVE {name}({names}) AS ({union}) {_select(width(plan), name)}"


def _last_rows(plan: Recursive | RecursiveScan) -> str:
    return f"_recursive_{plan.depth}"

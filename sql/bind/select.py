"""One SELECT: FROM, WHERE, grouping, windows, QUALIFY, DISTINCT, LIMIT, in SQL's logical order.

Law: every clause is bound over the plan below it; a select item is one expression, which each stage
rewrites over its own output, so an alias may be used in any clause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from sqlglot import exp

from ivm.sql.bind.from_clause import bind_from
from ivm.sql.bind.grouping import Grouping
from ivm.sql.bind.grouping_sets import grouping_sets
from ivm.sql.bind.limits import Limit, bounds_of, limited, read_limit, spread
from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.bind.unnest import Unnests, is_unnest, spread_structs
from ivm.sql.bind.windows import Windows
from ivm.sql.plan.expressions import Expressions, ancestors, column, remap, structure, used
from ivm.sql.plan.nodes import Distinct, Filter, NotIncremental, Plan, width
from ivm.sql.resolve.columns_calls import is_column_at, spread_condition, spread_key
from ivm.sql.resolve.context import BindQuery, Context, demand_only
from ivm.sql.resolve.scope import Bound, MadeUp
from ivm.sql.resolve.stars import Item, expand
from ivm.sql.subqueries.attach import attached, filtered
from ivm.sql.subqueries.nested import Nesting
from ivm.sql.subqueries.parameters import reads_query
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import describe

_CLAUSES = (
    "with_ expressions from_ joins where group having qualify windows order limit offset distinct"
)


@dataclass(frozen=True)
class Clauses:
    """The expressions in the clauses of a SELECT, over the plan so far.

    Attributes:
        order: the keys of an ORDER BY that chooses rows.
    """

    items: tuple[exp.Expr, ...]
    having: tuple[exp.Expr, ...]
    qualify: tuple[exp.Expr, ...]
    order: tuple[exp.Expr, ...]
    distinct_on: tuple[exp.Expr, ...] = ()

    def _parts(self) -> tuple[tuple[exp.Expr, ...], ...]:
        return self.items, self.having, self.qualify, self.order, self.distinct_on

    def __iter__(self) -> Iterator[exp.Expr]:
        return chain(*self._parts())

    def map(self, change: Callable[[exp.Expr], exp.Expr]) -> Clauses:
        """The clauses with each expression changed, in the order of iteration."""
        return Clauses(*[tuple([change(e) for e in part]) for part in self._parts()])


def bind_select(select: exp.Select, context: Context, bind: BindQuery) -> Bound:
    """The plan of a SELECT.

    Args:
        bind: binds a nested query.

    Raises:
        NotIncremental: some construct in it has no plan.
    """
    demand_only(select, _CLAUSES, "SELECT")
    return _SelectBinder(select, context, bind).bound()


class _SelectBinder:
    def __init__(self, select: exp.Select, context: Context, bind: BindQuery) -> None:
        self._select = select
        self._context = context
        self._bind = bind
        self._plan, self._scope = bind_from(select, context, bind)
        self._grouping: Grouping | None = None
        self._aliases: dict[str, exp.Expr] = {}
        self._items = self._bind_items()

    # Expressions over the FROM clause

    def _bind_items(self) -> list[Item]:
        bound: list[Item] = []
        for item in expand(self._select.expressions, self._scope, self._scalar):
            bound += spread_structs(item, self._plan, self._context)
            if item.alias:
                self._aliases.setdefault(fold(item.alias), item.expr)
        return bound

    def _scalar(self, node: exp.Expr) -> exp.Expr:
        functions, nesting = self._context.functions, self._nesting
        return bind_scalar(node, self._scope, functions, self._aliases, nesting=nesting)

    @property
    def _nesting(self) -> Nesting:
        return Nesting(self._context, self._plan, self._bind)

    def _late(self, node: exp.Expr) -> exp.Expr:
        """Binds an expression of HAVING, QUALIFY or ORDER BY.

        There, an alias hides a column of its name that is not grouped, outside of aggregates.
        """
        functions = self._context.functions
        return bind_scalar(
            node, self._scope, functions, self._aliases, self._is_hidden, self._nesting
        )

    def _is_hidden(self, node: exp.Column) -> bool:
        if self._grouping is None or node.table or fold(node.name) not in self._aliases:
            return False
        found = self._scope.resolve(node)
        inside = any(self._context.functions.is_aggregate(above) for above in ancestors(node))
        return not inside and (found is None or not self._grouping.covers(found))

    # Clauses in order

    def bound(self) -> Bound:
        select = self._select
        if select.args.get("where") is not None:
            where = spread_condition(select.args["where"].this, self._scope)
            self._plan = filtered(self._plan, self._scalar(where), self._context)
        names = self._names()
        clauses = self._unnest_groups(self._clauses())
        self._check_grouped([*clauses.qualify, *clauses.order, *clauses.distinct_on])
        if self._grouping is not None:
            clauses = clauses.map(self._grouping.lift)
            self._plan = self._grouping.apply(self._plan, self._context)
        for predicate in clauses.having:
            self._plan = filtered(self._plan, predicate, self._context)
        clauses = self._attached(replace(clauses, having=()))
        clauses = self._windowed(clauses)
        for predicate in clauses.qualify:
            self._plan = Filter(self._plan, predicate)
        clauses = self._unnested(clauses)
        return Bound(self._finish(clauses), names)

    def _names(self) -> tuple[str, ...]:
        if all(item.name is not None for item in self._items):
            return tuple(item.name or "" for item in self._items)
        if self._context.outer is not None:  # it may read names that its text alone does not have
            items = enumerate(self._items)
            return tuple(MadeUp(f"c{i}") if t.name is None else t.name for i, t in items)
        described = describe(self._context.cursor, self._context.standalone(self._select))
        if len(described) != len(self._items):
            raise NotIncremental("a select list of another length than DuckDB's")
        pairs = zip(self._items, described, strict=True)
        return tuple(MadeUp(n) if item.name is None else item.name for item, (n, _) in pairs)

    def _clauses(self) -> Clauses:
        """The clauses over the FROM clause."""
        self._grouping = self._group()
        clauses = Clauses(
            tuple([item.expr for item in self._items]),
            self._condition("having"),
            self._condition("qualify"),
            tuple([self._order_key(key.this) for key in self._order_keys()]),
        )
        group = self._select.args.get("group")
        if group is not None and group.args.get("all") and self._grouping is not None:
            self._add_groups(clauses, self._grouping)
        return replace(clauses, distinct_on=self._distinct_on())

    def _condition(self, clause: str) -> tuple[exp.Expr, ...]:
        found = self._select.args.get(clause)
        return () if found is None else (self._late(found.this),)

    def _add_groups(self, clauses: Clauses, grouping: Grouping) -> None:
        """Adds groups to GROUP BY ALL as DuckDB does: columns of HAVING outside of aggregates."""
        if any(True for e in clauses.qualify for _ in self._not_grouped(e, grouping)):
            raise NotIncremental("GROUP BY ALL with a QUALIFY that adds groups")
        added = {structure(c): c for e in clauses.having for c in self._not_grouped(e, grouping)}
        self._grouping = Grouping([*grouping.groups, *added.values()], grouping.functions)

    def _not_grouped(self, expr: exp.Expr, grouping: Grouping) -> Iterator[exp.Expr]:
        """Columns outside of aggregates and of grouped expressions."""
        for node in expr.find_all(exp.Column):
            is_aggregate = self._context.functions.is_aggregate
            above = [node, *ancestors(node)]
            if not any(is_aggregate(a) or grouping.covers(a) for a in above):
                yield node.copy()

    def _check_grouped(self, later: list[exp.Expr]) -> None:
        """Refuses an aggregate of this query in a subquery of a later clause, if nothing groups."""
        if self._grouping is None and any(
            True for e in later for _ in self._context.functions.aggregates(e)
        ):
            raise NotIncremental("an aggregate of this query in a subquery of its ORDER BY")

    def _group(self) -> Grouping | None:
        clause = self._select.args.get("group")
        functions = self._context.functions
        if clause is not None and clause.args.get("all"):
            return self._all_groups()
        if clause is not None:
            demand_only(clause, "expressions", "GROUP BY")
            groups, sets = grouping_sets(clause.expressions, self._group_key)
            return Grouping(groups, functions, sets)
        later = [self._select.args.get(k) for k in ("having", "qualify", "order")]
        trees = [i.expr for i in self._items] + [t for t in later if t is not None]
        if self._select.args.get("having") is None and not any(
            True for tree in trees for _ in functions.aggregates(tree)
        ):
            return None
        return Grouping([], functions)

    def _all_groups(self) -> Grouping | None:
        """The groups of GROUP BY ALL: the items without aggregates that read a column.

        Constants, uncorrelated subqueries and names of outer queries are no groups.
        """
        functions = self._context.functions
        plain = [i.expr for i in self._items if not any(functions.aggregates(i.expr))]
        groups = [e for e in plain if used(e)]
        if not groups and len(plain) == len(self._items):
            if any(reads_query(e) for e in plain):
                raise NotIncremental("GROUP BY ALL over nothing but what other queries give")
            if self._select.args.get("having") is not None:
                raise NotIncremental("GROUP BY ALL over constants, with HAVING")
            return None
        return Grouping(groups, functions)

    def _group_key(self, node: exp.Expr) -> exp.Expr:
        ordinal = _ordinal(node)
        if ordinal is not None:
            return self._items[ordinal].expr
        return self._scalar(node)

    def _order_keys(self) -> list[exp.Ordered]:
        """The keys of an ORDER BY that chooses rows; any other ORDER BY has no effect."""
        order = self._select.args.get("order")
        distinct = self._select.args.get("distinct")
        chooses = read_limit(self._select) or (distinct is not None and distinct.args.get("on"))
        if order is None or not chooses:
            return []
        keys = spread(order.expressions, len(self._items))
        return [part for key in keys for part in spread_key(key, self._scope)]

    def _order_key(self, node: exp.Expr) -> exp.Expr:
        ordinal = _ordinal(node)
        if ordinal is not None:
            return self._items[ordinal].expr
        if isinstance(node, exp.Column) and not node.table:
            alias = self._aliases.get(fold(node.name))
            if alias is not None:
                return alias
        return self._late(node)

    def _distinct_on(self) -> tuple[exp.Expr, ...]:
        distinct = self._select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            return ()
        nodes = on.expressions if isinstance(on, exp.Tuple) else [on]
        return tuple([self._order_key(node) for node in nodes])

    # Stages

    def _unnest_groups(self, clauses: Clauses) -> Clauses:
        """Unnests below the grouping the calls that are groups themselves."""
        calls = [g for g in self._grouping.groups if is_unnest(g)] if self._grouping else []
        if not calls or self._grouping is None:
            return clauses
        unnests = Unnests(width(self._plan), calls)
        groups = [unnests.lift(g) for g in self._grouping.groups]
        clauses = clauses.map(unnests.lift)
        self._grouping = Grouping(groups, self._context.functions)
        self._plan = unnests.apply(self._plan, self._context)
        return clauses

    def _attached(self, clauses: Clauses) -> Clauses:
        """Joins the values of subqueries to the plan as columns."""
        self._plan, exprs = attached(self._plan, list(clauses), self._context)
        values = iter(exprs)
        return clauses.map(lambda _: next(values))

    def _unnested(self, clauses: Clauses) -> Clauses:
        unnests = Unnests(width(self._plan))
        clauses = clauses.map(unnests.lift)
        self._plan = unnests.apply(self._plan, self._context)
        return clauses

    def _windowed(self, clauses: Clauses) -> Clauses:
        if not any(e.find(exp.Window) for e in clauses):
            return clauses
        definitions = self._definitions()
        # Only the columns in use: these break ties, and windows must pass them on.
        columns = sorted({i for e in (*clauses, *definitions.values()) for i in used(e)})
        positions = {old: new for new, old in enumerate(columns)}
        self._plan = self._context.narrow(self._plan, columns or [0])
        moved = {name: remap(w, positions.__getitem__) for name, w in definitions.items()}
        windows = Windows(moved, width(self._plan))
        clauses = clauses.map(lambda e: windows.lift(remap(e, positions.__getitem__)))
        self._plan = windows.apply(self._plan, self._context)
        return clauses

    def _definitions(self) -> dict[str, exp.Expr]:
        """The windows of the WINDOW clause over the plan, by folded name."""
        named = self._select.args.get("windows") or []
        bound = {fold(w.name): self._scalar(w) for w in named}
        if self._grouping is None:
            return bound
        return {name: self._grouping.lift(w) for name, w in bound.items()}

    def _finish(self, clauses: Clauses) -> Plan:
        """Applies DISTINCT, ORDER BY … LIMIT and the select list."""
        limit = read_limit(self._select)
        context, distinct = self._context, self._select.args.get("distinct")
        if distinct is None and limit is None:
            return context.project(self._plan, clauses.items)
        columns = Expressions(clauses.items)  # and further ones of ORDER BY and DISTINCT ON
        ordered = [columns.position_of(e) for e in clauses.order]
        partition = [column(columns.position_of(e)) for e in clauses.distinct_on]
        extended = context.project(self._plan, columns.exprs)
        keys = [_moved(key, i) for key, i in zip(self._order_keys(), ordered, strict=True)]
        if distinct is not None and not partition:
            chosen = Distinct(context.project(self._plan, clauses.items))
            extended = _ordered_after(chosen, columns, context)
        if partition:
            extended = limited(extended, keys, _as_is, _ONE, context, partition)
        if limit is not None:
            bounds = bounds_of(limit, context, self._bind)
            extended = limited(extended, keys, _as_is, bounds, context)
        return context.narrow(extended, list(range(len(clauses.items))))


def _ordered_after(distinct: Distinct, columns: Expressions, context: Context) -> Plan:
    """The distinct rows, with the columns that ORDER BY computes of them."""
    count = width(distinct)
    known = {structure(e): i for i, e in reversed(list(enumerate(columns.exprs[:count])))}

    def swap(node: exp.Expr) -> exp.Expr:
        index = known.get(structure(node))
        if index is None and isinstance(node, exp.Column):
            raise NotIncremental("an ORDER BY beside DISTINCT that is not in the select list")
        return node if index is None else column(index)

    later = [e.copy().transform(swap, copy=False) for e in columns.exprs[count:]]
    return context.project(distinct, [*[column(i) for i in range(count)], *later])


_ONE = Limit(1, 0)


def _as_is(expr: exp.Expr) -> exp.Expr:
    return expr


def _ordinal(node: exp.Expr) -> int | None:
    """The position of the item that a bare integer names; None for any other node."""
    if isinstance(node, exp.PositionalColumn) and not is_column_at(node):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name) - 1
    return None


def _moved(key: exp.Ordered, index: int) -> exp.Ordered:
    moved = key.copy()
    moved.set("this", column(index))
    return moved

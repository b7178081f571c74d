"""FROM clauses: tables, views, derived tables, VALUES and joins.

Law: the plan has the columns of all items in the order written; a join keeps both sides' columns,
and only the scope knows which of them USING hides.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.bind.asof import asof_joined
from ivm.sql.bind.join_names import (
    asof_terms,
    combined,
    distinct_names,
    equal,
    join_kind,
    merge_columns,
    renamed,
    renamed_item,
    shared_names,
    visible,
)
from ivm.sql.bind.joins import joined_on, lateral_join
from ivm.sql.bind.pivot import pivoted
from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.bind.table_functions import (
    function_call,
    is_table_function,
    lateral_function,
    table_function,
)
from ivm.sql.parse.query import parse_query
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.expressions import conjuncts, used
from ivm.sql.plan.nodes import Join, NotIncremental, Plan, Scan, Values, ViewScan, width
from ivm.sql.resolve.context import ONE_ROW, BindQuery, Context, demand_only
from ivm.sql.resolve.scope import Bound, Relation, Scope
from ivm.sql.rewrite.check_collations import collated_names
from ivm.sql.statements.text.stored_text import view_query
from ivm.sql.subqueries.decorrelate import dependent
from ivm.sql.subqueries.nested import Nesting
from ivm.sql.subqueries.outer import Outer
from ivm.storage.identifiers import fold
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import describe, rows


def bind_from(select: exp.Select, context: Context, bind: BindQuery) -> tuple[Plan, Scope]:
    """The joined plan of a SELECT's FROM clause and the names in it.

    Args:
        bind: binds a nested query.

    Raises:
        NotIncremental: an item or a join has no plan.
    """
    start = select.args.get("from_")
    if select.args.get("laterals"):
        raise NotIncremental("LATERAL")
    if start is None:
        return ONE_ROW, Scope()
    return _FromBinder(context, bind).items(start.this, select.args.get("joins") or [])


@dataclass(frozen=True)
class _Right:
    """The right item of a join.

    Attributes:
        number: its number as a nested query, if it has arguments.
        arguments: of its correlation parameters, over the plan to its left.
    """

    plan: Plan
    scope: Scope
    number: int = -1
    arguments: tuple[exp.Expr, ...] = ()


def bind_pivot(pivot: exp.Pivot, context: Context, bind: BindQuery) -> Bound:
    """A PIVOT or UNPIVOT that is a query of its own."""
    source = _FromBinder(context, bind).item(pivot.this)
    below = context.standalone(exp.select("*").from_(pivot.this.copy()))
    return pivoted(source, pivot, below, context.standalone(pivot), context, bind)


class _FromBinder:
    def __init__(self, context: Context, bind: BindQuery) -> None:
        self._context = context
        self._bind = bind

    def items(self, first: exp.Expr, joins: list[exp.Join]) -> tuple[Plan, Scope]:
        """Joins all items. JOIN binds tighter than a comma: `a, b JOIN c` is a × (b ⋈ c)."""
        plan, scope = self.item(first)
        done: list[tuple[Plan, Scope]] = []
        for group in _comma_groups(joins):
            left = (done, plan, scope)
            if not _is_comma(group[0]) or len(group) == 1:
                plan, scope, done = self._one_by_one(group, *left)
            elif any(join.side.upper() in ("RIGHT", "FULL") for join in group):
                plan, scope, done = self._as_one(group, *left)
            else:
                try:
                    plan, scope, done = self._one_by_one(group, *left)
                except NotIncremental:  # a condition may read items to the left of the comma
                    plan, scope, done = self._as_one(group, *left)
        return _crossed(done, plan, scope)

    def _one_by_one(
        self, joins: list[exp.Join], done: list[tuple[Plan, Scope]], plan: Plan, scope: Scope
    ) -> tuple[Plan, Scope, list[tuple[Plan, Scope]]]:
        """Joins the items left to right; a lateral item is joined with all items to its left."""
        for join in joins:
            if self._is_lateral(join.this):
                plan, scope = self.join(*_crossed(done, plan, scope), join)
                done = []
            elif is_derived(join.this):
                plan, scope, done = self._derived(join, done, plan, scope)
            elif _is_comma(join):
                done = [*done, (plan, scope)]
                plan, scope = self.item(join.this)
            else:
                plan, scope = self.join(plan, scope, join)
        return plan, scope, done

    def _as_one(
        self, joins: list[exp.Join], done: list[tuple[Plan, Scope]], plan: Plan, scope: Scope
    ) -> tuple[Plan, Scope, list[tuple[Plan, Scope]]]:
        """Joins the items after a comma first; they may read the items to the left of it."""
        whole, names = _crossed(done, plan, scope)
        outer = Outer.of(names, whole, self._context)
        inner = _FromBinder(replace(self._context, outer=outer), self._bind)
        right, other = inner.items(joins[0].this, joins[1:])
        if not any(used(argument) for argument in outer.arguments):
            return *self.items(joins[0].this, joins[1:]), [*done, (plan, scope)]
        nested = dependent(outer.number, right, outer.arguments, self._context, as_rows=True)
        made = lateral_join(whole, nested, "inner", [], self._context)
        return made, combined(whole, names, other), []

    def _derived(
        self, join: exp.Join, done: list[tuple[Plan, Scope]], plan: Plan, scope: Scope
    ) -> tuple[Plan, Scope, list[tuple[Plan, Scope]]]:
        """Joins a derived table, which may read the items to its left, LATERAL or not."""
        whole, names = _crossed(done, plan, scope)
        right = self._derived_item(join.this, whole, names)
        if right.arguments:
            return *self._joined(whole, names, join, right), []
        if _is_comma(join):
            return right.plan, right.scope, [*done, (plan, scope)]
        return *self._joined(plan, scope, join, right), done

    def _derived_item(self, node: exp.Expr, plan: Plan, scope: Scope) -> _Right:
        """Binds a derived table, which may read the columns of the plan to its left."""
        context = self._context
        if context.outer is None and not isinstance(node, exp.Lateral):
            with contextlib.suppress(NotIncremental):  # then it may read the items to its left
                return _Right(*self.item(node))
        outer = Outer.of(scope, plan, context)
        inner = _FromBinder(replace(context, outer=outer), self._bind)
        bare = node.this if isinstance(node, exp.Lateral) else node
        item = renamed_item(inner.item(bare), node)
        if not any(used(argument) for argument in outer.arguments):
            return _Right(*renamed_item(self.item(bare), node))
        return _Right(*item, outer.number, tuple(outer.arguments))

    def item(self, node: exp.Expr) -> tuple[Plan, Scope]:
        """One item of a FROM clause, with the joins nested in it."""
        pivots = node.args.get("pivots") or []
        if len(pivots) == 1:
            return self._pivoted(node, pivots[0])
        refuse_pivot_and_sample(node)
        plan, scope = self._first(node)
        for join in node.args.get("joins") or []:
            plan, scope = self.join(plan, scope, join)
        return plan, scope

    def _pivoted(self, node: exp.Expr, pivot: exp.Pivot) -> tuple[Plan, Scope]:
        """An item with a PIVOT or UNPIVOT clause, and the joins after that."""
        bare, alone = node.copy(), node.copy()
        bare.set("pivots", None)
        bare.set("joins", None)
        alone.set("joins", None)
        below, described = [
            self._context.standalone(exp.select("*").from_(n)) for n in (bare, alone)
        ]
        bound = pivoted(self.item(bare), pivot, below, described, self._context, self._bind)
        columns = tuple((name, i) for i, name in enumerate(bound.names))
        plan, scope = bound.plan, Scope([Relation((pivot.alias,), columns)])
        for join in node.args.get("joins") or []:
            plan, scope = self.join(plan, scope, join)
        return plan, scope

    def _first(self, node: exp.Expr) -> tuple[Plan, Scope]:
        if self._is_lateral(node):
            return table_function(node, self._context, self._bind)
        if _holds_items(node) and node.args.get("alias") is None:
            return self.item(node.this)
        bound, qualifiers = self._relation(node)
        columns = tuple((name, i) for i, name in enumerate(bound.names))
        return bound.plan, Scope([Relation(qualifiers, columns)])

    def _is_lateral(self, node: exp.Expr) -> bool:
        """Returns whether the item is a call, which may read the items to its left."""
        macros = self._context.functions.macros
        return is_table_function(node) and not macros.has_table(function_call(node)[0])

    def _relation(self, node: exp.Expr) -> tuple[Bound, tuple[str, ...]]:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._table(node)
        if isinstance(node, exp.Subquery) and not _holds_items(node):
            demand_only(node, "this alias joins", "a derived table")
            bound = self._bind(node.this, self._context)
            return distinct_names(renamed(bound, node)), (node.alias or "unnamed_subquery",)
        if isinstance(node, exp.Subquery):  # (a JOIN b) AS x
            inner = exp.Subquery(
                this=exp.select("*").from_(node.this.copy()), alias=node.args["alias"]
            )
            return self._relation(inner)
        if isinstance(node, exp.Values):
            demand_only(node, "expressions alias joins", "VALUES in FROM")
            return renamed(bind_values(node, self._context, self._bind), node), (
                node.alias or "valueslist",
            )
        if is_table_function(node):
            return self._table_macro(node)
        raise NotIncremental(f"{_kind(node)} in FROM")

    def _table_macro(self, node: exp.Expr) -> tuple[Bound, tuple[str, ...]]:
        """A call of a table macro, whose query sees the caller's common table expressions."""
        demand_only(node, "this alias joins", "a table macro")
        name, arguments = function_call(node)
        query = self._context.functions.macros.table(name, arguments)
        bound = self._bind(query, replace(self._context, outer=None))
        return renamed(bound, node), (node.alias or name,)

    def _table(self, node: exp.Table) -> tuple[Bound, tuple[str, ...]]:
        demand_only(node, "this db catalog alias joins", "a table")
        parts = tuple(p.name for p in node.parts)
        cte = self._context.ctes.get(fold(parts[0])) if len(parts) == 1 else None
        bound = cte or self._stored(parts)
        return renamed(bound, node), (node.alias,) if node.alias else parts

    def _stored(self, parts: tuple[str, ...]) -> Bound:
        catalog = self._context.catalog
        name = catalog.resolve(parts)
        if name is None:
            return self._plain_view(parts)
        schema = catalog.schema(name)
        if schema is None:
            raise NotIncremental(f"the relation {'.'.join(parts)}")
        below = catalog.view_plan(name)
        names = [n for n, _ in schema]
        if below:
            return Bound(ViewScan(name, below), tuple(names))
        known = self._collated(parts)
        collated = tuple(i for i, n in enumerate(names) if fold(n) in known)
        key = tuple(names.index(n) for n in catalog.primary_key(name)) or None
        if key and set(key) & set(collated):
            key = None
        scan = Scan(name, tuple(range(len(names))), schema, key, collated)
        return Bound(scan, tuple(names))

    def _collated(self, parts: tuple[str, ...]) -> frozenset[str]:
        """Folded names of columns with a collation, in all tables of that name in any schema."""
        sql = (
            "SELECT sql FROM system.main.duckdb_tables()"
            " WHERE system.main.lower(table_name) = system.main.lower(?)"
        )
        found = rows(self._context.cursor, sql, [parts[-1]])
        return frozenset(name for (text,) in found for name in collated_names(text))

    def _plain_view(self, parts: tuple[str, ...]) -> Bound:
        context, path = self._context, self._context.catalog.path(parts)
        view = None if path is None else context.plain_views.find(path)
        if view is None or view.qualified in context.views:
            raise NotIncremental(f"the relation {'.'.join(parts)}")
        inner = replace(context, ctes={}, cte_texts={}, views=(*context.views, view.qualified))
        query = parse_query(view_query(view.sql), context.cursor, context.functions.hiding)
        bound = self._bind(context.plain_views.in_its_schema(query, view), inner)
        names = tuple(n for n, _ in describe(context.cursor, f"FROM {view.qualified}"))
        return Bound(bound.plan, names)

    def join(self, left: Plan, scope: Scope, node: exp.Join) -> tuple[Plan, Scope]:
        """Joins one more item to the right of those joined so far."""
        kind = join_kind(node)
        if self._is_lateral(node.this) and kind in ("inner", "left") and not _shares(node):
            on = node.args.get("on")
            return lateral_function(left, scope, node.this, kind, on, self._context, self._bind)
        if is_derived(node.this):
            return self._joined(left, scope, node, self._derived_item(node.this, left, scope))
        return self._joined(left, scope, node, _Right(*self.item(node.this)))

    def _joined(self, left: Plan, scope: Scope, node: exp.Join, item: _Right) -> tuple[Plan, Scope]:
        demand_only(node, "this on side kind using method", "a join")
        kind, right, other = join_kind(node), item.plan, item.scope
        both, shared = combined(left, scope, other), shared_names(node, scope, other)
        terms = [equal(scope, other, name, width(left)) for name in shared]
        pairs = [(visible(scope, n), visible(other, n) + width(left)) for n in shared]
        both.merged.update(b for _, b in pairs)
        both.kept.update(a for a, _ in pairs)
        if node.args.get("on") is not None:
            nesting = Nesting(self._context, Join(left, right, "inner"), self._bind)
            functions = self._context.functions
            terms += conjuncts(bind_scalar(node.args["on"], both, functions, nesting=nesting))
        if node.method.upper() == "ASOF":
            terms = asof_terms(terms, shared)
            plan = asof_joined(left, right, kind, terms, self._context, self._bind)
        elif item.arguments:
            as_rows, given = kind == "inner", item.arguments
            nested = dependent(item.number, right, given, self._context, as_rows=as_rows)
            plan = lateral_join(left, nested, kind, terms, self._context)
        else:
            plan = joined_on(left, right, kind, terms, self._context)
        if kind in ("semi", "anti"):
            return plan, replace(scope, kept=scope.kept | {a for a, _ in pairs})
        return merge_columns(plan, kind, both, pairs, self._context), both


def refuse_pivot_and_sample(node: exp.Expr) -> None:
    """Refuses clauses that any FROM item may have."""
    for part, name in (("pivots", "PIVOT"), ("sample", "TABLESAMPLE"), ("laterals", "LATERAL")):
        if node.args.get(part):
            raise NotIncremental(name)


def bind_values(node: exp.Values, context: Context, bind: BindQuery) -> Bound:
    """A VALUES list as a constant relation; a nested one may read columns of outer queries."""
    lists = [t.expressions if isinstance(t, exp.Tuple) else [t] for t in node.expressions]
    nesting = Nesting(context, ONE_ROW, bind)
    constants = [
        [bind_scalar(e, Scope(), context.functions, nesting=nesting) for e in row] for row in lists
    ]
    body = ", ".join("(" + ", ".join(duck_text(e) for e in row) + ")" for row in constants)
    schema: Schema = describe(context.cursor, f"FROM (VALUES {body})")
    plan = Values(tuple(tuple(row) for row in constants), schema)
    return Bound(plan, tuple(name for name, _ in schema))


def _kind(node: exp.Expr) -> str:
    inner = node.this if isinstance(node, exp.Table) else node
    if isinstance(inner, exp.Func):
        return f"{inner.name if isinstance(inner, exp.Anonymous) else inner.sql_name()}()".lower()
    return type(inner).__name__.upper()


def _is_comma(node: exp.Join) -> bool:
    return not any(value for part, value in node.args.items() if part != "this")


def _shares(node: exp.Join) -> bool:
    return bool(node.args.get("using")) or node.method.upper() == "NATURAL"


def is_derived(node: exp.Expr) -> bool:
    """Returns whether a FROM item is a query or VALUES (LATERAL or not)."""
    bare = node.this if isinstance(node, exp.Lateral) else node
    nested = isinstance(bare, exp.Subquery) and not _holds_items(bare)
    return nested or isinstance(bare, exp.Values)


def _holds_items(node: exp.Expr) -> bool:
    """Returns whether parentheses hold FROM items, as DuckDB writes joins, and no query."""
    if not isinstance(node, (exp.Subquery, exp.Paren)):
        return False
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return any(map(inner.args.get, ("alias", "joins", "pivots"))) or _holds_items(inner)
    return isinstance(inner, exp.Table)


def _crossed(done: list[tuple[Plan, Scope]], plan: Plan, scope: Scope) -> tuple[Plan, Scope]:
    """The cross product of the items of a comma list."""
    for left, left_scope in reversed(done):
        plan, scope = Join(left, plan, "inner"), combined(left, left_scope, scope)
    return plan, scope


def _comma_groups(joins: list[exp.Join]) -> list[list[exp.Join]]:
    """The joins in groups, each of which begins at a comma (the first one perhaps not)."""
    groups: list[list[exp.Join]] = []
    for join in joins:
        if _is_comma(join) or not groups:
            groups.append([])
        groups[-1].append(join)
    return groups

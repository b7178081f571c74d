"""Nested queries in expressions: each becomes a subquery reference, and its plan joins the context.

Law: `x IN (…)` is `x = ANY (…)`, and `x op ALL (…)` is NOT (x (not op) ANY (…)), NULLs included; so
there are three kinds: a value, EXISTS, and a comparison with ANY row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column
from ivm.sql.plan.nodes import Filter, NotIncremental, Plan, Scan, types, width
from ivm.sql.resolve.clock import AGE, CLOCK, TELLERS, Told
from ivm.sql.resolve.context import BindQuery, Context, Nested
from ivm.sql.resolve.scope import Scope
from ivm.sql.subqueries.array import gathered
from ivm.sql.subqueries.endless_recursion import refuse_endless
from ivm.sql.subqueries.outer import Outer
from ivm.sql.subqueries.parameters import reference
from ivm.sql.subqueries.single_row import only_row
from ivm.storage.identifiers import path_of
from ivm.storage.values.types import type_of

_MARK = "_ivm_nested"
_NEGATED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
}


@dataclass(frozen=True)
class _Found:
    """A nested query as written, and how it is read.

    Attributes:
        comparison: with ANY row; None for EXISTS and values.
        operands: compared with a row.
        scalar: the value of its one row is read.
        negated: the result is.
        gathers: the value read is the list of its rows, as by ARRAY(query).
    """

    query: exp.Expr
    comparison: type[exp.Binary] | None = None
    operands: tuple[exp.Expr, ...] = ()
    scalar: bool = False
    negated: bool = False
    gathers: bool = False


@dataclass(frozen=True)
class Nesting:
    """Binds the nested queries in expressions over a plan.

    Attributes:
        plan: whose columns the expressions read.
        bind: binds a query.
    """

    context: Context
    plan: Plan
    bind: BindQuery

    def extracted(self, tree: exp.Expr) -> tuple[exp.Expr, dict[int, _Found]]:
        """The tree with a mark, which holds the operands, for every nested query; and these."""
        found: dict[int, _Found] = {}

        def swap(node: exp.Expr) -> exp.Expr:
            nested = _read(node)
            if nested is None:
                return node
            number = next(self.context.numbers)
            found[number] = nested
            operands = [e.copy().transform(swap, copy=False) for e in nested.operands]
            name = exp.Literal.number(number)
            mark = exp.Anonymous(this=_MARK, expressions=[name, *operands])
            return exp.Paren(this=exp.Not(this=mark)) if nested.negated else mark

        return tree.transform(swap, copy=False), found

    def told(self, told: Told) -> exp.Expr:
        """What a function tells of the time: the value of a query of the clock, one per column."""
        context = self.context
        if context.tick is None:
            raise NotIncremental("a function of the time where no clock was found")
        if hidden := context.functions.hiding.intersection((*TELLERS, AGE, "ago")):
            raise NotIncremental(f"the time, beside a macro named {min(hidden)}")
        number = context.told.get(told.column)
        if number is None:
            number = context.told[told.column] = next(context.numbers)
            context.nested[number] = Nested(_clock_row(told.column, context), None, 0, scalar=True)
        type = types(context.nested[number].plan)[0]
        value = reference(number, [], type)
        return value if told.type is None else cast(value, type_of(told.type))

    def completed(
        self,
        tree: exp.Expr,
        found: Mapping[int, _Found],
        scope: Scope,
        aliases: Mapping[str, exp.Expr],
    ) -> exp.Expr:
        """The bound tree with a reference for every mark of a query that was extracted from it."""
        marks = _marks(tree)
        for mark in reversed(marks):  # inner ones first
            number = int(mark.expressions[0].name)
            if number not in found:  # of a larger expression, which completes it
                continue
            made = self._bound(number, found[number], mark.expressions[1:], scope, aliases)
            if mark is tree:
                return made
            mark.replace(made)
        return tree

    def _bound(
        self,
        number: int,
        found: _Found,
        operands: list[exp.Expr],
        scope: Scope,
        aliases: Mapping[str, exp.Expr],
    ) -> exp.Expr:
        def bound(query: exp.Expr) -> tuple[Outer, Plan]:
            outer = Outer(number, scope, self.plan, self.context, aliases)
            return outer, self.bind(query, replace(self.context, outer=outer)).plan

        query = found.query
        if found.gathers:
            assert isinstance(query, exp.Query)
            query = gathered(query, lambda wider: width(bound(wider)[1]))
        outer, plan = bound(query)
        if len(operands) > 1 and width(plan) == 1:  # one value that is a row
            operands = [exp.Anonymous(this="row", expressions=operands)]
        _check_width(plan, len(operands), found)
        is_exists = found.comparison is None and not found.scalar
        if is_exists and not outer.arguments:
            refuse_endless(plan, "EXISTS")
        nested = Nested(plan, found.comparison, len(operands), found.scalar)
        self.context.nested[number] = nested
        type = types(plan)[0] if found.scalar else type_of("BOOLEAN")
        return reference(number, [*operands, *outer.arguments], type)


def _clock_row(name: str, context: Context) -> Plan:
    """A plan of one row and column: a column of the clock's row for the query's ticks."""
    relation = context.catalog.resolve(path_of(CLOCK))
    schema = None if relation is None else context.catalog.schema(relation)
    if relation is None or schema is None:
        raise NotIncremental("a function of the time before the clock was made")
    columns = tuple([i for i, (known, _) in enumerate(schema) if known in ("tick", name)])
    scan = Scan(relation, columns, tuple([schema[i] for i in columns]))
    row = exp.EQ(this=column(0), expression=exp.Literal.number(context.tick))
    return only_row(context.narrow(Filter(scan, row), [1]), context)


def _marks(tree: exp.Expr) -> list[exp.Anonymous]:
    return [node for node in tree.find_all(exp.Anonymous) if node.name == _MARK]


def holds_mark(tree: exp.Expr) -> bool:
    """Returns whether a nested query was extracted from the tree and is not yet bound."""
    return bool(_marks(tree))


def _check_width(plan: Plan, wanted: int, found: _Found) -> None:
    if wanted and wanted != width(plan):
        raise NotIncremental("a row compared with a subquery of another width")
    if wanted > 1 and found.comparison is not exp.EQ:
        raise NotIncremental("an order of rows compared with a subquery")


def _read(node: exp.Expr) -> _Found | None:
    """The nested query that the node is; None for any other node."""
    if isinstance(node, exp.Exists):
        return _Found(_query(node.this))
    if isinstance(node, exp.In):
        return _read_in(node)
    if isinstance(node, exp.Binary) and isinstance(node.expression, (exp.Any, exp.All)):
        return _read_quantified(node)
    if isinstance(node, exp.Array) and not node.args.get("value_constructor"):
        return _read_array(node)
    if isinstance(node, exp.Subquery):  # a bare SELECT is part of some other syntax
        return _Found(_query(node), scalar=True)
    return None


def _read_array(node: exp.Array) -> _Found | None:
    """ARRAY(query); a list of several elements may hold queries too, each for its one value."""
    if len(node.expressions) != 1:
        return None
    query = _query(node.expressions[0])
    return _Found(query, scalar=True, gathers=True) if isinstance(query, exp.Query) else None


def _read_in(node: exp.In) -> _Found | None:
    query = node.args.get("query")
    listed = node.expressions
    if query is None and len(listed) == 1 and isinstance(listed[0], exp.Values):
        query = listed[0]
    if query is None:
        return None
    return _Found(_query(query), exp.EQ, _operands(node.this))


def _read_quantified(node: exp.Binary) -> _Found | None:
    comparison, every = type(node), isinstance(node.expression, exp.All)
    query = node.expression.this
    if comparison not in _NEGATED or not isinstance(query.unnest(), (exp.Query, exp.Values)):
        return None
    comparison = _NEGATED[comparison] if every else comparison
    return _Found(_query(query), comparison, _operands(node.this), negated=every)


def _query(node: exp.Expr) -> exp.Expr:
    """The query without parentheses that have no clause of their own."""
    while isinstance(node, exp.Subquery) and not any(
        value for part, value in node.args.items() if part != "this"
    ):
        node = node.this
    return node


def _operands(node: exp.Expr) -> tuple[exp.Expr, ...]:
    while isinstance(node, exp.Paren):  # `unnest` would open a subquery too
        node = node.this
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "row":
        return tuple(node.expressions)
    return (node,)

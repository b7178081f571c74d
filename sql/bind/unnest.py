"""UNNEST in a select list: calls in expressions become columns of an `Unnest` node.

Law: all calls of one SELECT run in parallel, rows being padded with NULL to the longest list; a
call of several levels runs its upper levels first, so that the last levels of all calls run
together. They are computed above grouping and windows, and below DISTINCT and LIMIT.

Invariant: in a bound tree a call is `unnest(argument, levels)`; a stage of its SELECT replaces it
by a column, and none is left in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from sqlglot import exp

from ivm.sql.plan.built_in import MAIN, call
from ivm.sql.plan.columns import all_expressions
from ivm.sql.plan.expressions import cast, column, structure, text
from ivm.sql.plan.nodes import NotIncremental, Plan, Unnest, numbered, types, width
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.resolve.stars import Item
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.warehouse.duckdb.duck import describe


def spread_structs(item: Item, plan: Plan, context: Context) -> Iterator[Item]:
    """The item, or one item for each field if it unnests a struct.

    Args:
        plan: whose columns the item reads.
    """
    if not is_unnest(item.expr):
        yield item
        return
    argument, levels = item.expr.expressions
    (given,) = context.types([argument], plan)
    dimensions, inner = _dimensions(given)
    depth = int(levels.name)
    if inner.base != "STRUCT" or depth <= dimensions:
        yield item
        return
    expr = argument
    if dimensions:
        level = exp.Literal.number(dimensions)
        expr = exp.Anonymous(this=CALL, expressions=[argument, level])
    yield from _fields(expr, inner, depth - dimensions, context)


def _fields(expr: exp.Expr, type: ColumnType, depth: int, context: Context) -> Iterator[Item]:
    for name, field in struct_fields(type, context):
        part = exp.Anonymous(
            this="struct_extract", expressions=[expr.copy(), exp.Literal.string(name)]
        )
        if field.base == "STRUCT" and depth > 1:
            yield from _fields(part, field, depth - 1, context)
        else:
            yield Item(name, None, part)


def struct_fields(type: ColumnType, context: Context) -> Schema:
    """Names and types of a struct's fields."""
    return describe(context.cursor, f"SELECT {MAIN}unnest(NULL::{type.sql})")


def _dimensions(type: ColumnType) -> tuple[int, ColumnType]:
    """The number of lists nested in each other, and the type of the innermost elements."""
    count, sql = 0, type.sql
    while sql.endswith("]"):
        count, sql = count + 1, sql[: sql.rindex("[")]
    return (count, type_of(sql)) if count else (0, type)


def element_types(lists: Sequence[int], schema: Schema, context: Context) -> list[ColumnType]:
    """Types of the elements of LIST columns."""
    return list(types_of(context.cursor, [f"{MAIN}unnest(c{i})" for i in lists], schema))


class Unnests:
    """Collects the unnest calls of a SELECT and rewrites its expressions over their output.

    Args:
        count: columns of the plan below, which keep their positions.
        only: calls to look at; None for all.
    """

    def __init__(self, count: int, only: Sequence[exp.Expr] | None = None) -> None:
        self._count = count
        self._only = None if only is None else {structure(e) for e in only}
        self._calls: dict[Hashable, tuple[int, exp.Expr]] = {}

    def lift(self, expr: exp.Expr) -> exp.Expr:
        """The expression over the plan's columns, followed by one column per call."""

        def swap(node: exp.Expr) -> exp.Expr:
            if not is_unnest(node) or not self._wanted(node):
                return node
            key = structure(node)
            if key not in self._calls:
                self._calls[key] = (len(self._calls), node.copy())
            return column(self._count + self._calls[key][0])

        return expr.copy().transform(swap, copy=False)

    def _wanted(self, node: exp.Expr) -> bool:
        return self._only is None or structure(node) in self._only

    def apply(self, plan: Plan, context: Context) -> Plan:
        """The plan with a column behind its own for every call that `lift` has met.

        Raises:
            NotIncremental: a call unnests a struct.
        """
        if not self._calls:
            return plan
        lists = [_list(node.expressions[0], plan, context) for _, node in self._calls.values()]
        wanted = [int(node.expressions[1].name) for _, node in self._calls.values()]
        plan = context.project(plan, [column(i) for i in range(self._count)] + lists)
        positions = range(self._count, width(plan))
        found = [
            min(w, _dimensions(types(plan)[i])[0]) for w, i in zip(wanted, positions, strict=True)
        ]
        if 0 in found:
            raise NotIncremental("UNNEST of a struct inside an expression")
        for level in range(max(found), 0, -1):
            chosen = [i for i, depth in zip(positions, found, strict=True) if depth >= level]
            plan = unnested(plan, chosen, context)
        return plan


def _list(argument: exp.Expr, plan: Plan, context: Context) -> exp.Expr:
    """The argument; a bare NULL is cast to a list."""
    if isinstance(argument, exp.Null):
        return cast(argument, type_of('"NULL"[]'))
    return argument


def unnested(plan: Plan, lists: Sequence[int], context: Context) -> Plan:
    """The plan with list columns replaced by their elements, at the same positions."""
    others = [i for i in range(width(plan)) if i not in lists]
    elements = element_types(lists, plan.schema, context)
    found = [types(plan)[i] for i in others] + elements
    schema = numbered(found)
    whole = Unnest(plan, tuple(others), tuple(lists), False, False, schema)
    order = [*others, *lists]
    return context.narrow(whole, [order.index(i) for i in range(width(plan))])


CALL = "unnest"
_ALL_LEVELS = 1000

Bind = Callable[[exp.Expr], exp.Expr]


def bound_unnest(node: exp.Expr, bind: Bind) -> exp.Expr | None:
    """An unnest call as `unnest(bound argument, levels)`; None for any other node.

    Args:
        bind: binds the argument.
    """
    arguments = _arguments(node)
    if arguments is None:
        return None
    levels = exp.Literal.number(_levels(arguments[1:]))
    return exp.Anonymous(this=CALL, expressions=[bind(arguments[0]), levels])


def _arguments(node: exp.Expr) -> list[exp.Expr] | None:
    if isinstance(node, exp.Explode):
        return [node.this, *node.expressions]
    if not isinstance(node, exp.Anonymous):
        return None
    if node.name.lower() == CALL:
        return list(node.expressions)
    if node.name.lower() == "generate_subscripts":
        length = call("array_length", *node.expressions)
        one = exp.Literal.number(1)
        return [call("generate_series", one, length)]
    return None


def _levels(options: Sequence[exp.Expr]) -> int:
    levels = 1
    for option in options:
        value = option.expression if isinstance(option, (exp.PropertyEQ, exp.Kwarg)) else None
        name = option.this.name.lower() if value is not None else ""
        if name == "recursive" and isinstance(value, exp.Boolean):
            levels = _ALL_LEVELS if value.this else levels
        elif name == "max_depth" and isinstance(value, exp.Literal) and value.name.isdigit():
            levels = int(value.name)
        else:
            raise NotIncremental("UNNEST with an option that is no constant")
    return levels


def is_unnest(node: exp.Expr) -> bool:
    """Returns whether the node is a call made by `bound_unnest`."""
    return isinstance(node, exp.Anonymous) and node.name == CALL


def has_unnest(tree: exp.Expr) -> bool:
    """Returns whether a call made by `bound_unnest` stands anywhere in the tree."""
    return any(is_unnest(node) for node in tree.find_all(exp.Anonymous))


def refuse_unnest_calls(plan: Plan) -> None:
    """Refuses a plan with an unnest call that no stage of a SELECT has replaced.

    Raises:
        NotIncremental: names the expression.
    """
    for expr in all_expressions(plan):
        if has_unnest(expr):
            raise NotIncremental(f"UNNEST in {text(expr)}")

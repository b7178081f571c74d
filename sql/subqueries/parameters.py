"""Correlation parameters and subquery references, as nodes of expressions.

A parameter stands in a nested query for a value of the outer query. A reference stands in the outer
query for the nested query's value, and has the expressions for its operands and parameters.

Invariant: both are valid SQL of the right type, so that DuckDB can be asked for the types of
expressions with them; they have no meaning as SQL, and none is left in a bound query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.plan.columns import all_expressions
from ivm.sql.plan.expressions import cast, closed
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.storage.values.types import ColumnType

_PARAMETER = "_ivm parameter"
_REFERENCE = "_ivm nested query"


@dataclass(frozen=True)
class SubqueryReference:
    """The value of a nested query, with its arguments.

    Attributes:
        number: the nested query's.
        arguments: its operands (`x` of `x IN (…)`), then the values of its parameters.
    """

    number: int
    arguments: tuple[exp.Expr, ...]


def parameter(query: int, index: int, type: ColumnType) -> exp.Expr:
    """A node for the parameter of a nested query with that parameter index."""
    return _tagged(_PARAMETER, [query, index], [], type)


def reference(query: int, arguments: Sequence[exp.Expr], type: ColumnType) -> exp.Expr:
    """A node for the value of a nested query."""
    return _tagged(_REFERENCE, [query], arguments, type)


def _tagged(tag: str, numbers: list[int], parts: Sequence[exp.Expr], type: ColumnType) -> exp.Expr:
    """`CASE WHEN ROW(tag, …) IS NULL THEN CAST(NULL AS type) END`, of the type given."""
    literals: list[exp.Expr] = [exp.Literal.string(tag), *map(exp.Literal.number, numbers)]
    row = exp.Anonymous(this="row", expressions=[*literals, *[p.copy() for p in parts]])
    null = cast(exp.Null(), type)
    return exp.Case(ifs=[exp.If(this=exp.Is(this=row, expression=exp.Null()), true=null)])


def _parts(node: exp.Expr, tag: str) -> list[exp.Expr] | None:
    """The parts after the tag of a node made by `_tagged`; None for any other node."""
    if not isinstance(node, exp.Case) or len(node.args["ifs"]) != 1:
        return None
    test = node.args["ifs"][0].this
    row = test.this if isinstance(test, exp.Is) else None
    if not isinstance(row, exp.Anonymous) or not row.expressions:
        return None
    first = row.expressions[0]
    found = isinstance(first, exp.Literal) and first.is_string and first.name == tag
    return row.expressions[1:] if found else None


def parameter_of(node: exp.Expr, query: int) -> int | None:
    """The parameter index of a parameter of that query; None for any other node."""
    parts = _parts(node, _PARAMETER)
    return int(parts[1].name) if parts is not None and int(parts[0].name) == query else None


def reads_query(expr: exp.Expr) -> bool:
    """Returns whether a parameter of any query, or a reference, stands in the expression."""
    has_parameter = any(_parts(node, _PARAMETER) is not None for node in expr.find_all(exp.Case))
    return has_parameter or bool(references(expr))


def reference_of(node: exp.Expr) -> SubqueryReference | None:
    """The reference that the node is; None for any other node."""
    parts = _parts(node, _REFERENCE)
    return None if parts is None else SubqueryReference(int(parts[0].name), tuple(parts[1:]))


def references(expr: exp.Expr) -> list[exp.Expr]:
    """The references in an expression, inner ones first."""
    found = [node for node in expr.find_all(exp.Case) if reference_of(node) is not None]
    return list(reversed(found))


def parameters(expr: exp.Expr, query: int) -> set[int]:
    """The parameter indexes of that query's parameters in an expression."""
    found = (parameter_of(node, query) for node in expr.find_all(exp.Case))
    return {index for index in found if index is not None}


def substituted(expr: exp.Expr, query: int, images: Mapping[int, exp.Expr]) -> exp.Expr:
    """A copy of the expression with an image for every parameter of that query.

    Args:
        images: by parameter index.
    """

    def swap(node: exp.Expr) -> exp.Expr:
        index = parameter_of(node, query)
        return node if index is None else closed(images[index])

    return expr.copy().transform(swap, copy=False)


def is_free(plan: Plan, query: int) -> bool:
    """Returns whether a parameter of that query stands anywhere in the plan."""
    return any(parameters(expr, query) for expr in all_expressions(plan))


def check_complete(plan: Plan) -> None:
    """Refuses a plan in which a parameter or a reference is left.

    Raises:
        NotIncremental: a nested query stands where no clause joins it to its plan.
    """
    if any(reads_query(expr) for expr in all_expressions(plan)):
        raise NotIncremental("a subquery in this place")

"""Stand-ins in expressions for what a nested query takes from outside and for what it gives.

Law: a stand-in is valid SQL of the right type, so that types can be asked of DuckDB while it
stands; it has no meaning, and no bound query has one left in it. A parameter is a value of the
query around, seen from inside; a call is the nested query's value, seen from outside, with the
expressions its operands and parameters stand for.
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
_CALL = "_ivm nested query"


@dataclass(frozen=True)
class SubqueryReference:
    """A stand-in for a nested query's value.

    Attributes:
        number: the nested query's.
        arguments: its operands (`x` of `x IN (…)`), then the values of its parameters.
    """

    number: int
    arguments: tuple[exp.Expr, ...]


def parameter(query: int, index: int, type: ColumnType) -> exp.Expr:
    """Parameter `index` of a nested query."""
    return _stand_in(_PARAMETER, [query, index], [], type)


def call(query: int, arguments: Sequence[exp.Expr], type: ColumnType) -> exp.Expr:
    """The value of a nested query."""
    return _stand_in(_CALL, [query], arguments, type)


def _stand_in(
    tag: str, numbers: list[int], parts: Sequence[exp.Expr], type: ColumnType
) -> exp.Expr:
    literals: list[exp.Expr] = [exp.Literal.string(tag), *map(exp.Literal.number, numbers)]
    row = exp.Anonymous(this="row", expressions=[*literals, *[p.copy() for p in parts]])
    null = cast(exp.Null(), type)
    return exp.Case(ifs=[exp.If(this=exp.Is(this=row, expression=exp.Null()), true=null)])


def _parts(node: exp.Expr, tag: str) -> list[exp.Expr] | None:
    """The parts of a stand-in after its tag; None if the node is none."""
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
    """The index of a parameter of that query, None for any other node."""
    parts = _parts(node, _PARAMETER)
    return int(parts[1].name) if parts is not None and int(parts[0].name) == query else None


def has_parameter(expr: exp.Expr) -> bool:
    """Whether a parameter of any query stands in the expression."""
    return any(_parts(node, _PARAMETER) is not None for node in expr.find_all(exp.Case))


def holds_stand_in(expr: exp.Expr) -> bool:
    """Whether a parameter or a call stands in the expression."""
    return has_parameter(expr) or bool(calls(expr))


def call_of(node: exp.Expr) -> SubqueryReference | None:
    """The call that the node is, if it is one."""
    parts = _parts(node, _CALL)
    return None if parts is None else SubqueryReference(int(parts[0].name), tuple(parts[1:]))


def calls(expr: exp.Expr) -> list[exp.Expr]:
    """The calls in an expression, inner ones first."""
    found = [node for node in expr.find_all(exp.Case) if call_of(node) is not None]
    return list(reversed(found))


def parameters(expr: exp.Expr, query: int) -> set[int]:
    """The parameters of that query that stand in an expression."""
    found = (parameter_of(node, query) for node in expr.find_all(exp.Case))
    return {index for index in found if index is not None}


def substituted(expr: exp.Expr, query: int, images: Mapping[int, exp.Expr]) -> exp.Expr:
    """A copy of the expression with every parameter of that query replaced by its image."""

    def swap(node: exp.Expr) -> exp.Expr:
        index = parameter_of(node, query)
        return node if index is None else closed(images[index])

    return expr.copy().transform(swap, copy=False)


def is_free(plan: Plan, query: int) -> bool:
    """Whether a parameter of that query stands anywhere in the plan."""
    return any(parameters(expr, query) for expr in all_expressions(plan))


def check_complete(plan: Plan) -> None:
    """Refuse a plan in which a stand-in was left.

    Raises:
        NotIncremental: a nested query stands where no clause puts it to its plan.
    """
    if any(holds_stand_in(expr) for expr in all_expressions(plan)):
        raise NotIncremental("a subquery in this place")

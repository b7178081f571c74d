"""Calls of unnest inside expressions: how they are written, and how bound trees carry them.

Law: in a bound tree a call is `unnest(argument, levels)`; some stage of its SELECT lifts it out,
and none is left in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from ivm.sql.plan.built_in import call
from ivm.sql.plan.expressions import text
from ivm.sql.plan.nodes import (
    Filter,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Project,
    Window,
    inputs,
)

CALL = "unnest"
_ALL_LEVELS = 1000

Bind = Callable[[exp.Expression], exp.Expression]


def bound_unnest(node: exp.Expression, bind: Bind) -> exp.Expression | None:
    """An unnest call as `unnest(bound argument, levels)`; None for any other node."""
    arguments = _arguments(node)
    if arguments is None:
        return None
    levels = exp.Literal.number(_levels(arguments[1:]))
    return exp.Anonymous(this=CALL, expressions=[bind(arguments[0]), levels])


def _arguments(node: exp.Expression) -> list[exp.Expression] | None:
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


def _levels(options: Sequence[exp.Expression]) -> int:
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


def is_unnest(node: exp.Expression) -> bool:
    """Whether the node is a call made by `bound_unnest`."""
    return isinstance(node, exp.Anonymous) and node.name == CALL


def has_unnest(tree: exp.Expression) -> bool:
    """Whether such a call stands anywhere in the tree."""
    return any(is_unnest(node) for node in tree.find_all(exp.Anonymous))


def refuse_stray(plan: Plan) -> None:
    """Refuse a plan with an unnest call that no stage of a SELECT has lifted.

    Raises:
        NotIncremental: there is one.
    """
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            waiting += inputs(node)
            for expr in _expressions(node):
                if has_unnest(expr):
                    raise NotIncremental(f"UNNEST in {text(expr)}")


def _expressions(plan: Plan) -> Iterator[exp.Expression]:
    match plan:
        case Project() | GroupRecompute():
            yield from plan.exprs
        case Window():
            for call in plan.calls:
                yield from call.expressions()
        case Filter():
            yield plan.predicate
        case Join():
            if plan.residual is not None:
                yield plan.residual

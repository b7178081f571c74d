"""Spellings that stand for other expressions: comprehensions, ANY over a list, IN a list, bytes.

Law: the expression given back has, for every row, the value that DuckDB gives the one written.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.parse.methods import is_marked, parameter
from ivm.sql.plan.built_in import call
from ivm.storage.identifiers import fold

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_ITEM = "_item"


def desugared(node: exp.Expression) -> exp.Expression | None:
    """The plain expression that a node stands for, unbound; None if it is plain itself."""
    if isinstance(node, exp.Array) and len(node.expressions) == 1:
        (only,) = node.expressions
        return _comprehension(only) if isinstance(only, exp.Comprehension) else None
    if isinstance(node, _COMPARISONS):
        return _quantified(node)
    if isinstance(node, exp.In) and node.args.get("field") is not None:
        return call("contains", node.args["field"], node.this)
    if isinstance(node, exp.HexString):
        return _bytes(node.name)
    return None


def _comprehension(node: exp.Comprehension) -> exp.Expression | None:
    """[f(x) for x in l if p(x)]: the list filtered, then mapped."""
    item = exp.to_identifier(node.args["expression"].name)
    if node.args.get("position") is not None:
        return None
    source = node.args["iterator"]
    condition = node.args.get("condition")
    if condition is not None:
        source = call("list_filter", source, _lambda(condition, item))
    return call("list_transform", source, _lambda(node.this, item))


def _lambda(body: exp.Expression, name: exp.Identifier) -> exp.Expression:
    """A lambda over a body in which the parameter is written as a column."""

    def swap(part: exp.Expression) -> exp.Expression:
        if not isinstance(part, exp.Column) or is_marked(part):
            return part
        return parameter(part) if fold(part.parts[0].name) == fold(name.name) else part

    return exp.Lambda(this=body.copy().transform(swap, copy=False), expressions=[name])


def _quantified(node: exp.Expression) -> exp.Expression | None:
    """`x = ANY(list)`: true if some element says so, else NULL if some element leaves it open."""
    right = node.expression
    is_any = isinstance(right, exp.Any)
    is_all = isinstance(right, exp.All) or (
        isinstance(right, exp.Anonymous) and right.name.upper() == "ALL"
    )
    if not (is_any or is_all):
        return None
    source = right.expressions[0] if isinstance(right, exp.Anonymous) else right.this.unnest()
    if isinstance(source, (exp.Query, exp.Subquery)):
        return None
    item = exp.to_identifier(_ITEM)
    compared = type(node)(this=node.this.copy(), expression=item.copy())
    found = call("list_transform", source, exp.Lambda(this=compared, expressions=[item]))
    open_ = exp.Lambda(this=exp.Is(this=item.copy(), expression=exp.null()), expressions=[item])
    some = exp.GT(
        this=call("len", call("list_filter", found, open_)), expression=exp.Literal.number(0)
    )
    decides = exp.Boolean(this=is_any)
    return exp.Case(
        ifs=[
            exp.If(this=call("list_contains", found, decides), true=decides.copy()),
            exp.If(this=some, true=exp.null()),
        ],
        default=exp.Boolean(this=not is_any),
    )


def _bytes(digits: str) -> exp.Expression:
    """x'A0FF': '\\xA0\\xFF'::BLOB."""
    pairs = [digits[i : i + 2] for i in range(0, len(digits), 2)]
    written = exp.Literal.string("".join(f"\\x{pair}" for pair in pairs))
    return exp.Cast(this=written, to=exp.DataType(this=exp.DType.USERDEFINED, kind="BLOB"))

"""Comparisons and conditions said in Spark SQL.

Law: both sides are compared in one type, to which neither loses a digit; both engines order NaN
above all doubles and compare strings by their bytes.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.spark_backfill.carriers import carrier
from ivm.spark_backfill.not_said import NotSaidError
from ivm.spark_backfill.speaker import DIGITS, Rule, Speaker, shape
from ivm.sql.plan.expressions import data_type
from ivm.storage.values.types import ColumnType, type_of

_WIDEST = 37  # digits in which Spark compares DECIMALs of any scale without rounding
_DATE = type_of("DATE")


def _both(speaker: Speaker, expr: exp.Expr, word: str) -> str:
    return f"{speaker.text(expr.this)} {word} {speaker.text(expr.args['expression'])}"


def _boolean(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        for part in (expr.this, expr.args["expression"]):
            if speaker.type(part).sql not in ("BOOLEAN", '"NULL"'):
                raise NotSaidError(f"{word} of a {speaker.type(part)}")
        return _both(speaker, expr, word)

    return rule


def _not(speaker: Speaker, expr: exp.Not) -> str:
    if speaker.type(expr.this).sql != "BOOLEAN":
        raise NotSaidError(f"NOT of a {speaker.type(expr.this)}")
    return f"NOT {speaker.text(expr.this)}"


def compared(speaker: Speaker, left: exp.Expr, right: exp.Expr) -> tuple[str, str]:
    """The sides of a comparison in one type.

    Raises:
        NotSaidError: the engines may not compare them in the same way.
    """
    a, b = speaker.type(left), speaker.type(right)
    if isinstance(left, exp.Literal) and left.is_string and not b.is_string:
        a = b
    if isinstance(right, exp.Literal) and right.is_string and not a.is_string:
        b = a
    if {a.sql, b.sql} == {"DATE", "TIMESTAMP"}:
        return _days(speaker, left, right)
    type = a if a == b else _common(a, b)
    if not carrier(type).plain:
        raise NotSaidError(f"a comparison of values of type {type}")
    return speaker.cast(left, type), speaker.cast(right, type)


def _days(speaker: Speaker, left: exp.Expr, right: exp.Expr) -> tuple[str, str]:
    """A day and a constant midnight, compared as days: infinite ones have no time in Spark."""
    sides = []
    for part in (left, right):
        if speaker.type(part) == _DATE:
            sides.append(speaker.text(part))
            continue
        if part.find(exp.Column):
            raise NotSaidError("a comparison of a DATE with a TIMESTAMP that is no constant")
        day = exp.Cast(this=part.copy(), to=data_type(_DATE))
        midnight = exp.EQ(this=day.copy(), expression=exp.Paren(this=part.copy()))
        if speaker.constant(midnight, type_of("BOOLEAN")) != "CAST(TRUE AS BOOLEAN)":
            raise NotSaidError("a comparison of a DATE with a time of day")
        sides.append(speaker.constant(day, _DATE))
    return sides[0], sides[1]


def _common(a: ColumnType, b: ColumnType) -> ColumnType:
    """The type in which numbers of two types are compared, if that changes none of them."""
    if a.sql in DIGITS and b.sql in DIGITS:
        return max(a, b, key=lambda type: DIGITS[type.sql])
    numbers = all(type.is_decimal or type.sql in DIGITS for type in (a, b))
    if numbers:
        (p, s), (q, r) = shape(a), shape(b)
        scale = max(s, r)
        digits = max(p - s, q - r) + scale
        if digits <= _WIDEST:
            return type_of(f"DECIMAL({digits},{scale})")
    raise NotSaidError(f"a comparison of {a} with {b}")


def _comparison(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        left, right = compared(speaker, expr.this, expr.args["expression"])
        return f"{left} {word} {right}"

    return rule


def _distinct(negated: bool) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        left, right = compared(speaker, expr.this, expr.args["expression"])
        return f"{'NOT ' if negated else ''}({left} <=> {right})"

    return rule


def _is(speaker: Speaker, expr: exp.Is) -> str:
    if not isinstance(expr.expression, exp.Null):
        raise NotSaidError("IS with something else than NULL")
    return f"{speaker.text(expr.this)} IS NULL"


def _between(speaker: Speaker, expr: exp.Between) -> str:
    low, high = expr.args["low"], expr.args["high"]
    a, b = compared(speaker, expr.this, low)
    c, d = compared(speaker, expr.this, high)
    return f"{a} >= {b} AND {c} <= {d}"


def _in(speaker: Speaker, expr: exp.In) -> str:
    if not expr.expressions or expr.args.get("query") or expr.args.get("unnest"):
        raise NotSaidError("IN without a list")
    pairs = [compared(speaker, expr.this, item) for item in expr.expressions]
    return " OR ".join(f"({a} = {b})" for a, b in pairs)


RULES: dict[type[exp.Expr], Rule] = {
    exp.And: _boolean("AND"),
    exp.Or: _boolean("OR"),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _distinct(False),
    exp.NullSafeNEQ: _distinct(True),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
}
READ: dict[type[exp.Expr], frozenset[str]] = {exp.Between: frozenset(["low", "high"])}

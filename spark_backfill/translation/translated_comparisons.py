"""Comparisons and conditions said in Spark SQL.

Law: both sides are compared in one type, to which neither loses a digit; both engines order NaN
above all doubles and compare strings by their bytes.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.translator import DIGITS, Rule, Translator, shape
from ivm.spark_backfill.workers.carriers import carrier
from ivm.sql.plan.expressions import data_type
from ivm.storage.values.types import ColumnType, type_of

_WIDEST = 37  # digits in which Spark compares DECIMALs of any scale without rounding
_DATE = type_of("DATE")


def _both(translator: Translator, expr: exp.Expr, word: str) -> str:
    return f"{translator.text(expr.this)} {word} {translator.text(expr.args['expression'])}"


def _boolean(word: str) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        for part in (expr.this, expr.args["expression"]):
            if translator.type(part).sql not in ("BOOLEAN", '"NULL"'):
                raise NotTranslatableError(f"{word} of a {translator.type(part)}")
        return _both(translator, expr, word)

    return rule


def _not(translator: Translator, expr: exp.Not) -> str:
    if translator.type(expr.this).sql != "BOOLEAN":
        raise NotTranslatableError(f"NOT of a {translator.type(expr.this)}")
    return f"NOT {translator.text(expr.this)}"


def compared(translator: Translator, left: exp.Expr, right: exp.Expr) -> tuple[str, str]:
    """The sides of a comparison in one type.

    Raises:
        NotTranslatableError: the engines may not compare them in the same way.
    """
    a, b = translator.type(left), translator.type(right)
    if isinstance(left, exp.Literal) and left.is_string and not b.is_string:
        a = b
    if isinstance(right, exp.Literal) and right.is_string and not a.is_string:
        b = a
    if {a.sql, b.sql} == {"DATE", "TIMESTAMP"}:
        return _days(translator, left, right)
    type = a if a == b else _common(a, b)
    if not carrier(type).plain:
        raise NotTranslatableError(f"a comparison of values of type {type}")
    return translator.cast(left, type), translator.cast(right, type)


def _days(translator: Translator, left: exp.Expr, right: exp.Expr) -> tuple[str, str]:
    """A day and a constant midnight, compared as days: infinite ones have no time in Spark."""
    sides = []
    for part in (left, right):
        if translator.type(part) == _DATE:
            sides.append(translator.text(part))
            continue
        if part.find(exp.Column):
            raise NotTranslatableError(
                "a comparison of a DATE with a TIMESTAMP that is no constant"
            )
        day = exp.Cast(this=part.copy(), to=data_type(_DATE))
        midnight = exp.EQ(this=day.copy(), expression=exp.Paren(this=part.copy()))
        if translator.constant(midnight, type_of("BOOLEAN")) != "CAST(TRUE AS BOOLEAN)":
            raise NotTranslatableError("a comparison of a DATE with a time of day")
        sides.append(translator.constant(day, _DATE))
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
    raise NotTranslatableError(f"a comparison of {a} with {b}")


def _comparison(word: str) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        left, right = compared(translator, expr.this, expr.args["expression"])
        return f"{left} {word} {right}"

    return rule


def _distinct(negated: bool) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        left, right = compared(translator, expr.this, expr.args["expression"])
        return f"{'NOT ' if negated else ''}({left} <=> {right})"

    return rule


def _is(translator: Translator, expr: exp.Is) -> str:
    if not isinstance(expr.expression, exp.Null):
        raise NotTranslatableError("IS with something else than NULL")
    return f"{translator.text(expr.this)} IS NULL"


def _between(translator: Translator, expr: exp.Between) -> str:
    low, high = expr.args["low"], expr.args["high"]
    a, b = compared(translator, expr.this, low)
    c, d = compared(translator, expr.this, high)
    return f"{a} >= {b} AND {c} <= {d}"


def _in(translator: Translator, expr: exp.In) -> str:
    if not expr.expressions or expr.args.get("query") or expr.args.get("unnest"):
        raise NotTranslatableError("IN without a list")
    pairs = [compared(translator, expr.this, item) for item in expr.expressions]
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

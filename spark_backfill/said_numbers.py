"""Arithmetic said in Spark SQL.

Law: operands are cast to the type in which DuckDB computes, and the result to DuckDB's; Spark's own
type in between has room for every digit. Overflow is an error on both sides (ANSI).
"""

from __future__ import annotations

from sqlglot import exp

from ivm.spark_backfill.carriers import carrier
from ivm.spark_backfill.not_said import NotSaidError
from ivm.spark_backfill.speaker import DIGITS, Rule, Speaker, shape
from ivm.storage.values.types import ColumnType, type_of

_WIDEST = 37  # digits up to which Spark's own type of a sum or product drops none
_NEGATED = 34  # digits of a DECIMAL that Spark negates without rounding


def _arithmetic(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        left, right, type = expr.this, expr.args["expression"], speaker.plain(expr)
        numbers = [speaker.type(part) for part in (left, right)]
        if any(t.sql not in DIGITS and not t.is_decimal and t.sql != "DOUBLE" for t in numbers):
            raise NotSaidError(f"{numbers[0]} {word} {numbers[1]}")
        if type.is_decimal:
            return _decimal(speaker, word, left, right, type)
        if type.sql not in (*DIGITS, "DOUBLE"):
            raise NotSaidError(f"{word} of type {type}")
        return f"{speaker.cast(left, type)} {word} {speaker.cast(right, type)}"

    return rule


def _decimal(speaker: Speaker, word: str, left: exp.Expr, right: exp.Expr, type: ColumnType) -> str:
    """Arithmetic on DECIMALs, whose own type in Spark must have room for every digit."""
    if type.precision > _WIDEST:
        raise NotSaidError(f"{word} of type {type}")
    if word == "*":
        sides = []
        for part in (left, right):
            digits, scale = shape(speaker.type(part))
            sides.append(speaker.cast(part, type_of(f"DECIMAL({digits},{scale})")))
        if sum(shape(speaker.type(part))[0] for part in (left, right)) > _WIDEST:
            raise NotSaidError(f"{word} of type {type}")
    else:
        sides = [speaker.cast(part, type) for part in (left, right)]
    return f"CAST({sides[0]} {word} {sides[1]} AS {carrier(type).spark})"


def _integer_division(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        type = speaker.plain(expr)
        if type.sql not in DIGITS:
            raise NotSaidError(f"{word} of type {type}")
        left = speaker.cast(expr.this, type)
        right = speaker.cast(expr.args["expression"], type)
        spark = carrier(type).spark
        return f"CAST({left} {word} {right} AS {spark})"

    return rule


def _negative(speaker: Speaker, expr: exp.Neg) -> str:
    type = speaker.plain(expr)
    if type.sql not in (*DIGITS, "DOUBLE") and not (type.is_decimal and type.precision <= _NEGATED):
        raise NotSaidError(f"− of type {type}")
    return f"CAST(- {speaker.cast(expr.this, type)} AS {carrier(type).spark})"


RULES: dict[type[exp.Expr], Rule] = {
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.IntDiv: _integer_division("div"),
    exp.Mod: _integer_division("%"),
    exp.Neg: _negative,
}

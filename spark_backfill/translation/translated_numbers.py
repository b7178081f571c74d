"""Arithmetic said in Spark SQL.

Law: operands are cast to the type in which DuckDB computes, and the result to DuckDB's; Spark's own
type in between has room for every digit. Overflow is an error on both sides (ANSI).
"""

from __future__ import annotations

from sqlglot import exp

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.translator import DIGITS, Rule, Translator, shape
from ivm.spark_backfill.workers.carriers import carrier
from ivm.storage.values.types import ColumnType, type_of

_WIDEST = 37  # digits up to which Spark's own type of a sum or product drops none
_NEGATED = 34  # digits of a DECIMAL that Spark negates without rounding


def _arithmetic(word: str) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        left, right, type = expr.this, expr.args["expression"], translator.plain(expr)
        numbers = [translator.type(part) for part in (left, right)]
        if any(t.sql not in DIGITS and not t.is_decimal and t.sql != "DOUBLE" for t in numbers):
            raise NotTranslatableError(f"{numbers[0]} {word} {numbers[1]}")
        if type.is_decimal:
            return _decimal(translator, word, left, right, type)
        if type.sql not in (*DIGITS, "DOUBLE"):
            raise NotTranslatableError(f"{word} of type {type}")
        return f"{translator.cast(left, type)} {word} {translator.cast(right, type)}"

    return rule


def _decimal(
    translator: Translator, word: str, left: exp.Expr, right: exp.Expr, type: ColumnType
) -> str:
    """Arithmetic on DECIMALs, whose own type in Spark must have room for every digit."""
    if type.precision > _WIDEST:
        raise NotTranslatableError(f"{word} of type {type}")
    if word == "*":
        sides = []
        for part in (left, right):
            digits, scale = shape(translator.type(part))
            sides.append(translator.cast(part, type_of(f"DECIMAL({digits},{scale})")))
        if sum(shape(translator.type(part))[0] for part in (left, right)) > _WIDEST:
            raise NotTranslatableError(f"{word} of type {type}")
    else:
        sides = [translator.cast(part, type) for part in (left, right)]
    return f"CAST({sides[0]} {word} {sides[1]} AS {carrier(type).spark})"


def _integer_division(word: str) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        type = translator.plain(expr)
        if type.sql not in DIGITS:
            raise NotTranslatableError(f"{word} of type {type}")
        left = translator.cast(expr.this, type)
        right = translator.cast(expr.args["expression"], type)
        spark = carrier(type).spark
        return f"CAST({left} {word} {right} AS {spark})"

    return rule


def _negative(translator: Translator, expr: exp.Neg) -> str:
    type = translator.plain(expr)
    if type.sql not in (*DIGITS, "DOUBLE") and not (type.is_decimal and type.precision <= _NEGATED):
        raise NotTranslatableError(f"− of type {type}")
    return f"CAST(- {translator.cast(expr.this, type)} AS {carrier(type).spark})"


RULES: dict[type[exp.Expr], Rule] = {
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.IntDiv: _integer_division("div"),
    exp.Mod: _integer_division("%"),
    exp.Neg: _negative,
}

"""Choices between values, casts, strings and dates said in Spark SQL.

Law: all branches of a choice are cast to its one type, as DuckDB does; parts of infinite dates are
NULL.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.spark_literals import said_string
from ivm.spark_backfill.translation.translated_comparisons import compared
from ivm.spark_backfill.translation.translator import DIGITS, Rule, Translator
from ivm.spark_backfill.workers.carriers import carrier

_INFINITE_DAY = 2147483647
_PARTS = ("year", "month", "day", "quarter")


def _case(translator: Translator, expr: exp.Case) -> str:
    type = translator.plain(expr)
    parts = []
    for branch in expr.args["ifs"]:
        condition = branch.this
        if expr.this is not None:
            condition = exp.EQ(this=expr.this.copy(), expression=condition.copy())
        elif translator.type(condition).sql != "BOOLEAN":
            raise NotTranslatableError("CASE WHEN of something else than a BOOLEAN")
        parts.append(
            f"WHEN {translator.text(condition)} THEN {translator.cast(branch.args['true'], type)}"
        )
    otherwise = expr.args.get("default")
    if otherwise is not None:
        parts.append(f"ELSE {translator.cast(otherwise, type)}")
    return f"CASE {' '.join(parts)} END"


def _if(translator: Translator, expr: exp.If) -> str:
    made = exp.Case(ifs=[exp.If(this=expr.this.copy(), true=expr.args["true"].copy())])
    if expr.args.get("false") is not None:
        made.set("default", expr.args["false"].copy())
    return _case(translator, made)


def _coalesce(translator: Translator, expr: exp.Coalesce) -> str:
    type = translator.plain(expr)
    given = [expr.this, *expr.expressions]
    return f"coalesce({', '.join(translator.cast(part, type) for part in given)})"


def _nullif(translator: Translator, expr: exp.Nullif) -> str:
    left, right = compared(translator, expr.this, expr.expression)
    return f"CASE WHEN {left} = {right} THEN NULL ELSE {translator.text(expr.this)} END"


def _extreme(word: str) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        type = translator.plain(expr)
        given = [expr.this, *expr.expressions]
        if type.is_float or len(given) < 2:
            raise NotTranslatableError(f"{word} of type {type}")
        return f"{word}({', '.join(translator.cast(part, type) for part in given)})"

    return rule


def _cast(translator: Translator, expr: exp.Cast) -> str:
    if isinstance(expr, exp.TryCast):
        raise NotTranslatableError("TRY_CAST")
    to, given = translator.type(expr), translator.type(expr.this)
    if given.sql in DIGITS and to.sql in DIGITS:
        return f"CAST({translator.text(expr.this)} AS {carrier(to).spark})"
    if given.sql in DIGITS and to.sql == "VARCHAR":
        return f"CAST({translator.text(expr.this)} AS STRING)"
    if given.sql == "DATE" and to.sql == "TIMESTAMP":
        raise NotTranslatableError("a cast from DATE to TIMESTAMP")
    return translator.cast(expr.this, to)


def _concat(translator: Translator, expr: exp.DPipe) -> str:
    for part in (expr.this, expr.expression):
        if translator.type(part).sql != "VARCHAR":
            raise NotTranslatableError(f"|| of a {translator.type(part)}")
    return f"{translator.text(expr.this)} || {translator.text(expr.expression)}"


def _like(translator: Translator, expr: exp.Like) -> str:
    pattern = expr.expression
    if translator.type(expr.this).sql != "VARCHAR" or not isinstance(pattern, exp.Literal):
        raise NotTranslatableError("LIKE with a pattern that is no constant")
    if not pattern.is_string or "\\" in pattern.this:
        raise NotTranslatableError("LIKE with a backslash in the pattern")
    word = "NOT LIKE" if expr.args.get("negate") else "LIKE"
    return f"{translator.text(expr.this)} {word} {said_string(pattern.this)}"


def _length(translator: Translator, expr: exp.Expr) -> str:
    if translator.type(_argument(expr)).sql != "VARCHAR":
        raise NotTranslatableError("length of something else than a VARCHAR")
    return f"CAST(char_length({translator.text(_argument(expr))}) AS BIGINT)"


def _argument(expr: exp.Expr) -> exp.Expr:
    """The one argument of a call."""
    made = expr.expressions[0] if isinstance(expr, exp.Anonymous) else expr.this
    assert isinstance(made, exp.Expr)
    return made


def _part_of_day(word: str) -> Rule:
    def rule(translator: Translator, expr: exp.Expr) -> str:
        return said_part(translator, word, _argument(expr))

    return rule


def said_part(translator: Translator, word: str, of: exp.Expr) -> str:
    """A part of a date; infinite ones have none."""
    if translator.type(of).sql != "DATE":
        raise NotTranslatableError(f"{word} of a {translator.type(of)}")
    day = translator.text(of)
    finite = f"abs(unix_date({day})) < {_INFINITE_DAY}"
    return f"CASE WHEN {finite} THEN CAST({word}({day}) AS BIGINT) END"


def _extract(translator: Translator, expr: exp.Extract) -> str:
    word = expr.this.name.lower()
    if word not in _PARTS:
        raise NotTranslatableError(f"extract({word})")
    return said_part(translator, word, expr.expression)


RULES: dict[type[exp.Expr], Rule] = {
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Cast: _cast,
    exp.DPipe: _concat,
    exp.Like: _like,
    exp.Extract: _extract,
}
FUNCTIONS: dict[str, Rule] = {
    "length": _length,
    "len": _length,
    **{word: _part_of_day(word) for word in _PARTS},
}
READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Case: frozenset(["ifs", "default"]),
    exp.Cast: frozenset(["to"]),
    exp.DPipe: frozenset(["safe"]),  # of NULLs, in other dialects
    exp.Greatest: frozenset(["ignore_nulls"]),  # as both engines do
    exp.If: frozenset(["true", "false"]),
    exp.Least: frozenset(["ignore_nulls"]),
    exp.Like: frozenset(["negate"]),
}

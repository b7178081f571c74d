"""Scalar expressions said in Spark SQL, where Spark is known to compute what DuckDB computes.

Law: for every row, Spark's value has the bits of DuckDB's, or both fail (Spark may fail where
DuckDB does not evaluate the expression at all). What is not on the list raises `NotSaidError`, and
DuckDB computes it in the workers. Types are DuckDB's own, asked for each subexpression.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
from sqlglot import exp

from ivm.spark_backfill.carriers import carrier
from ivm.sql.plan.built_in import call_name, duck_text
from ivm.sql.plan.expressions import data_type, index_of
from ivm.sql.resolve.duckdb_types import probe, typed_nulls
from ivm.storage.identifiers import literal
from ivm.storage.scratch import Scratch
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.warehouse.duck import describe, rows, run

_WIDEST = 37  # digits up to which Spark's own type of a sum or product drops none
_NEGATED = 34  # digits of a DECIMAL that Spark negates without rounding
_EXACT_DIGITS = 15  # up to which a DECIMAL is a quotient of two exact doubles
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_INFINITE_DAY = 2147483647
_DATE = type_of("DATE")
_constants = Scratch()


class NotSaidError(Exception):
    """A construct that has no equal in Spark SQL; its text names it."""


class Speaker:
    """Says expressions over columns of the given types in Spark SQL.

    Args:
        types: of the columns c0, c1, …
        zone: the time zone in which constants are computed.
        names: the columns' names in Spark SQL; default c0, c1, …
    """

    def __init__(
        self, types: Sequence[ColumnType], zone: str, names: Sequence[str] | None = None
    ) -> None:
        self._types = tuple(types)
        self._zone = zone
        self._names = names or [f"c{i}" for i in range(len(types))]
        self._known: dict[str, ColumnType] = {}

    def say(self, expr: exp.Expr) -> str:
        """Spark SQL of the same values.

        Raises:
            NotSaidError: a construct or type is not on the list.
        """
        self._ask_types(expr)
        return self._say(expr)

    def type(self, expr: exp.Expr) -> ColumnType:
        """DuckDB's type of an expression."""
        if isinstance(expr, exp.Column):
            return self._types[index_of(expr)]
        sql = duck_text(expr)
        if sql not in self._known:
            self._describe([sql])
        return self._known[sql]

    def _ask_types(self, expr: exp.Expr) -> None:
        asked = {duck_text(e) for e in expr.walk() if isinstance(e, exp.Condition)}
        asked -= self._known.keys()
        try:
            self._describe(sorted(asked))
        except NotSaidError:
            return  # a part that stands nowhere alone: the others are asked one by one

    def _describe(self, texts: Sequence[str]) -> None:
        if not texts:
            return
        source = typed_nulls(self._types) if self._types else "SELECT 1"
        listed = ", ".join(f"{text} AS x{i}" for i, text in enumerate(texts))
        with probe() as cursor:
            try:
                found = describe(cursor, f"SELECT {listed} FROM ({source}) AS t")
            except duckdb.Error as error:
                raise NotSaidError(str(error).splitlines()[0]) from error
        self._known |= {text: type for text, (_, type) in zip(texts, found, strict=True)}

    def _say(self, expr: exp.Expr) -> str:
        if isinstance(expr, exp.Paren):
            return self._say(expr.this)
        if isinstance(expr, exp.Column):
            return self._names[index_of(expr)]
        if not expr.find(exp.Column):
            return self.constant(expr, self.type(expr))
        rule = _RULES.get(type(expr)) or _FUNCTIONS.get(call_name(expr))
        if rule is None:
            raise NotSaidError(f"{call_name(expr) or type(expr).__name__}")
        _demand_known(expr)
        return f"({rule(self, expr)})"

    def plain(self, expr: exp.Expr) -> ColumnType:
        """The type of an expression with whose carrier Spark may compute."""
        type = self.type(expr)
        if not carrier(type).plain:
            raise NotSaidError(f"a value of type {type}")
        return type

    def cast(self, expr: exp.Expr, type: ColumnType) -> str:
        """The expression, converted as DuckDB converts it without being asked to."""
        given = self.type(expr)
        said = self._say_as(expr, type)
        if said is not None or given == type:
            return said or self._say(expr)
        if not _widens(given, type):
            raise NotSaidError(f"a cast from {given} to {type}")
        return f"CAST({self._say(expr)} AS {carrier(type).spark})"

    def _say_as(self, expr: exp.Expr, type: ColumnType) -> str | None:
        """A constant, converted beforehand."""
        if expr.find(exp.Column):
            return None
        return self.constant(exp.Cast(this=expr.copy(), to=data_type(type)), type)

    def constant(self, expr: exp.Expr, type: ColumnType) -> str:
        """The value of an expression without columns, as DuckDB computes it, as a Spark literal."""
        carried = carrier(type)
        if not carried.plain:
            raise NotSaidError(f"a constant of type {type}")
        try:
            with _constants.borrow() as cursor:
                run(cursor, f"SET TimeZone = {literal(self._zone)}")
                ((value,),) = rows(cursor, f"SELECT CAST({duck_text(expr)} AS {type.sql})")
        except duckdb.Error as error:
            raise NotSaidError(f"the constant {duck_text(expr)}") from error
        if value is None:
            return f"CAST(NULL AS {carried.spark})"
        if isinstance(value, str) and not type.is_string:  # a date beyond Python's
            raise NotSaidError(f"the constant {duck_text(expr)}")
        return f"CAST({_literal(value)} AS {carried.spark})"


def said_string(value: str) -> str:
    """A string literal of Spark's."""
    if any(ord(letter) < 32 for letter in value):
        raise NotSaidError("a string with control characters")
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case int():
            return f"'{value}'" if abs(value) >= 2**31 else str(value)
        case float():
            if math.isnan(value):
                return "'NaN'"
            return f"'{value!r}'" if math.isfinite(value) else f"'{'-' * (value < 0)}Infinity'"
        case decimal.Decimal():
            return f"'{value:f}'"
        case str():
            return said_string(value)
        case datetime.datetime() if 1 <= value.year < 9999 and value.tzinfo is None:
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case datetime.date() if not isinstance(value, datetime.datetime) and value.year < 9999:
            return f"DATE'{value.isoformat()}'"
        case _:
            raise NotSaidError(f"a constant such as {value!r}")


def _widens(given: ColumnType, to: ColumnType) -> bool:
    """Returns whether the implicit cast changes no value."""
    if given.sql in _DIGITS and to.sql in (*_DIGITS, "HUGEINT"):
        return to.sql == "HUGEINT" or _DIGITS[given.sql] <= _DIGITS[to.sql]
    if to.is_decimal and (given.is_decimal or given.sql in _DIGITS):
        digits, scale = _shape(given)
        return to.precision - to.scale >= digits - scale and to.scale >= scale
    if to.sql == "DOUBLE":
        if given.is_decimal:
            return given.precision <= _EXACT_DIGITS
        return given.sql in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT")
    return False


def _shape(type: ColumnType) -> tuple[int, int]:
    """Digits and scale of a DECIMAL or an integer."""
    return (type.precision, type.scale) if type.is_decimal else (_DIGITS[type.sql], 0)


def _demand_known(expr: exp.Expr) -> None:
    """Refuses what the rules do not read: NOT LIKE is a LIKE with one more argument."""
    given = {name for name, value in expr.args.items() if value}
    unread = given - {"this", "expression", "expressions"} - _READ.get(type(expr), frozenset())
    if unread:
        raise NotSaidError(f"{type(expr).__name__} with {', '.join(sorted(unread))}")


# --- rules ---

Rule = Callable[[Speaker, Any], str]


def _both(speaker: Speaker, expr: exp.Expr, word: str) -> str:
    return f"{speaker._say(expr.this)} {word} {speaker._say(expr.args['expression'])}"


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
    return f"NOT {speaker._say(expr.this)}"


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
            sides.append(speaker._say(part))
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
    if a.sql in _DIGITS and b.sql in _DIGITS:
        return max(a, b, key=lambda type: _DIGITS[type.sql])
    numbers = all(type.is_decimal or type.sql in _DIGITS for type in (a, b))
    if numbers:
        (p, s), (q, r) = _shape(a), _shape(b)
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
    return f"{speaker._say(expr.this)} IS NULL"


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


def _arithmetic(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        left, right, type = expr.this, expr.args["expression"], speaker.plain(expr)
        numbers = [speaker.type(part) for part in (left, right)]
        if any(t.sql not in _DIGITS and not t.is_decimal and t.sql != "DOUBLE" for t in numbers):
            raise NotSaidError(f"{numbers[0]} {word} {numbers[1]}")
        if type.is_decimal:
            return _decimal(speaker, word, left, right, type)
        if type.sql not in (*_DIGITS, "DOUBLE"):
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
            digits, scale = _shape(speaker.type(part))
            sides.append(speaker.cast(part, type_of(f"DECIMAL({digits},{scale})")))
        if sum(_shape(speaker.type(part))[0] for part in (left, right)) > _WIDEST:
            raise NotSaidError(f"{word} of type {type}")
    else:
        sides = [speaker.cast(part, type) for part in (left, right)]
    return f"CAST({sides[0]} {word} {sides[1]} AS {carrier(type).spark})"


def _integer_division(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        type = speaker.plain(expr)
        if type.sql not in _DIGITS:
            raise NotSaidError(f"{word} of type {type}")
        left = speaker.cast(expr.this, type)
        right = speaker.cast(expr.args["expression"], type)
        spark = carrier(type).spark
        return f"CAST({left} {word} {right} AS {spark})"

    return rule


def _negative(speaker: Speaker, expr: exp.Neg) -> str:
    type = speaker.plain(expr)
    if type.sql not in (*_DIGITS, "DOUBLE") and not (
        type.is_decimal and type.precision <= _NEGATED
    ):
        raise NotSaidError(f"− of type {type}")
    return f"CAST(- {speaker.cast(expr.this, type)} AS {carrier(type).spark})"


def _case(speaker: Speaker, expr: exp.Case) -> str:
    type = speaker.plain(expr)
    parts = []
    for branch in expr.args["ifs"]:
        condition = branch.this
        if expr.this is not None:
            condition = exp.EQ(this=expr.this.copy(), expression=condition.copy())
        elif speaker.type(condition).sql != "BOOLEAN":
            raise NotSaidError("CASE WHEN of something else than a BOOLEAN")
        parts.append(
            f"WHEN {speaker._say(condition)} THEN {speaker.cast(branch.args['true'], type)}"
        )
    otherwise = expr.args.get("default")
    if otherwise is not None:
        parts.append(f"ELSE {speaker.cast(otherwise, type)}")
    return f"CASE {' '.join(parts)} END"


def _if(speaker: Speaker, expr: exp.If) -> str:
    made = exp.Case(ifs=[exp.If(this=expr.this.copy(), true=expr.args["true"].copy())])
    if expr.args.get("false") is not None:
        made.set("default", expr.args["false"].copy())
    return _case(speaker, made)


def _coalesce(speaker: Speaker, expr: exp.Coalesce) -> str:
    type = speaker.plain(expr)
    given = [expr.this, *expr.expressions]
    return f"coalesce({', '.join(speaker.cast(part, type) for part in given)})"


def _nullif(speaker: Speaker, expr: exp.Nullif) -> str:
    left, right = compared(speaker, expr.this, expr.expression)
    return f"CASE WHEN {left} = {right} THEN NULL ELSE {speaker._say(expr.this)} END"


def _extreme(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        type = speaker.plain(expr)
        given = [expr.this, *expr.expressions]
        if type.is_float or len(given) < 2:
            raise NotSaidError(f"{word} of type {type}")
        return f"{word}({', '.join(speaker.cast(part, type) for part in given)})"

    return rule


def _cast(speaker: Speaker, expr: exp.Cast) -> str:
    if isinstance(expr, exp.TryCast):
        raise NotSaidError("TRY_CAST")
    to, given = speaker.type(expr), speaker.type(expr.this)
    if given.sql in _DIGITS and to.sql in _DIGITS:
        return f"CAST({speaker._say(expr.this)} AS {carrier(to).spark})"
    if given.sql in _DIGITS and to.sql == "VARCHAR":
        return f"CAST({speaker._say(expr.this)} AS STRING)"
    if given.sql == "DATE" and to.sql == "TIMESTAMP":
        raise NotSaidError("a cast from DATE to TIMESTAMP")
    return speaker.cast(expr.this, to)


def _concat(speaker: Speaker, expr: exp.DPipe) -> str:
    for part in (expr.this, expr.expression):
        if speaker.type(part).sql != "VARCHAR":
            raise NotSaidError(f"|| of a {speaker.type(part)}")
    return _both(speaker, expr, "||")


def _like(speaker: Speaker, expr: exp.Like) -> str:
    pattern = expr.expression
    if speaker.type(expr.this).sql != "VARCHAR" or not isinstance(pattern, exp.Literal):
        raise NotSaidError("LIKE with a pattern that is no constant")
    if not pattern.is_string or "\\" in pattern.this:
        raise NotSaidError("LIKE with a backslash in the pattern")
    word = "NOT LIKE" if expr.args.get("negate") else "LIKE"
    return f"{speaker._say(expr.this)} {word} {said_string(pattern.this)}"


def _length(speaker: Speaker, expr: exp.Expr) -> str:
    if speaker.type(_argument(expr)).sql != "VARCHAR":
        raise NotSaidError("length of something else than a VARCHAR")
    return f"CAST(char_length({speaker._say(_argument(expr))}) AS BIGINT)"


def _argument(expr: exp.Expr) -> exp.Expr:
    """The one argument of a call."""
    made = expr.expressions[0] if isinstance(expr, exp.Anonymous) else expr.this
    assert isinstance(made, exp.Expr)
    return made


def _part_of_day(word: str) -> Rule:
    def rule(speaker: Speaker, expr: exp.Expr) -> str:
        return said_part(speaker, word, _argument(expr))

    return rule


def said_part(speaker: Speaker, word: str, of: exp.Expr) -> str:
    """A part of a date; infinite ones have none."""
    if speaker.type(of).sql != "DATE":
        raise NotSaidError(f"{word} of a {speaker.type(of)}")
    day = speaker._say(of)
    finite = f"abs(unix_date({day})) < {_INFINITE_DAY}"
    return f"CASE WHEN {finite} THEN CAST({word}({day}) AS BIGINT) END"


def _extract(speaker: Speaker, expr: exp.Extract) -> str:
    word = expr.this.name.lower()
    if word not in _PARTS:
        raise NotSaidError(f"extract({word})")
    return said_part(speaker, word, expr.expression)


_READ: dict[type[exp.Expr], frozenset[str]] = {
    exp.Between: frozenset(["low", "high"]),
    exp.Case: frozenset(["ifs", "default"]),
    exp.Cast: frozenset(["to"]),
    exp.DPipe: frozenset(["safe"]),  # of NULLs, in other dialects
    exp.Greatest: frozenset(["ignore_nulls"]),  # as both engines do
    exp.If: frozenset(["true", "false"]),
    exp.Least: frozenset(["ignore_nulls"]),
    exp.Like: frozenset(["negate"]),
}
"""The arguments of nodes that the rules read, or that change nothing here."""
_PARTS = ("year", "month", "day", "quarter")
_RULES: dict[type[exp.Expr], Rule] = {
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
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.IntDiv: _integer_division("div"),
    exp.Mod: _integer_division("%"),
    exp.Neg: _negative,
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
_FUNCTIONS: dict[str, Rule] = {
    "length": _length,
    "len": _length,
    "strlen": lambda speaker, expr: _refuse("strlen"),
    **{word: _part_of_day(word) for word in _PARTS},
}


def _refuse(word: str) -> str:
    raise NotSaidError(word)

"""Says expressions in Spark SQL by rules, with the types that DuckDB gives their parts.

Law: for every row, Spark's value has the bits of DuckDB's, or both fail (Spark may fail where
DuckDB does not evaluate the expression at all). A node without a rule, or with an argument that its
rule does not read, raises `NotTranslatableError`, and DuckDB computes it in the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import duckdb
from sqlglot import exp

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.spark_literals import literal_text
from ivm.spark_backfill.workers.carriers import carrier
from ivm.sql.plan.built_in import call_name, duck_text
from ivm.sql.plan.expressions import data_type, index_of
from ivm.sql.resolve.duckdb_types import probe, typed_nulls
from ivm.storage.identifiers import literal
from ivm.storage.scratch import Scratch
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import describe, rows, run

DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""The digits that values of the integer types have at most."""
_EXACT_DIGITS = 15  # up to which a DECIMAL is a quotient of two exact doubles
_OPERANDS = frozenset(["this", "expression", "expressions"])
_constants = Scratch()


class Rules(NamedTuple):
    """How nodes are said.

    Attributes:
        nodes: by the class of the node.
        functions: of other calls, by DuckDB's name.
        read: the arguments of nodes that their rules read beside the operands, or that change
            nothing here.
    """

    nodes: Mapping[type[exp.Expr], Rule]
    functions: Mapping[str, Rule]
    read: Mapping[type[exp.Expr], frozenset[str]]


class Translator:
    """Says expressions over columns of the given types in Spark SQL.

    Args:
        types: of the columns c0, c1, …
        zone: the time zone in which constants are computed.
        rules: how nodes and functions are said.
        names: the columns' names in Spark SQL; default c0, c1, …
    """

    def __init__(
        self,
        types: Sequence[ColumnType],
        zone: str,
        rules: Rules,
        names: Sequence[str] | None = None,
    ) -> None:
        self._types = tuple(types)
        self._zone = zone
        self._rules = rules
        self._names = names or [f"c{i}" for i in range(len(types))]
        self._known: dict[str, ColumnType] = {}

    def say(self, expr: exp.Expr) -> str:
        """Spark SQL of the same values.

        Raises:
            NotTranslatableError: a construct or type is not on the list.
        """
        self._ask_types(expr)
        return self.text(expr)

    def say_condition(self, expr: exp.Expr) -> str:
        """As `say`, of what a row must satisfy: DuckDB takes other types than BOOLEAN, too."""
        said = self.say(expr)
        if self.type(expr).sql not in ("BOOLEAN", '"NULL"'):
            raise NotTranslatableError("a condition that is no BOOLEAN")
        return said

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
        except NotTranslatableError:
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
                raise NotTranslatableError(str(error).splitlines()[0]) from error
        self._known |= {text: type for text, (_, type) in zip(texts, found, strict=True)}

    def text(self, expr: exp.Expr) -> str:
        """Says a part of the expression, for its rule."""
        if isinstance(expr, exp.Paren):
            return self.text(expr.this)
        if isinstance(expr, exp.Column):
            return self._names[index_of(expr)]
        if not expr.find(exp.Column):
            return self.constant(expr, self.type(expr))
        rules = self._rules
        rule = rules.nodes.get(type(expr)) or rules.functions.get(call_name(expr))
        if rule is None:
            raise NotTranslatableError(f"{call_name(expr) or type(expr).__name__}")
        self._demand_read(expr)
        return f"({rule(self, expr)})"

    def _demand_read(self, expr: exp.Expr) -> None:
        """Refuses what the rules do not read: NOT LIKE is a LIKE with one more argument."""
        given = {name for name, value in expr.args.items() if value}
        known = {"this", "expression", "expressions"} | self._rules.read.get(
            type(expr), frozenset()
        )
        if given - known:
            raise NotTranslatableError(
                f"{type(expr).__name__} with {', '.join(sorted(given - known))}"
            )

    def plain(self, expr: exp.Expr) -> ColumnType:
        """The type of an expression with whose carrier Spark may compute."""
        type = self.type(expr)
        if not carrier(type).plain:
            raise NotTranslatableError(f"a value of type {type}")
        return type

    def cast(self, expr: exp.Expr, type: ColumnType) -> str:
        """The expression, converted as DuckDB converts it without being asked to."""
        given = self.type(expr)
        said = self._say_as(expr, type)
        if said is not None or given == type:
            return said or self.text(expr)
        if not widens(given, type):
            raise NotTranslatableError(f"a cast from {given} to {type}")
        return f"CAST({self.text(expr)} AS {carrier(type).spark})"

    def _say_as(self, expr: exp.Expr, type: ColumnType) -> str | None:
        """A constant, converted beforehand."""
        if expr.find(exp.Column):
            return None
        return self.constant(exp.Cast(this=expr.copy(), to=data_type(type)), type)

    def constant(self, expr: exp.Expr, type: ColumnType) -> str:
        """The value of an expression without columns, as DuckDB computes it, as a Spark literal."""
        carried = carrier(type)
        if not carried.plain:
            raise NotTranslatableError(f"a constant of type {type}")
        try:
            with _constants.borrow() as cursor:
                run(cursor, f"SET TimeZone = {literal(self._zone)}")
                ((value,),) = rows(cursor, f"SELECT CAST({duck_text(expr)} AS {type.sql})")
        except duckdb.Error as error:
            raise NotTranslatableError(f"the constant {duck_text(expr)}") from error
        if value is None:
            return f"CAST(NULL AS {carried.spark})"
        if isinstance(value, str) and not type.is_string:  # a date beyond Python's
            raise NotTranslatableError(f"the constant {duck_text(expr)}")
        return f"CAST({literal_text(value)} AS {carried.spark})"


Rule: TypeAlias = Callable[[Translator, Any], str]
"""Says a node, whose parts the translator says."""


def widens(given: ColumnType, to: ColumnType) -> bool:
    """Returns whether the implicit cast changes no value."""
    if given.sql in DIGITS and to.sql in (*DIGITS, "HUGEINT"):
        return to.sql == "HUGEINT" or DIGITS[given.sql] <= DIGITS[to.sql]
    if to.is_decimal and (given.is_decimal or given.sql in DIGITS):
        digits, scale = shape(given)
        return to.precision - to.scale >= digits - scale and to.scale >= scale
    if to.sql == "DOUBLE":
        if given.is_decimal:
            return given.precision <= _EXACT_DIGITS
        return given.sql in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT")
    return False


def shape(type: ColumnType) -> tuple[int, int]:
    """Digits and scale of a DECIMAL or an integer."""
    return (type.precision, type.scale) if type.is_decimal else (DIGITS[type.sql], 0)

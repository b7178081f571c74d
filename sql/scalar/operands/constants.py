"""Types and constants of expressions, computed by DuckDB and never guessed.

Limit: a private in-memory database computes them, under DuckDB's default settings. An expression
that names the user's macros or types is not known there, and thus is not on the list.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
from sqlglot import exp

from ivm.sql.plan.expressions import WRITTEN
from ivm.sql.plan.known_functions import is_fixed
from ivm.sql.resolve.clock import AGE
from ivm.sql.scalar.operands.kernel import NotListedError
from ivm.storage.errors import EvaluationError
from ivm.storage.scratch import Lender, Scratch
from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.types import MOST_DIGITS, ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb import duck

_scratch = Scratch("SET arrow_lossless_conversion = true")
_as_written = Scratch("SET arrow_lossless_conversion = true", "PRAGMA disable_optimizer")
_BATCH = "__ivm_batch"
_ROW = "__ivm_row"


def sql_of(expr: exp.Expr) -> str:
    """The expression as SQL for DuckDB."""
    return expr.sql(**WRITTEN)  # on a copy: the generator may rewrite the tree


def column_index(expr: exp.Expr) -> int:
    """The position that a column reference ``c<i>`` names."""
    return int(expr.name[1:])


@functools.lru_cache(maxsize=4096)
def _describe(types: tuple[str, ...], expressions: tuple[str, ...]) -> tuple[str, ...] | None:
    inputs = ", ".join(f"NULL::{t} AS c{i}" for i, t in enumerate(types)) or "1 AS nothing"
    query = f"DESCRIBE SELECT {', '.join(expressions)} FROM (SELECT {inputs})"
    with _scratch.borrow() as scratch:
        try:
            return tuple(row[1] for row in duck.rows(scratch, query))
        except duckdb.Error:
            return None


def binds(tree: exp.Expr, types: Sequence[ColumnType]) -> bool:
    """Returns whether DuckDB takes an expression over the columns c0, c1, … of these types."""
    return _describe(tuple([type.sql for type in types]), (sql_of(tree),)) is not None


class Binder:
    """Finds the types of a tree's subexpressions, all of them with one DESCRIBE.

    Args:
        types: the types of the input columns c0, c1, …
    """

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self.types = tuple(types)
        self._names = tuple(t.sql for t in types)
        self._known: dict[str, str] = {}
        self._sql: dict[int, str] = {}
        self._nodes: list[exp.Expr] = []  # holds the nodes, so that no other gets an id from above

    def learn(self, tree: exp.Expr) -> None:
        """Describes all subexpressions of `tree` at once; if one fails, each later by itself."""
        parts = {self.text(n): None for n in tree.walk() if _has_type(n)}
        for node in tree.walk():
            sides = _compared(node)
            if len(sides) > 1:
                parts[common_sql(sides)] = None
        answer = _describe(self._names, tuple(parts))
        if answer is not None:
            self._known.update(zip(parts, answer, strict=True))

    def type(self, expr: exp.Expr) -> ColumnType:
        """Returns DuckDB's type of `expr`.

        Raises:
            NotListedError: it cannot stand alone in a SELECT list.
        """
        return self._type(self.text(expr))

    def common(self, sides: Sequence[exp.Expr]) -> ColumnType:
        """The type to which DuckDB casts all `sides` before it compares them.

        It keeps all digits behind the point, where a CASE drops some if they are too many in all.
        """
        type = self._type(common_sql(sides))
        if not (type.is_decimal and type.precision == MOST_DIGITS):
            return type
        scale = max([t.scale for t in map(self.type, sides) if t.is_decimal], default=type.scale)
        return type_of(f"DECIMAL({MOST_DIGITS},{scale})")

    def text(self, expr: exp.Expr) -> str:
        """Returns `sql_of(expr)`, which is slow, and remembers it for each node of the tree."""
        known = self._sql.get(id(expr))
        if known is None:
            known = self._sql[id(expr)] = sql_of(expr)
            self._nodes.append(expr)
        return known

    def _type(self, sql: str) -> ColumnType:
        if sql not in self._known:
            answer = _describe(self._names, (sql,))
            if answer is None:
                raise NotListedError(sql)
            self._known[sql] = answer[0]
        return type_of(self._known[sql])


def _has_type(node: exp.Expr) -> bool:
    """Returns whether a node belongs in the DESCRIBE; an IN list can have thousands of literals."""
    if isinstance(node, exp.Literal) and isinstance(node.parent, exp.In):
        return False
    return isinstance(node, exp.Condition)


def _compared(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Nullif)):
        return [node.this, node.expression]
    if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
        return [node.this, node.expression]
    return []


def common_sql(sides: Sequence[exp.Expr]) -> str:
    """Returns an expression of the type in which DuckDB compares `sides`; see `Binder.common`."""
    first, *rest = [f"({sql_of(side)})" for side in sides]
    branches = " ".join(f"WHEN TRUE THEN {side}" for side in rest)
    return f"CASE {branches} ELSE {first} END"


@functools.cache
def _unfoldable() -> frozenset[str]:
    """Functions that make values with a time zone of others: where such a value is read, the
    session's TimeZone counts. And one that tells the time with one argument, and not with two."""
    zoned = """SELECT lower(function_name) FROM duckdb_functions()
        WHERE return_type LIKE '%TIME ZONE%'
        AND len(list_filter(parameter_types, lambda t: t LIKE '%TIME ZONE%')) = 0"""
    with _scratch.borrow() as scratch:
        return frozenset(name for (name,) in duck.rows(scratch, zoned)) | _TYPED_BY_TEXT | {AGE}


# Syntax that sqlglot parses as functions; DuckDB does not list it among its functions.
_SYNTAX: tuple[type[exp.Expr], ...] = (
    *(exp.Cast, exp.TryCast, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Extract),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.Between, exp.In, exp.TimestampTrunc, exp.Array),
)
_VARYING = (
    *(exp.Column, exp.Query, exp.Placeholder, exp.Parameter, exp.Star, exp.Lambda),
    exp.AtTimeZone,
)
_TYPED_BY_TEXT = frozenset(
    [
        *("strptime", "try_strptime"),
        *("json_transform", "json_transform_strict", "from_json", "from_json_strict"),
    ]
)  # perhaps with a time zone


def is_constant(expr: exp.Expr) -> bool:
    """Returns whether `expr` has one value, whatever the rows, the time and the TimeZone are."""
    return all(_is_stable(node) for node in expr.walk())


def _is_stable(node: exp.Expr) -> bool:
    if isinstance(node, _VARYING):
        return False
    if isinstance(node, exp.DataType):
        return "TZ" not in sql_of(node).upper()  # casts depend on TimeZone
    if not isinstance(node, exp.Func) or isinstance(node, _SYNTAX):
        return True
    name = node.name if isinstance(node, exp.Anonymous) else sql_of(node).split("(")[0]
    return is_fixed(name.lower()) and name.lower() not in _unfoldable()


def _evaluate(
    sql: str,
    inputs: Mapping[str, tuple[ZSet, Schema]],
    output: Schema,
    database: Lender = _scratch,
) -> Column:
    """The first column of a query over the private database."""
    with database.borrow() as scratch:
        return duck.evaluate(scratch, sql, inputs, output).columns[0]


def fold(expr: exp.Expr | str, type: ColumnType) -> Column:
    """The one-row column of a constant expression.

    Raises:
        NotListedError: DuckDB fails on it, and is to fail at each evaluation, if there is one.
    """
    return _fold(expr if isinstance(expr, str) else sql_of(expr), type)


def fold_all(exprs: Sequence[exp.Expr], type: ColumnType) -> Column:
    """Casts constants to `type`, as one column; raises as `fold` does."""
    casts = [f"CAST({sql_of(expr)} AS {type.sql})" for expr in exprs]
    return _fold(f"unnest([{', '.join(casts)}])", type)


@functools.lru_cache(maxsize=4096)
def _fold(text: str, type: ColumnType) -> Column:
    if "TIME ZONE" in type.sql:
        raise NotListedError(f"{type}: it depends on the session's TimeZone")
    try:
        return _evaluate(f"SELECT {text} AS v", {}, (("v", type),))
    except duckdb.Error as error:
        raise NotListedError(text) from error


def _inputs(expr: exp.Expr, types: Sequence[ColumnType]) -> list[int]:
    return sorted({column_index(c) for c in expr.find_all(exp.Column)})


def _register(
    used: Sequence[int], types: Sequence[ColumnType], columns: Sequence[Column], count: int
) -> tuple[ZSet, Schema]:
    schema = ((_ROW, type_of("BIGINT")), *((f"c{i}", types[i]) for i in used))
    ordinal = FixedColumn(np.arange(count, dtype=np.int64))
    return ZSet((ordinal, *(columns[i] for i in used)), np.zeros(count, np.int64)), schema


class Fallback:
    """DuckDB's own evaluation of one expression over a batch.

    Args:
        expr: columns are c0, c1, …
        types: their types.
        output: the type of the result.
        optimized: DuckDB's optimizer rewrites the expression as in a query: of `a * 1000 > 0` it
            computes `a > 0`, which cannot overflow.

    Attributes:
        text: the expression as SQL.
        reads: positions of the columns that it reads.
        output: the type of the result.
    """

    def __init__(
        self,
        expr: exp.Expr,
        types: Sequence[ColumnType],
        output: ColumnType,
        optimized: bool = True,
    ) -> None:
        self._database: Lender = _scratch if optimized else _as_written
        self._types = tuple(types)
        self.output = output
        self.text = sql_of(expr)
        self.reads = _inputs(expr, types)

    def column(
        self, columns: Sequence[Column], count: int, database: Lender | None = None
    ) -> Column:
        """Computes the expression's column.

        Args:
            database: that evaluates it, if not a private one in memory.

        Raises:
            EvaluationError: DuckDB fails on these rows.
        """
        sql = f"SELECT {self.text} AS v FROM {_BATCH}"
        return self._run(sql, columns, count, (("v", self.output),), database)

    def mask(self, columns: Sequence[Column], count: int) -> Mask:
        """Marks the rows that pass ``WHERE <expression>``; raises as `column` does."""
        sql = f"SELECT {_ROW} FROM {_BATCH} WHERE {self.text}"
        rows = self._run(sql, columns, count, ((_ROW, type_of("BIGINT")),), None)
        mask = np.zeros(count, np.bool_)
        mask[rows.values] = True  # type: ignore[union-attr]
        return mask

    def _run(
        self,
        sql: str,
        columns: Sequence[Column],
        count: int,
        output: Schema,
        database: Lender | None,
    ) -> Column:
        batch = _register(self.reads, self._types, columns, count)
        try:
            return _evaluate(sql, {_BATCH: batch}, output, database or self._database)
        except duckdb.Error as error:
            raise EvaluationError(f"{self.text}: {error}") from error

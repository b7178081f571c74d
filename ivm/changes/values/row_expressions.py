"""Expressions of a change over the rows it meets, by kernels: SET, WHERE and DO UPDATE.

Contract: a result is DuckDB's; where there is no kernel and DuckDB cannot compute it over the rows
alone, or where they make it fail, `NotFastError` leaves the statement to DuckDB.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeAlias

import duckdb
import numpy as np
from sqlglot import exp

from ivm.changes.values.computed_values import ComputedValues
from ivm.delta_ops.operator import Kernel, Predicate
from ivm.ingest.local_time import is_now
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.values.python_values import python_column
from ivm.sql.parse.expression_text import expression_of, names_of
from ivm.sql.plan.expressions import conjuncts
from ivm.sql.resolve.clock import WORDS
from ivm.sql.rewrite.cannot_fail import cannot_fail
from ivm.sql.scalar.compile import compile_predicate, compile_scalar
from ivm.sql.scalar.lookup import Range, range_of
from ivm.sql.scalar.operands.constants import Fallback, binds
from ivm.sql.statements.nodes.expressions import Expression
from ivm.storage.errors import EvaluationError
from ivm.storage.interrupts import check
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, empty_column
from ivm.storage.values.types import ColumnType, Schema, type_of

Part: TypeAlias = tuple[Schema, tuple[str, ...]]
"""Columns that an expression sees, and the qualifiers of their names ("" for none)."""
Lookup: TypeAlias = Callable[[int | str, Indexes | None], Sequence[Any] | None]
"""The values of a parameter, one for all rows or one for each of some; None if it is missing."""
_Bound: TypeAlias = Sequence[tuple[ColumnType, Column]]
"""The types and values of an expression's parameters."""

_TYPES = {
    bool: type_of("BOOLEAN"),
    float: type_of("DOUBLE"),
    str: type_of("VARCHAR"),
    date: type_of("DATE"),
    datetime: type_of("TIMESTAMP"),
}
_NO_KERNEL = "an expression has no kernel that equals DuckDB"
_NO_PREDICATE = "a condition has no kernel that equals DuckDB, and fails for no row of the table"
_FAILS = "an expression may fail for a row, and DuckDB words the error"
_UNTYPED = "the type of a parameter in an expression is not certain"
_INTEGERS = ((1 << 31, type_of("INTEGER")), (1 << 63, type_of("BIGINT")))


def repeated(column: Column, count: int) -> Column:
    """The column of one value for all rows, or already of one for each."""
    if len(column) == count:
        return column
    if isinstance(column, FixedColumn) and column.valid is None:  # much sooner than by positions
        return FixedColumn(np.repeat(column.values, count, axis=0))
    return column.take(np.zeros(count, np.int64))


def _spread(column: Column, count: int) -> Column:
    """The same, where a number is read again for each row: for conditions, which keep none."""
    if len(column) == 1 and isinstance(column, FixedColumn) and column.valid is None:
        return FixedColumn(np.broadcast_to(column.values, (count,)))
    return repeated(column, count)


@dataclass(frozen=True)
class RowExpressions:
    """Evaluates the expressions of one statement.

    Attributes:
        parts: the columns that they see.
        macros: the names of the user's functions and macros, in small letters.
        lookup: gives the parameters.
        computed: computes the values that have no kernel; None if none is to be computed.
        rows: the rows of parameters, in a batch, that the evaluated rows have each.
    """

    parts: tuple[Part, ...]
    macros: frozenset[str]
    lookup: Lookup
    computed: ComputedValues | None = None
    rows: Indexes | None = None

    def at(self, rows: Indexes) -> RowExpressions:
        """The same for some of the rows."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def value(
        self,
        expression: Expression,
        output: ColumnType,
        columns: Sequence[Column],
        count: int,
        *,
        kept: bool = True,
    ) -> Column:
        """The expression's value for each row, cast to a type; see `ComputedValues.column`.

        Raises:
            NotFastError: see above.
        """
        alone = self._alone(expression, output, count)
        if alone is not None:
            return alone
        bound = self._bound(expression, count)
        read = self._as(expression, output, bound)
        kernel = _kernel(read, output)
        try:
            if kernel is not None:
                return kernel(_with(columns, bound), count)
            return self._computed(read, output, _with(columns, bound), count, kept=kept)
        except (EvaluationError, duckdb.Error) as error:
            check()
            raise NotFastError(_FAILS) from error

    def _computed(
        self,
        read: _Read,
        output: ColumnType,
        columns: Sequence[Column],
        count: int,
        *,
        kept: bool,
    ) -> Column:
        if read.tree is None or self.computed is None or not self.computed.takes(read.text):
            raise NotFastError(_NO_KERNEL)
        expression = _fallback(read, output)
        if not count and expression.reads:
            if not binds(read.tree, read.types):
                raise NotFastError(_FAILS)
            return empty_column(output)
        alone = _is_now(read, output)
        found = self.computed.column(expression, columns, count, kept=kept, is_now=alone)
        if found is None:
            raise NotFastError("it tells the time again, which has passed")
        return repeated(found, count)

    def demand_kernel(self, expression: Expression, output: ColumnType) -> None:
        """Raises NotFastError unless an expression has values, if the rows do not make it fail."""
        if expression.is_parameter:
            return
        read = self._as(expression, output, self._bound(expression, 1))
        if read.tree is None:
            raise NotFastError(_NO_KERNEL)
        if _kernel(read, output) is None and not (self.computed and self.computed.takes(read.text)):
            raise NotFastError(_NO_KERNEL)

    def demand_values(
        self, expression: Expression, output: ColumnType, columns: Sequence[Column]
    ) -> None:
        """Raises NotFastError unless an expression has values for rows, of which there are some."""
        if self._alone(expression, output, 1) is None:
            read = self._as(expression, output, self._bound(expression, 1))
            if not _cannot_fail(read):
                self.value(expression, output, columns, len(columns[0]), kept=False)

    def _as(self, expression: Expression, output: ColumnType, bound: _Bound) -> _Read:
        """The expression, cast to a type."""
        text = f"CAST(({expression.text}) AS {output.sql})"
        return _read(text, self.parts, _types(bound), self.macros)

    def mask(
        self,
        expression: Expression,
        columns: Sequence[Column],
        count: int,
        *,
        of_all: bool = False,
    ) -> Mask:
        """The mask of the rows for which a condition is true.

        Args:
            of_all: no other row may make the condition fail, too: DuckDB may evaluate it for more
                rows than these.

        Raises:
            NotFastError: see above.
        """
        bound = self._bound(expression, count, spread=_spread)
        read = _read(f"({expression.text})", self.parts, _types(bound), self.macros)
        predicate = demanded(_predicate(read, safe=of_all), _NO_PREDICATE)
        try:
            return predicate(_with(columns, bound), count)
        except (EvaluationError, duckdb.Error) as error:
            raise NotFastError(_FAILS) from error

    def bounds(
        self, condition: Expression, column: int
    ) -> tuple[Column | None, Column | None] | None:
        """The least and the greatest value of a column in the rows for which a condition is true.

        Args:
            condition: over the columns.
            column: the position of one of an ordered type.

        Returns:
            Columns of one row, None for no bound; None if there is neither.

        Raises:
            NotFastError: the type of a parameter is not certain.
        """
        bound = self._bound(condition, 1)
        read = _read(f"({condition.text})", self.parts, _types(bound), self.macros)
        range = _range(read, len(read.types) - len(bound), column)
        return None if range is None else range.bounds([value for _, value in bound])

    def _alone(self, expression: Expression, output: ColumnType, count: int) -> Column | None:
        """The value of a bare parameter by a rule; None if there is none."""
        if not expression.is_parameter:
            return None
        values = self.lookup(expression.parameters[0], self.rows)
        column = None if values is None else python_column(values, output)
        return None if column is None else repeated(column, count)

    def _bound(
        self,
        expression: Expression,
        count: int,
        spread: Callable[[Column, int], Column] = repeated,
    ) -> _Bound:
        """The parameters as columns of `count` rows."""
        found = []
        for parameter in expression.parameters:
            values = self.lookup(parameter, self.rows)
            typed = demanded(None if values is None else typed_column(values), _UNTYPED)
            found.append((typed[0], spread(typed[1], count)))
        return found


def lookup_in(parameters: Sequence[Any] | Mapping[str, Any]) -> Lookup:
    """The lookup of parameters as a statement gets them."""

    def lookup(parameter: int | str, rows: Indexes | None) -> Sequence[Any] | None:
        try:
            return (parameters[parameter],)  # type: ignore[index]
        except (IndexError, KeyError, TypeError):
            return None

    return lookup


def _types(bound: _Bound) -> tuple[ColumnType, ...]:
    return tuple([type for type, _ in bound])


def _with(columns: Sequence[Column], bound: _Bound) -> list[Column]:
    return [*columns, *[column for _, column in bound]]


def typed_column(values: Sequence[Any]) -> tuple[ColumnType, Column] | None:
    """Parameters as a column of the type that DuckDB gives each; None if none is certain."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    found = _integer_type(values) if kind is int else _TYPES.get(kind)
    column = None if found is None else python_column(values, found)
    return None if found is None or column is None else (found, column)


def _integer_type(values: Sequence[int]) -> ColumnType | None:
    """The narrowest type of DuckDB's parameters, if it is the same for all values."""
    low, high = min(values), max(values)
    for limit, type in _INTEGERS:
        if -limit <= low and high < limit:
            return type
        if any(-limit <= value < limit for value in values):
            return None
    return None


class _Read:
    """An expression as it is read; equal to itself alone.

    Attributes:
        text: the expression.
        tree: over columns by position; None if it is not certain to mean the same.
        types: of the columns, and of the parameters behind them.
    """

    def __init__(self, text: str, tree: exp.Expr | None, types: list[ColumnType]) -> None:
        self.text, self.tree, self.types = text, tree, types


@functools.lru_cache(maxsize=512)
def _read(
    text: str,
    parts: tuple[Part, ...],
    parameters: tuple[ColumnType, ...],
    macros: frozenset[str],
) -> _Read:
    names, types = _scope(parts, parameters)
    return _Read(text, expression_of(text, names, macros, WORDS), types)


@functools.lru_cache(maxsize=512)
def _kernel(read: _Read, output: ColumnType) -> Kernel | None:
    if read.tree is None:
        return None
    try:
        return compile_scalar(read.tree, read.types, output)
    except duckdb.Error:
        return None


@functools.lru_cache(maxsize=512)
def _fallback(read: _Read, output: ColumnType) -> Fallback:
    assert read.tree is not None
    return Fallback(read.tree, read.types, output)


@functools.lru_cache(maxsize=512)
def _is_now(read: _Read, output: ColumnType) -> bool:
    return isinstance(read.tree, exp.Cast) and is_now(read.tree, output)


@functools.lru_cache(maxsize=512)
def _cannot_fail(read: _Read) -> bool:
    return read.tree is not None and cannot_fail(read.tree, read.types)


@functools.lru_cache(maxsize=512)
def _predicate(read: _Read, *, safe: bool) -> Predicate | None:
    if read.tree is None or (safe and not _cannot_fail(read)):
        return None
    try:
        return compile_predicate(read.tree, read.types)
    except duckdb.Error:
        return None


@functools.lru_cache(maxsize=512)
def _range(read: _Read, width: int, column: int) -> Range | None:
    """The range of a column, of which there are `width`."""
    found = Range()
    for term in conjuncts(read.tree):
        other = range_of(term, read.types, width)
        if other is not None and other[0] == column:
            found = found.with_term(other[1])
    return None if found == Range() else found


def _scope(
    parts: tuple[Part, ...], parameters: tuple[ColumnType, ...]
) -> tuple[dict[tuple[str, str], int], list[ColumnType]]:
    names: dict[tuple[str, str], int] = {}
    types: list[ColumnType] = []
    ambiguous: set[tuple[str, str]] = set()  # DuckDB refuses these
    for schema, qualifiers in parts:
        found = names_of([name for name, _ in schema], *qualifiers, first=len(types))
        ambiguous |= names.keys() & found.keys()
        names |= found
        types += [type for _, type in schema]
    names = {name: position for name, position in names.items() if name not in ambiguous}
    marks = [f"?{i}" for i in range(len(parameters))]
    names |= names_of(marks, first=len(types))
    return names, [*types, *parameters]

"""Expressions of a change over the rows it meets, by kernels: SET, WHERE and DO UPDATE.

Contract: a result is DuckDB's; None where there is no kernel, or the rows make it fail: DuckDB must
run the statement, and words the error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, TypeAlias

import duckdb
import numpy as np

from ivm.delta_ops.operator import Kernel, Predicate
from ivm.ingest.python_values import python_column
from ivm.sql.parse.expression_text import expression_of, names_of
from ivm.sql.plan.expressions import conjuncts
from ivm.sql.rewrite.cannot_fail import cannot_fail
from ivm.sql.scalar.compile import compile_predicate, compile_scalar
from ivm.sql.scalar.lookup import Range, range_of
from ivm.sql.statements.expressions import Expression
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.types import ColumnType, Schema, type_of

Part: TypeAlias = tuple[Schema, tuple[str, ...]]
"""Columns that an expression sees, and the qualifiers of their names ("" for none)."""
Lookup: TypeAlias = Callable[[int | str, Indexes | None], Sequence[Any] | None]
"""The values of a parameter, one for all rows or one for each of some; None if it is missing."""

_TYPES = {
    bool: type_of("BOOLEAN"),
    float: type_of("DOUBLE"),
    str: type_of("VARCHAR"),
    date: type_of("DATE"),
    datetime: type_of("TIMESTAMP"),
}
_INTEGERS = ((1 << 31, type_of("INTEGER")), (1 << 63, type_of("BIGINT")))


@dataclass(frozen=True)
class RowExpressions:
    """Evaluates the expressions of one statement.

    Attributes:
        parts: the columns that they see.
        macros: the names of the user's functions and macros, in small letters.
        lookup: gives the parameters.
        rows: the rows of parameters, in a batch, that the evaluated rows have each.
    """

    parts: tuple[Part, ...]
    macros: frozenset[str]
    lookup: Lookup
    rows: Indexes | None = None

    def at(self, rows: Indexes) -> RowExpressions:
        """The same for some of the rows."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def value(
        self, expression: Expression, output: ColumnType, columns: Sequence[Column], count: int
    ) -> Column | None:
        """The expression's value for each row, cast to a type."""
        alone = self._alone(expression, output, count)
        if alone is not None:
            return alone
        bound = self._bound(expression, count)
        if bound is None:
            return None
        text = f"CAST(({expression.text}) AS {output.sql})"
        kernel = _kernel(text, self.parts, tuple([t for t, _ in bound]), output, self.macros)
        try:
            return None if kernel is None else kernel(_with(columns, bound), count)
        except (EvaluationError, duckdb.Error):
            return None

    def mask(
        self,
        expression: Expression,
        columns: Sequence[Column],
        count: int,
        *,
        of_all: bool = False,
    ) -> Mask | None:
        """The mask of the rows for which a condition is true.

        Args:
            of_all: None also if some other row could make the condition fail: DuckDB may evaluate
                it for more rows than these.
        """
        bound = self._bound(expression, count)
        if bound is None:
            return None
        types = tuple([t for t, _ in bound])
        text = f"({expression.text})"
        predicate = _predicate(text, self.parts, types, self.macros, safe=of_all)
        try:
            return None if predicate is None else predicate(_with(columns, bound), count)
        except (EvaluationError, duckdb.Error):
            return None

    def bounds(
        self, condition: Expression, column: int
    ) -> tuple[Column | None, Column | None] | None:
        """The least and the greatest value of a column in the rows for which a condition is true.

        Args:
            condition: over the columns.
            column: the position of one of an ordered type.

        Returns:
            Columns of one row, None for no bound; None if there is neither.
        """
        bound = self._bound(condition, 1)
        if bound is None:
            return None
        types = tuple([t for t, _ in bound])
        range = _range(f"({condition.text})", self.parts, types, self.macros, column)
        return None if range is None else range.bounds([value for _, value in bound])

    def _alone(self, expression: Expression, output: ColumnType, count: int) -> Column | None:
        """The value of a bare parameter by a rule; None if there is none."""
        if not expression.is_parameter:
            return None
        values = self.lookup(expression.parameters[0], self.rows)
        column = None if values is None else python_column(values, output)
        return None if column is None else repeated(column, count)

    def _bound(self, expression: Expression, count: int) -> list[tuple[ColumnType, Column]] | None:
        """The parameters as columns of `count` rows; None if the type of one is not certain."""
        found = []
        for parameter in expression.parameters:
            values = self.lookup(parameter, self.rows)
            typed = None if values is None else typed_column(values)
            if typed is None:
                return None
            found.append((typed[0], repeated(typed[1], count)))
        return found


def repeated(column: Column, count: int) -> Column:
    """The column of one value for all rows, or already of one for each."""
    if len(column) == count:
        return column
    if isinstance(column, FixedColumn) and column.valid is None:  # much sooner than by positions
        return FixedColumn(np.repeat(column.values, count, axis=0))
    return column.take(np.zeros(count, np.int64))


def lookup_in(parameters: Sequence[Any] | Mapping[str, Any]) -> Lookup:
    """The lookup of parameters as a statement gets them."""

    def lookup(parameter: int | str, rows: Indexes | None) -> Sequence[Any] | None:
        try:
            return (parameters[parameter],)  # type: ignore[index]
        except (IndexError, KeyError, TypeError):
            return None

    return lookup


def _with(columns: Sequence[Column], bound: Sequence[tuple[ColumnType, Column]]) -> list[Column]:
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


@functools.lru_cache(maxsize=512)
def _kernel(
    text: str,
    parts: tuple[Part, ...],
    parameters: tuple[ColumnType, ...],
    output: ColumnType,
    macros: frozenset[str],
) -> Kernel | None:
    names, types = _scope(parts, parameters)
    tree = expression_of(text, names, macros)
    if tree is None:
        return None
    try:
        return compile_scalar(tree, types, output)
    except duckdb.Error:
        return None


@functools.lru_cache(maxsize=512)
def _predicate(
    text: str,
    parts: tuple[Part, ...],
    parameters: tuple[ColumnType, ...],
    macros: frozenset[str],
    *,
    safe: bool,
) -> Predicate | None:
    names, types = _scope(parts, parameters)
    tree = expression_of(text, names, macros)
    if tree is None or (safe and not cannot_fail(tree, types)):
        return None
    try:
        return compile_predicate(tree, types)
    except duckdb.Error:
        return None


@functools.lru_cache(maxsize=512)
def _range(
    text: str,
    parts: tuple[Part, ...],
    parameters: tuple[ColumnType, ...],
    macros: frozenset[str],
    column: int,
) -> Range | None:
    names, types = _scope(parts, parameters)
    tree = expression_of(text, names, macros)
    width, found = len(types) - len(parameters), Range()
    for term in [] if tree is None else conjuncts(tree):
        other = range_of(term, types, width)
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

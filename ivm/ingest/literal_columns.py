"""Converts the cells of `INSERT … VALUES` and parameters to columns of a table's types.

Law: a column holds exactly what DuckDB's INSERT would store: each cell is cast from its own type
(1.5 is a DECIMAL, 1e5 a DOUBLE, a Python int the smallest integer) straight to the column's type.
Values without a rule are cast by DuckDB; if it cannot cast them either, the INSERT that DuckDB runs
words the error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.values.arrow_values import column_of
from ivm.ingest.values.duckdb_casts import Array, cast_arrays, cast_parameters
from ivm.ingest.values.literal_values import RULES, literal_array, literals
from ivm.ingest.values.python_parts import arrow_form, parts_of
from ivm.ingest.values.python_values import Values, python_values
from ivm.sql.statements.nodes.values_list import LiteralRows
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]

_NO_RULE = "a value is of a kind that only DuckDB makes a value of its column's type"
_MOST_CAST = 64  # more parameters than this that no rule covers are left to DuckDB's INSERT


def are_given(wanted: Collection[int | str], parameters: Parameters) -> bool:
    """Returns whether a statement's parameters have one value each, as it names or counts them."""
    named = any(isinstance(name, str) for name in wanted)
    return len(parameters) == len(wanted) and (
        isinstance(parameters, Mapping) == named or not wanted
    )


def columns_of(
    rows: LiteralRows, types: Sequence[ColumnType], parameters: Parameters, cursor: Cursor | None
) -> tuple[Column, ...]:
    """The columns of an `Insert` statement.

    Args:
        rows: the statement's cells.
        types: the type of each column named (or of all the table's columns).
        parameters: values of ? and $1 (a sequence) or $name (a mapping), see `are_given`.
        cursor: the session's cursor (its time zone counts), outside any unread result and any
            transaction, which a failing cast would abort; None if it has one open.

    Returns:
        One column a type, `rows.count` long.

    Raises:
        NotFastError: DuckDB must run the INSERT (or fail).
    """
    if len(types) != len(rows.cells):
        raise NotFastError("it gives another number of values than of columns")
    columns: dict[int, Column] = {}
    rest: dict[int, Values] = {}
    for i, type in enumerate(types):
        values = demanded(_values(rows, i, parameters, type), _NO_RULE)
        column = values.by_rule(RULES, type, rows.count)
        if column is None:
            rest[i] = values
        else:
            columns[i] = column
    if rest:
        literal = {i for i in rest if rows.column_parameters[i] is None}
        columns |= _cast(rest, literal, types, cursor)
    return tuple([columns[i] for i in range(len(types))])


def _values(
    rows: LiteralRows, column: int, parameters: Parameters, type: ColumnType
) -> Values | None:
    """The values of a column; None if a parameter is missing, or as `literals`."""
    keys = rows.column_parameters[column]
    if keys is None:
        return literals(rows, column, type)
    try:
        return python_values([parameters[key] for key in keys])  # type: ignore[index]
    except (IndexError, KeyError):
        return None


def _cast(
    given: Mapping[int, Values],
    literal: Collection[int],
    types: Sequence[ColumnType],
    cursor: Cursor | None,
) -> dict[int, Column]:
    """Casts columns that no rule covers; raises NotFastError if DuckDB refuses them or is busy.

    Args:
        given: values by their column.
        literal: the columns of literals; the others are of parameters.
        types: of all columns.
        cursor: see `columns_of`.
    """
    columns: dict[int, Column] = {}
    foreign: dict[int, Array] = {}
    bound: dict[int, Values] = {}
    for i, values in given.items():
        array = (literal_array if i in literal else _parameter_array)(values, types[i])
        dense = None if array is None else column_of(array, types[i])
        if dense is not None:
            columns[i] = values.spread(dense)
        elif i not in literal:
            bound[i] = values
        elif array is not None:
            foreign[i] = values.spread_array(array)
        else:
            raise NotFastError(_NO_RULE)
    return columns | _by_duckdb(foreign, bound, types, cursor)


def _by_duckdb(
    literal: Mapping[int, Array],
    bound: Mapping[int, Values],
    types: Sequence[ColumnType],
    cursor: Cursor | None,
) -> dict[int, Column]:
    """Literals cast together, parameters as the INSERT would bind them."""
    if not literal and not bound:
        return {}
    if cursor is None or any(len(one.values) > _MOST_CAST for one in bound.values()):
        raise NotFastError(_NO_RULE)
    columns: dict[int, Column] = {}
    try:
        if literal:
            columns = cast_arrays(literal, dict(enumerate(types)), cursor)
        for i, one in bound.items():
            columns[i] = one.spread(cast_parameters(one.values, types[i], cursor))
    except (duckdb.Error, UnicodeDecodeError) as error:  # DuckDB's fault `undecodable_messages`
        raise NotFastError(_NO_RULE) from error
    return columns


def _parameter_array(given: Values, type: ColumnType) -> pa.Array | None:
    """Parameters in an Arrow type whose cast by DuckDB is theirs, None if there is none."""
    if given.kind is object or len(parts_of(given.values, type)) > 1:
        return None
    return arrow_form(given.values, type, as_strings=False)

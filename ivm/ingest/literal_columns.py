"""Columns of a table's types from the cells of `INSERT … VALUES` and from parameters.

Law: a column holds exactly what DuckDB's INSERT would store: each cell is cast from its own type
(1.5 is a DECIMAL, 1e5 a DOUBLE, a Python int the smallest integer) straight to the column's type.
What the rules below do not cover, DuckDB casts; what it cannot cast either is None here, and the
native INSERT words the error.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from ivm.ingest.arrow_values import column_of
from ivm.ingest.python_parts import arrow_form, parts_of
from ivm.ingest.python_values import RULES, joined
from ivm.sql.statements.values_list import LiteralRows
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    FixedColumn,
    Mask,
    column_from_arrow,
    null_column,
)
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duck import Cursor, table

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]

_MOST_CAST = 64  # more parameters than this that no rule covers are left to the native INSERT


def columns_of(
    rows: LiteralRows, types: Sequence[ColumnType], parameters: Parameters, cursor: Cursor | None
) -> tuple[Column, ...] | None:
    """The columns of an `Insert` statement.

    Args:
        rows: the statement's cells.
        types: the type of each column named (or of all the table's columns).
        parameters: values of ? and $1 (a sequence) or $name (a mapping); empty if there are none.
        cursor: the session's cursor (its time zone counts), outside any unread result and any
            transaction, which a failing cast would abort; None if it has one open.

    Returns:
        One column a type, `rows.count` long; or None: the native INSERT must run (or fail).
    """
    if len(types) != len(rows.cells) or len(parameters) != len(rows.parameters):
        return None
    named = any(isinstance(name, str) for name in rows.parameters)
    if parameters and isinstance(parameters, Mapping) != named:
        return None
    try:
        given = [_given(rows, i, parameters) for i in range(len(types))]
    except (IndexError, KeyError):
        return None
    return _columns(given, types, rows.count, cursor)


def python_column(values: list[Any], type: ColumnType) -> Column | None:
    """Python values as a column, None where no rule covers them."""
    return _by_rule(_python(values), type, len(values))


class _Given:
    """One column before its cast: the non-NULL values, and where they stand."""

    __slots__ = ("kind", "valid", "values")

    def __init__(self, kind: str, values: Sequence[Any], valid: Mask | None) -> None:
        self.kind = kind  # "text", "number", "boolean", "DATE", "TIMESTAMP", "python", "null"
        self.values = values
        self.valid = valid


def _given(rows: LiteralRows, column: int, parameters: Parameters) -> _Given | None:
    sources = rows.column_parameters[column]
    if sources is None:
        return _literals(rows, column)
    return _python([parameters[p] for p in sources])  # type: ignore[index]


def _columns(
    given: Sequence[_Given | None], types: Sequence[ColumnType], count: int, cursor: Cursor | None
) -> tuple[Column, ...] | None:
    """Cast each column by a rule, the rest together by DuckDB."""
    columns: list[Column | None] = []
    for one, type in zip(given, types, strict=True):
        if one is None:
            return None
        columns.append(_by_rule(one, type, count))
    rest = {i: one for i, one in enumerate(given) if columns[i] is None and one is not None}
    if rest:
        cast = _by_duckdb(rest, types, count, cursor)
        if cast is None:
            return None
        for i, column in cast.items():
            columns[i] = column
    return tuple([c for c in columns if c is not None])


def _by_rule(given: _Given, type: ColumnType, count: int) -> Column | None:
    if given.kind == "null":
        return null_column(type, count)
    rule = RULES.get((given.kind, type.base))
    if rule is None:
        return None
    dense = rule(given.values, type)
    if dense is None or given.valid is None:
        return dense
    return _spread(dense, given.valid)


def _spread(dense: Column, valid: Mask) -> Column:
    """The dense values at the valid rows, NULL elsewhere."""
    if isinstance(dense, FixedColumn):
        values = np.zeros(len(valid), dense.values.dtype)
        values[valid] = dense.values
        return FixedColumn(values, valid)
    return ArrowColumn(_spread_array(dense.array, valid))


def _spread_array(dense: pa.Array, valid: Mask) -> pa.Array:
    return dense.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


# --- what a column of cells is ---


def _literals(rows: LiteralRows, column: int) -> _Given | None:
    """The column's cells as values of one kind; None if it mixes kinds."""
    cells, start, valid = rows.cells[column], rows.starts[column], None
    if "" in start:
        start = start - {""}
        if not start:
            return _Given("null", (), None)
        valid = np.fromiter(map(bool, cells), np.bool_, len(cells))
        cells = tuple(filter(None, cells))
    if start == {"'"}:
        return _Given("text", _unquoted(cells), valid)
    if start <= _NUMBER_STARTS:
        return _Given("number", cells, valid)
    words = list(map(str.upper, cells)) if start <= frozenset("tTfF") else [""]
    if {"TRUE", "FALSE"}.issuperset(words):
        return _Given("boolean", list(map(operator.eq, words, itertools.repeat("TRUE"))), valid)
    return _typed(cells, valid) if start <= frozenset("dDtT") else None


_NUMBER_STARTS = frozenset("0123456789-.")
_inside = operator.itemgetter(slice(1, -1))


def _unquoted(cells: Sequence[str]) -> Sequence[str]:
    texts = list(map(_inside, cells))
    if any(map(operator.contains, texts, itertools.repeat("'"))):
        return list(map(str.replace, texts, itertools.repeat("''"), itertools.repeat("'")))
    return texts


def _typed(cells: Sequence[str], valid: Mask | None) -> _Given | None:
    """Cells like DATE '2020-01-01', all of one type."""
    parts = [cell.split("'", 1) for cell in cells]
    names = {part[0].strip().upper() for part in parts}
    if names != {"DATE"} and names != {"TIMESTAMP"}:
        return None
    return _Given(names.pop(), [part[1][:-1] for part in parts], valid)


def _python(values: list[Any]) -> _Given:
    """Values of one Python type (and None), or of several ("python mixed")."""
    kinds = set(map(type, values))
    valid = None
    if kinds <= {NoneType}:
        return _Given("null", (), None)
    if NoneType in kinds:
        kinds.discard(NoneType)
        present = map(operator.is_not, values, itertools.repeat(None))
        valid = np.fromiter(present, np.bool_, len(values))
        values = list(itertools.compress(values, valid))
    if len(kinds) > 1:
        return _Given("python mixed", values, valid)
    return _Given(f"python {kinds.pop().__name__}", values, valid)


# --- Arrow's forms, and DuckDB's cast ---


def _by_arrow(given: _Given, type: ColumnType) -> Column | None:
    """The column, where the cast from the values' Arrow form is known."""
    if not given.kind.startswith("python"):
        array = _literal_array(given, type)
    elif len(parts_of(given.values, type)) == 1:
        array = arrow_form(given.values, type, as_strings=False)
    else:
        return None
    dense = None if array is None else column_of(array, type)
    return dense if dense is None or given.valid is None else _spread(dense, given.valid)


def _by_duckdb(
    given: Mapping[int, _Given],
    types: Sequence[ColumnType],
    count: int,
    cursor: Cursor | None,
) -> dict[int, Column] | None:
    """Columns that no rule covers, cast by one statement; None where DuckDB refuses or is busy."""
    columns: dict[int, Column] = {}
    for i, one in given.items():
        column = _by_arrow(one, types[i])
        if column is not None:
            columns[i] = column
    given = {i: one for i, one in given.items() if i not in columns}
    if cursor is None:
        return None if given else columns
    literal = {i: one for i, one in given.items() if not one.kind.startswith("python")}
    try:
        if literal:
            columns |= _cast_literals(literal, types, count, cursor) or {}
        for i, one in given.items():
            if i not in literal:
                columns |= _cast_parameters(i, one, types[i], cursor) or {}
    except (duckdb.Error, UnicodeDecodeError):  # DuckDB's fault `undecodable_messages`
        return None
    return columns if columns.keys() >= given.keys() else None


def _cast_literals(
    given: Mapping[int, _Given], types: Sequence[ColumnType], count: int, cursor: Cursor
) -> dict[int, Column] | None:
    arrays = {f"v{i}": _literal_array(one, types[i]) for i, one in given.items()}
    if any(array is None for array in arrays.values()):
        return None
    spread = [
        array if one.valid is None else _spread_array(array, one.valid)
        for array, one in zip(arrays.values(), given.values(), strict=True)
    ]
    cursor.register("ivm_cells", pa.table(dict(zip(arrays, spread, strict=True))))
    try:
        casts = ", ".join(f"CAST(v{i} AS {types[i].sql})" for i in given)
        cast = table(cursor, f"SELECT {casts} FROM ivm_cells")
    finally:
        cursor.unregister("ivm_cells")
    return {i: column_from_arrow(cast.column(n), types[i]) for n, i in enumerate(given)}


def _literal_array(given: _Given, type: ColumnType) -> pa.Array | None:
    """The cells in an Arrow type whose DuckDB cast is that of the literals, or None."""
    if given.kind == "text":
        return pa.array(given.values, pa.large_string())
    if given.kind == "boolean":
        return pa.array(given.values, pa.bool_())
    if given.kind != "number" or not _numeric(type):
        return None
    text = joined(given.values).upper()
    if "E" in text:
        return None
    try:
        if "." not in text:
            return pa.array(given.values, pa.string()).cast(pa.int64())
        if type.sql == "VARCHAR":
            return None  # each literal shows its own scale
        return pa.array(given.values, pa.string()).cast(pa.decimal128(38, _scale(given.values)))
    except pa.ArrowInvalid:
        return None


def _numeric(type: ColumnType) -> bool:
    """Types for which the width of an integer does not show (it does as BIT)."""
    return type.is_integer or type.is_float or type.is_decimal or type.sql in ("BOOLEAN", "VARCHAR")


def _scale(cells: Sequence[str]) -> int:
    """The most digits any cell has after its point."""
    tails = map(operator.itemgetter(2), map(str.partition, cells, itertools.repeat(".")))
    return max(map(len, tails))


def _cast_parameters(
    column: int, given: _Given, type: ColumnType, cursor: Cursor
) -> dict[int, Column] | None:
    """Parameters bound as the INSERT would bind them, each cast to the type."""
    if len(given.values) > _MOST_CAST:
        return None
    cells = ", ".join([f"(CAST(? AS {type.sql}))"] * len(given.values))
    cast = table(cursor, f"VALUES {cells}", list(given.values))
    dense = column_from_arrow(cast.column(0), type)
    return {column: dense if given.valid is None else _spread(dense, given.valid)}

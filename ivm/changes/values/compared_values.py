"""Values with which a WHERE clause compares a column, as a column of its type.

Law: a stored value is equal to one of these exactly where DuckDB's comparison with the literal or
parameter is true. So a value is taken only if it is of the column's own kind (an integer for a
DECIMAL, a date for a DATE, but no number for a VARCHAR and no string for a number) and converted
exactly; otherwise DuckDB, which may convert the column instead, must run the statement.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from ivm.ingest.literal_columns import Parameters, columns_of
from ivm.ingest.not_fast import NotFastError
from ivm.ingest.values.python_values import python_column
from ivm.sql.statements.nodes.values_list import LiteralRows
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType

_NUMBERS = {  # how literals are written that are exact in a type
    "INTEGER": re.compile(r"-?[0-9]+"),
    "DECIMAL": re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"),
    "DOUBLE": re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:E[-+]?[0-9]+)?", re.I),
}
_PARAMETERS: Mapping[str, tuple[type, ...]] = {
    "BLOB": (bytes,),
    "BOOLEAN": (bool,),
    "DATE": (date, str),
    "DECIMAL": (int, Decimal),
    "DOUBLE": (float,),
    "INTEGER": (int,),
    "TIMESTAMP": (datetime, str),
    "UUID": (UUID, str),
    "VARCHAR": (str,),
}
_OTHER_KIND = "a key is compared with a value of another kind, which only DuckDB converts"
_IN_STRINGS = frozenset(("DATE", "TIMESTAMP", "UUID", "VARCHAR"))
_WORDS = frozenset(("TRUE", "FALSE"))


def compared_values(values: LiteralRows, type: ColumnType, parameters: Parameters) -> Column:
    """The values that are not NULL, which equals nothing.

    Args:
        values: one column of literals or parameters.
        type: of the column that is compared.
        parameters: of the statement.

    Raises:
        NotFastError: DuckDB must compare them.
    """
    kind = "INTEGER" if type.is_integer else type.base
    sources = values.column_parameters[0]
    if kind not in _PARAMETERS:
        raise NotFastError(_OTHER_KIND)
    if sources is None:
        fits = all(_literal_fits(cell, kind, type) for cell in values.cells[0])
    else:
        fits = all(_parameter_fits(parameters, source, kind, type) for source in sources)
    if not fits:
        raise NotFastError(_OTHER_KIND)
    (column,) = columns_of(values, [type], parameters, None)
    return column if column.valid is None else column.filter(column.valid)


def compared_parameters(values: Sequence[Any], type: ColumnType) -> Column:
    """Values of parameters with which a column is compared, none of them NULL.

    Raises:
        NotFastError: DuckDB must compare them, or one is NULL.
    """
    known = _PARAMETERS.get("INTEGER" if type.is_integer else type.base, ())
    fits = {*map(builtins.type, values)} <= {*known}
    column = python_column(values, type) if fits else None
    if column is None:
        raise NotFastError(_OTHER_KIND)
    return column


def _literal_fits(cell: str, kind: str, type: ColumnType) -> bool:
    if not cell:
        return True  # NULL
    if kind == "DECIMAL" and len(cell.partition(".")[2]) > type.scale:
        return False  # it would be rounded
    if kind in _NUMBERS:
        return _NUMBERS[kind].fullmatch(cell) is not None
    if kind == "BOOLEAN":
        return cell.upper() in _WORDS
    return kind in _IN_STRINGS and (cell[0] == "'" or cell[: len(kind)].upper() == kind)


def _parameter_fits(parameters: Parameters, source: int | str, kind: str, type: ColumnType) -> bool:
    try:
        value: Any = parameters[source]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return False
    given = builtins.type(value)
    if given is Decimal:
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int) or -exponent > type.scale:
            return False  # it would be rounded
    return given is NoneType or given in _PARAMETERS[kind]

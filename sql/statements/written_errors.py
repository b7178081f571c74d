"""Errors of statements that are spelled otherwise, at the places where their users wrote."""

from __future__ import annotations

import re
from typing import TypeVar

from ivm.sql.statements.nodes.nodes import Statement
from ivm.sql.statements.own.windows import NOTHING
from ivm.storage.errors import IvmError, SqlError, UnsupportedError
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql

E = TypeVar("E", bound=IvmError)

_SUMMED = re.compile(r"\+\((.*), INTERVAL\)['\"]")
_NO_TIMESTAMP = (
    "the time of windows, and an origin, is a TIMESTAMP, TIMESTAMPTZ or DATE, not {}: cast it, a "
    "parameter as ?::TIMESTAMP"
)
_EMPTY = (
    "windows of time need a relation with further columns than window_start and window_end: give "
    "the time another name"
)


def as_written(statement: Statement, error: E) -> E:
    """The error, which is changed, with its position in the user's script.

    Of windows of time it loses DuckDB's excerpt, which shows what no user wrote.
    """
    if statement.respelled is None:
        return error
    if isinstance(error, SqlError | UnsupportedError) and error.position is not None:
        error.position = statement.written(error.position)
    if statement.respelled.spelling.of is not None:
        error.args = (_of_windows(str(error)),)
    return error


def _of_windows(message: str) -> str:
    summed = _SUMMED.search(message)
    if summed is not None and NOTHING in message:
        return _NO_TIMESTAMP.format(summed[1])
    return _EMPTY if "empty set of columns" in message else of_our_sql(message)

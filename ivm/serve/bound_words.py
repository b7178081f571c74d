"""Which words for the user are none of a column's name, by DuckDB's binder.

It takes nothing but a constant for the name of a variable: a column there is an error, which tells
the line. So each word gets a line of its own, within a call of `getvariable`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

from ivm.serve.asked_words import Place, bound_part, marked, valued, written
from ivm.session.session import Session
from ivm.sql.statements.tokens import kept_tokens, without_parameters
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.duck import Cursor, lenient, run
from ivm.storage.warehouse.duckdb_errors import translated

_CONSTANT = re.compile(r"must be a constant expression\s+LINE (\d+):")
_ITSELF = "cannot be referenced before it is defined"


def not_columns(session: Session, text: str, shown: Sequence[Place]) -> Sequence[Place]:
    """Those of the places that are no columns; calls of functions are none.

    Where DuckDB cannot bind what a statement has, `user` is taken for a column.

    Raises:
        UnsupportedError: it cannot be decided.
    """
    begin = bound_part(kept_tokens(text))
    left = [place for place in shown if place.may_be_column]
    if not left or begin is None:
        return [place for place in shown if place.name != "user" or not place.may_be_column]
    calls = [(place, valued(place, "")) for place in shown if not place.may_be_column]
    while left:
        marks = [(place, marked(text, place)) for place in left]
        error = _binding_error(session, written(text, sorted([*calls, *marks]))[begin:])
        if error is None:
            break
        lines = [text[begin : place.start].count("\n") + i + 2 for i, place in enumerate(left)]
        column = _CONSTANT.search(error)
        if column is None or int(column[1]) not in lines:
            left = _one_by_one(session, text, begin, calls, left)
            break
        del left[lines.index(int(column[1]))]
    return [place for place in shown if place in left or not place.may_be_column]


def _one_by_one(
    session: Session,
    text: str,
    begin: int,
    calls: Sequence[tuple[Place, str]],
    left: Sequence[Place],
) -> list[Place]:
    """Those of the places that are no columns, where another place needs the name of one.

    Raises:
        UnsupportedError: it cannot be decided.
    """
    if _binding_error(session, written(text, calls)[begin:]) is not None:
        return [*left]  # it is in error anyway
    found = []
    for place in left:
        mark = place, marked(text, place, named=True)
        error = _binding_error(session, written(text, sorted([*calls, mark]))[begin:])
        if error is None or _ITSELF in error:  # the name means nothing but this very column
            found.append(place)
        elif _CONSTANT.search(error) is None:
            raise UnsupportedError(
                f"whether {place.name} is a column here cannot be told: write the value itself, "
                "or the column with its table"
            )
    return found


def _binding_error(session: Session, text: str) -> str | None:
    """Why DuckDB cannot bind a statement, which is not run; None if it can."""
    session.release()
    try:
        with lenient(session.cursor):
            return _prepare_error(session.cursor, text)
    except duckdb.Error as error:
        raise translated(error) from error


def _prepare_error(cursor: Cursor, text: str) -> str | None:
    try:
        run(cursor, f"PREPARE _ivm_bound AS {text}")
        run(cursor, "DEALLOCATE _ivm_bound")
    except duckdb.Error as error:
        if _CONSTANT.search(str(error)):
            return str(error)
    else:
        return None
    try:  # MERGE cannot be prepared, and some parameters need a type
        run(cursor, f"EXPLAIN {without_parameters(text)}")
    except duckdb.Error as error:
        return str(error)
    return None

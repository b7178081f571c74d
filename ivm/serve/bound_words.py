"""Which words for the user are none of a column's name, by DuckDB's binder.

It takes nothing but a constant for the name of a variable: a column there is an error, which tells
the line. So each word gets a line of its own, within a call of `getvariable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

import duckdb

from ivm.serve.asked_words import Place, bound_part, marked, valued, written
from ivm.session.session import Session
from ivm.sql.statements.text.tokens import kept_tokens, without_parameters
from ivm.storage.errors import UnsupportedError
from ivm.storage.interrupts import check
from ivm.storage.warehouse.duckdb.duck import Cursor, lenient, run
from ivm.storage.warehouse.duckdb.duckdb_errors import translated

_CONSTANT = re.compile(r"must be a constant expression\s+LINE (\d+):")
_ITSELF = "cannot be referenced before it is defined"


def not_columns(session: Session, text: str, shown: Sequence[Place]) -> Sequence[Place] | None:
    """Those of the places that are no columns; calls of functions are none.

    Where a statement has no part that DuckDB binds alone, `user` is taken for a column.

    Returns:
        None if the statement is in error.

    Raises:
        IvmError: DuckDB cannot bind the statement without the values of its parameters.
        UnsupportedError: it cannot be decided.
    """
    begin = bound_part(kept_tokens(text))
    left = [place for place in shown if place.may_be_column]
    if not left or begin is None:
        return [place for place in shown if place.name != "user" or not place.may_be_column]
    calls = [(place, valued(place, "")) for place in shown if not place.may_be_column]
    while left:
        check()
        marks = [(place, marked(text, place)) for place in left]
        error = binding_error(session, written(text, [*calls, *marks])[begin:])
        if error is None:
            break
        lines = _lines(text, begin, left)
        column = _CONSTANT.search(str(error))
        if column is None or int(column[1]) not in lines:
            found = _one_by_one(session, text, begin, calls, left)
            if found is None:
                return None
            left = found
            break
        del left[lines.index(int(column[1]))]
    return [place for place in shown if place in left or not place.may_be_column]


def _lines(text: str, begin: int, shown: Sequence[Place]) -> list[int]:
    """The lines of places, each of which was put on one of its own, in a part of a text."""
    starts = [begin, *[place.start for place in shown]]
    counts = accumulate(text.count("\n", *each) for each in pairwise(starts))
    return [count + i for i, count in enumerate(counts, 2)]


def _one_by_one(
    session: Session,
    text: str,
    begin: int,
    calls: Sequence[tuple[Place, str]],
    left: Sequence[Place],
) -> list[Place] | None:
    """Those of the places that are no columns, where another place needs the name of one.

    See `not_columns`.
    """

    values = {place: valued(place, "") for place in left}
    others: dict[Place, str] = {}  # what stands at the places beside the one that is asked about

    def error_of(given: Mapping[Place, str]) -> str:
        check()
        parts = [*calls, *{**others, **given}.items()]
        return str(binding_error(session, written(text, parts)[begin:]) or "")

    if error_of({}):
        anyway = binding_error(session, written(text, [*calls, *values.items()])[begin:])
        if anyway is None:
            others = values  # a word does not bind, where a value does
        elif without_parameters(text) == text:
            return None
        else:
            raise translated(anyway) from anyway  # or it might run with other words than these
    return [place for place in left if _is_value(place, error_of, text, values[place])]


def _is_value(
    place: Place, error_of: Callable[[Mapping[Place, str]], str], text: str, value: str
) -> bool:
    """Returns whether a place is no column, by what keeps DuckDB from binding it.

    Raises:
        UnsupportedError: it cannot be decided.
    """
    error = error_of({place: marked(text, place, named=True)})
    if not error or _ITSELF in error:  # the name means nothing but this very column
        return True
    if _CONSTANT.search(error) is not None:
        return False
    word, constant = error_of({place: text[place.start : place.end]}), error_of({place: value})
    if bool(word) == bool(constant):
        raise UnsupportedError(
            f"whether {place.name} is a column here cannot be told: write the value itself, "
            "or the column with its table"
        )
    return bool(word)


def binding_error(session: Session, text: str) -> duckdb.Error | None:
    """Why DuckDB cannot bind a statement, which is not run; None if it can."""
    session.release()
    try:
        with lenient(session.cursor):
            return _prepare_error(session.cursor, text)
    except duckdb.Error as error:
        raise translated(error) from error


def _prepare_error(cursor: Cursor, text: str) -> duckdb.Error | None:
    try:
        run(cursor, f"PREPARE _ivm_bound AS {text}")
        run(cursor, "DEALLOCATE _ivm_bound")
    except duckdb.Error as error:
        if _CONSTANT.search(str(error)):
            return error
    else:
        return None
    try:  # MERGE cannot be prepared, and some parameters need a type
        run(cursor, f"EXPLAIN {without_parameters(text)}")
    except duckdb.Error as error:
        return error
    return None

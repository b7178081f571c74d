"""Tries a rewritten statement without aborting the transaction, and corrects DuckDB's errors.

DuckDB 2.0 aborts a transaction at any error, a misspelt column included, unless a setting makes
errors of parser and binder harmless. A rewritten statement may fail to bind where the user's own
text does not, so the setting is on while it is tried; such an error is raised before the statement
has changed anything.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import duckdb

from ivm.capture.result import Captured
from ivm.storage.warehouse.duckdb.duck import Cursor, run

_POLICY = "SET current_transaction_invalidation_policy = "
SYNTACTIC = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)


class Trial:
    """A rewritten statement: its errors of parser and binder are harmless until `commit`."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.committed = False
        run(cursor, f"{_POLICY}'SYNTACTIC_ERRORS_DO_NOT_INVALIDATE'")

    def commit(self) -> None:
        """Makes errors abort the transaction again: the next statement changes the table."""
        self.committed = True
        run(self._cursor, f"{_POLICY}'STANDARD_POLICY'")


def attempt(cursor: Cursor, rewritten: Callable[[Trial], Captured | None]) -> Captured | None:
    """Runs a rewritten change; None, with nothing changed, if there is none or it does not bind."""
    trial = Trial(cursor)
    try:
        return rewritten(trial)
    except SYNTACTIC:
        if trial.committed:
            raise
        return None
    finally:
        if not trial.committed:
            with contextlib.suppress(duckdb.TransactionException):  # aborted, as the setting
                trial.commit()


def require_binding(cursor: Cursor, sql: str, params: Any) -> None:
    """Has DuckDB plan a statement.

    Raises:
        duckdb.Error: the statement does not bind; the transaction is aborted, unless a `Trial` of
            it goes on.
    """
    run(cursor, f"EXPLAIN {sql}", params)


_EXPLAIN = re.compile(r"^(LINE 1: )EXPLAIN (.*)\n {8}(.*)", re.MULTILINE)
_OURS = re.compile(r'(?:,| RETURNING) "(?:[^"]|"")*" AS __ivm_row_0.*')


def without_our_sql(error: duckdb.Error, text: str) -> duckdb.Error:
    """The error without the parts of its quoted line that are not the user's.

    Args:
        error: of a statement made of the user's.
        text: the user's statement.
    """
    message = _OURS.sub("", _EXPLAIN.sub(r"\1\2\n\3", str(error)))
    told, _, excerpt = message.partition("\n\nLINE ")
    line = excerpt.partition(": ")[2].partition("\n")[0]
    if line.removeprefix("...").removesuffix("...") not in text:
        message = told
    return error if message == str(error) else type(error)(message)

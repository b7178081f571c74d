"""Asks DuckDB whether a statement binds, without harm to the transaction, and words its errors.

Law: DuckDB 2.0 aborts a transaction at any error, a misspelt column included, unless told that
errors of parser and binder are harmless; they are told so here, and only for the question.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb

from ivm.capture_clauses import Clauses
from ivm.storage.duck import Cursor, run

_POLICY = "SET current_transaction_invalidation_policy = "
_SYNTACTIC = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)


def require_binding(cursor: Cursor, sql: str, params: Any) -> None:
    """Let DuckDB plan the user's own statement: its errors speak of the user's text.

    Raises:
        duckdb.Error: the statement does not bind; the transaction is aborted.
    """
    run(cursor, f"EXPLAIN {sql}", params)


_EXPLAIN = re.compile(r"^(LINE 1: )EXPLAIN (.*)\n {8}(.*)", re.MULTILINE)
_OURS = re.compile(r'(?:,| RETURNING) "(?:[^"]|"")*" AS __ivm_row_0.*')


def in_users_words(error: duckdb.Error) -> duckdb.Error:
    """The error without the parts of its quoted line that the user did not write."""
    message = _OURS.sub("", _EXPLAIN.sub(r"\1\2\n\3", str(error)))
    if "__ivm" in message:
        message = message.split("\n\nLINE ")[0]
    return error if message == str(error) else type(error)(message)


def binds(cursor: Cursor, clauses: Clauses, sql: str) -> bool:
    """Whether a statement made of a user's clauses binds."""
    run(cursor, f"{_POLICY}'SYNTACTIC_ERRORS_DO_NOT_INVALIDATE'")
    try:
        run(cursor, f"EXPLAIN {sql}", clauses.params(sql))
    except _SYNTACTIC:
        return False
    finally:
        run(cursor, f"{_POLICY}'STANDARD_POLICY'")
    return True

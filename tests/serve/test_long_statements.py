"""Long statements of any user are looked through in time that grows as they do.

A server whose threads look at one statement for hours answers nobody; no time limit ends them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import ivm
from ivm.serve.from_clauses import sources
from ivm.serve.pg.catalog.catalog_rewrite import rewritten
from ivm.serve.pg.catalog.catalog_words import asks_catalog
from ivm.serve.session_values import SessionValues, with_values
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import kept_tokens

SECONDS = 3.0  # of the processor; looked at once for each word each would take many times as long


def _with_values(text: str) -> None:
    with ivm.connect() as database:
        database.execute("CREATE TABLE notes (owner VARCHAR)")
        [statement] = st.parse(text)

        def work(session: Session) -> st.Statement:
            return with_values(session, statement, SessionValues("bob"))

        assert "user" not in database._with_session(work).text


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (_with_values, "SELECT 1 FROM notes WHERE owner IN (" + "user, " * 3000 + "'ann')"),
        (asks_catalog, "SELECT pg_x, " + "a(a, " * 8000),
        (lambda text: list(sources(kept_tokens(text))), "(SELECT 1" + " FROM t UNION" * 8000),
        (rewritten, "WITH " + "a AS (SELECT 1), " * 3000 + "b AS (SELECT 1) FROM pg_class"),
    ],
)
def test_long_statements(look: Callable[[str], Any], text: str) -> None:
    began = time.process_time()
    look(text)
    assert time.process_time() - began < SECONDS

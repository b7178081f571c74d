"""Statements that read broken views are refused, with the reason.

Contract: a statement whose rows depend on a broken view is refused, whether it names the view or
reads it through plain views and macros. What merely shares words with the view's name is not, as
far as DuckDB's plan or its list of names tells; else the words decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ivm.catalog.broken_views import broken_error, broken_views
from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.views.view_reads import mentions, views_and_macros, words_with_definitions
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import without_parameters
from ivm.storage.identifiers import canonical_name, path_of, words_in
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_SHOWING = {"describe", "desc", "show", "explain", "export"}
"""Kinds of queries that show no rows of a view; an export holds its last rows and the mark."""
_COPYING = {"copy database"}
_READING = {"from", "pivot", "unpivot", "pivot_wider", "pivot_longer", "summarize"}
"""Without one of these words, DDL (ALTER, SET, PRAGMA, …) reads no table."""
_TRIGGERS = "SELECT sql FROM system.main.duckdb_triggers()"


def refuse_broken(
    engine: Engine,
    views: Mapping[str, View],
    cursor: Cursor,
    statement: st.Statement,
    text: str,
    found: Collection[str],
) -> None:
    """Refuses a statement that reads a broken view.

    Args:
        engine: the database's engine.
        views: as the session sees them.
        cursor: sees what the statement's names mean.
        statement: the statement.
        text: the part of it that reads.
        found: all relations that it reads, and perhaps others.

    Raises:
        EvaluationError: it reads one.
    """
    if isinstance(statement, st.Query) and statement.kind in _SHOWING:
        return
    if isinstance(statement, st.Ddl) and statement.action in _COPYING:
        return
    for name, to_blame in broken_views(views).items():
        if name in found and _reads(engine, cursor, statement, text, name):
            raise broken_error(name, to_blame)


def _reads(engine: Engine, cursor: Cursor, statement: st.Statement, text: str, name: str) -> bool:
    """Returns whether a statement reads a view."""
    found, last = mentions(cursor, without_parameters(text)), path_of(name)[-1]
    if found.paths is not None:
        own = [canonical_name(path) for db, *path in found.paths if db == engine.catalog.database]
        return name in own
    if isinstance(statement, st.Dml) and engine.definitions.relations.triggers():
        bodies = " ".join([body for (body,) in rows(cursor, _TRIGGERS)])
        words = words_with_definitions(bodies, views_and_macros(cursor))
        if words.issuperset(words_in(last)):
            return True
    shows = isinstance(statement, st.Ddl) and found.names is None
    return found.may_be(last) and not (shows and found.words.isdisjoint(_READING))

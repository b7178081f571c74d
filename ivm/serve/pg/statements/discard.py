"""DISCARD: what a session has made for itself alone is dropped before its next user comes.

Law: nothing temporary is left, so nothing of one client of a pool is seen by the next, or hides the
database's own from it. What the database keeps in the session for itself stays.
"""

from __future__ import annotations

from ivm.dispatch import run_statement
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import rows

_TEMPORARY = """
SELECT kind, name FROM (
SELECT 1 AS turn, 'VIEW' AS kind, view_name AS name, view_oid AS oid
FROM system.main.duckdb_views() WHERE temporary AND NOT internal
UNION ALL SELECT 2, if(function_type = 'macro', 'MACRO', 'MACRO TABLE'), function_name, 0
FROM system.main.duckdb_functions() WHERE database_name = 'temp' AND NOT internal
UNION ALL SELECT 3, 'TABLE', table_name, table_oid
FROM system.main.duckdb_tables() WHERE temporary AND NOT internal
UNION ALL SELECT 4, 'SEQUENCE', sequence_name, 0
FROM system.main.duckdb_sequences() WHERE temporary
UNION ALL SELECT 5, 'TYPE', type_name, type_oid
FROM system.main.duckdb_types() WHERE database_name = 'temp' AND NOT internal)
WHERE NOT starts_with(name, '_ivm_')
GROUP BY turn, kind, name ORDER BY turn, max(oid) DESC"""
# The youngest first: a foreign key refers to an older table, and a type is made of older ones.
_VARIABLES = "SELECT name FROM system.main.duckdb_variables()"


def discard_temporary(session: Session) -> None:
    """Drops all that is temporary in a session."""
    session.release()
    for kind, name in rows(session.cursor, _TEMPORARY):
        _run(session, f"DROP {kind} temp.main.{quote(name)}")


def discard_variables(session: Session) -> None:
    """Forgets what SET VARIABLE has set in a session."""
    session.release()
    for (name,) in rows(session.cursor, _VARIABLES):
        _run(session, f"RESET VARIABLE {quote(name)}")


def _run(session: Session, text: str) -> None:
    for statement in st.parse(text):
        run_statement(session, statement, None)

"""COPY FROM DATABASE of the opened database gives a database of its own, which needs no log.

Contract: the copy has the tables and views of one epoch, and opens as one that was closed then.
"""

from __future__ import annotations

from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import Reader, tokens
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.tables.system_tables import set_apart


def finish_copy(session: Session, statement: st.Ddl) -> None:
    """Makes our records in the copy those of a closed database, if they are copied from ours.

    Args:
        session: whose cursor has just copied, in a transaction.
        statement: `COPY FROM DATABASE source TO target`.
    """
    reader = Reader(tokens(statement.text))
    reader.expect("COPY", "FROM", "DATABASE")
    (source,) = reader.name()
    reader.expect("TO")
    (target,) = reader.name()
    if fold(source) == fold(session.engine.warehouse.database):
        set_apart(session.cursor, target)

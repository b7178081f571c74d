"""Statements in a READ ONLY transaction: they read, or they concern temporary things.

Contract: what would change the database is refused before anything of it is done, and reads none of
what writers change meanwhile.
"""

from __future__ import annotations

from ivm.engine.transactions.read_only_transaction import changes_nothing
from ivm.ingest.parameters import Params
from ivm.session import dml
from ivm.session.ddl import ddl
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st

_SHOWING = (st.ShowViews, st.ExplainView, st.ShowSources, st.ShowSinks, st.ShowUsers, st.Subscribe)
_PREPARED = (st.Prepare, st.Execute, st.Deallocate)  # what is executed comes by itself
_READING = (st.Query, st.Other, st.TransactionControl, *_SHOWING, *_PREPARED)


def demand_reading(session: Session, statement: st.Statement) -> None:
    """Refuses a statement that may change the database.

    Raises:
        UnavailableError: it may.
        UnsupportedError: it changes a view.
    """
    if isinstance(statement, _READING):
        return
    if isinstance(statement, st.Dml):
        info = dml.table_of(session, statement)
        if info is not None:
            raise changes_nothing(f"table {info.name!r} cannot be changed")
    elif not isinstance(statement, st.Ddl) or not ddl.is_of_session(session, statement):
        raise changes_nothing("this statement cannot be run")


def change_temporary(session: Session, statement: st.Dml, params: Params) -> Result:
    """Runs a change of a table that is not the database's; DuckDB refuses one of another's."""
    with session.writing(temporary=True) as transaction:
        return dml.run_in_duckdb(session, transaction, statement, None, params)

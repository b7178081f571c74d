"""The dispatch of statements to the functions that run them, by kind.

Invariant: every kind of statement is in `_RUN`. The functions use the session, which uses none of
them; those whose statement runs others (EXECUTE, IMPORT DATABASE) get `run_statement` passed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb

from ivm.access import users
from ivm.cdc import statements as source_statements
from ivm.cdc.sinks import statements as sink_statements
from ivm.changes import executemany as rounds
from ivm.changes import explain_change, inserts, keyed_changes, queried_changes
from ivm.changes.values.batches import Many
from ivm.ingest.parameters import Params
from ivm.session.ddl import ddl, history, read_only, retention, view_statements, watermarks
from ivm.session.ddl.import_database import import_database, is_import
from ivm.session.ddl.refresh import refresh
from ivm.session.queries import explain_read, prepared, query
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.written_errors import as_written
from ivm.storage.errors import (
    EvaluationError,
    InputError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)
from ivm.storage.interrupts import next_statement
from ivm.storage.warehouse.duckdb.duckdb_errors import translated


def execute(session: Session, sql: str, params: Params = None) -> Result:
    """Runs the statements of a script, and returns the result of the last one.

    Raises:
        IvmError: see the tree in `ivm.errors`.
    """
    statements = st.parse(sql)
    if params and len(statements) != 1:
        raise InputError(
            f"parameters go with one statement, not with {len(statements)}: "
            "execute the statements one by one"
        )
    result = Result("done")
    for statement in statements:
        result = run_statement(session, statement, params)
    return result


def executemany(session: Session, sql: str, rows: Many) -> Result:
    """Runs a statement with each row of parameters; see `Database.executemany`."""
    statements = st.parse(sql)
    if len(statements) != 1:
        raise InputError(f"executemany takes one statement, not {len(statements)}")
    return run_with_each(session, statements[0], rows)


def run_with_each(session: Session, statement: st.Statement, rows: Many) -> Result:
    """Runs one parsed statement with each row of parameters."""
    return rounds.run_with_each(session, statement, rows, run_statement)


def run_statement(session: Session, statement: st.Statement, params: Params) -> Result:
    """Runs one parsed statement."""
    next_statement()
    session.release()
    try:
        statement, params = session.pipes.copied(statement, params)
        if not isinstance(statement, st.Query):  # `query` shows them to a query
            session.scans.show(statement, params)
        if session.transaction is not None and session.transaction.reads_only:
            read_only.demand_reading(session, statement)
            if isinstance(statement, st.Dml):
                return read_only.change_temporary(session, statement, params)
        if not isinstance(statement, st.Dml):
            return _RUN[type(statement)](session, statement, params)
        with session.buried.of(statement) as late:
            result = _RUN[type(statement)](session, statement, params)
        result.rowcount -= late.count
        return result
    except UnavailableError as error:
        if not isinstance(statement, st.CreateHistory | st.SetHistory):  # they say it themselves
            history.demand_named(session, str(error))
        raise
    except duckdb.Error as error:
        if isinstance(error, duckdb.IOException):
            history.demand_named(session, str(error))
        told = as_written(statement, translated(error, statement.offset))
        raise session.scans.naming_variable(told) from error
    except (SqlError, UnsupportedError, EvaluationError) as error:
        named = session.scans.naming_variable(as_written(statement, error))
        if named is error:
            raise
        raise named from error.__cause__
    finally:
        if isinstance(statement, st.Ddl):
            session.names.learn(statement)
        if isinstance(statement, st.Ddl | st.Other):
            session.local_time.forget()  # it may set the time zone
        session.end_inputs()


def _ddl(session: Session, statement: st.Ddl, params: Params) -> Result:
    if is_import(statement):
        return import_database(session, statement, run_statement)
    return ddl.ddl(session, statement, params)


def _execute(session: Session, statement: st.Execute, params: Params) -> Result:
    return prepared.execute(session, statement, params, run_statement)


def _query(session: Session, statement: st.Query, params: Params) -> Result:
    explained = statement.explained
    if explained is None:
        return query.query(session, statement, params)
    told = explain_change.explain if isinstance(explained, st.Dml) else explain_read.explain
    return told(session, statement, params)


def _transaction(session: Session, statement: st.TransactionControl, params: Params) -> Result:
    if statement.action == "begin":
        session.begin(read_only=statement.read_only)
    else:
        {"commit": session.commit, "rollback": session.rollback}[statement.action]()
    return Result("done")


def _subscribe(session: Session, statement: st.Subscribe, params: Params) -> Result:
    raise UnsupportedError(
        "SUBSCRIBE has no end, so it is no statement to execute: use db.subscribe(view) or "
        "db.tail(view) in Python; in the shell it runs until Ctrl-C"
    )


_RUN: dict[type[st.Statement], Callable[[Session, Any, Params], Result]] = {
    st.Insert: inserts.insert,
    st.KeyedChange: keyed_changes.change_by_key,
    st.Dml: queried_changes.change,
    st.Query: _query,
    st.Ddl: _ddl,
    st.Other: ddl.other,
    st.TransactionControl: _transaction,
    st.CreateHistory: history.create,
    st.SetHistory: history.set_history,
    st.SetRetention: retention.set_retention,
    st.SetWatermark: watermarks.set_watermark,
    st.AdvanceWatermark: watermarks.advance_watermark,
    st.CreateView: view_statements.create,
    st.DropView: view_statements.drop,
    st.ExplainView: view_statements.explain,
    st.VerifyView: view_statements.verify,
    st.RefreshView: refresh,
    st.ShowViews: view_statements.show,
    st.Subscribe: _subscribe,
    st.CreateSource: source_statements.create,
    st.ChangeSource: source_statements.change,
    st.ShowSources: source_statements.show,
    st.CreateSink: sink_statements.create,
    st.ChangeSink: sink_statements.change,
    st.ShowSinks: sink_statements.show,
    st.ChangeUser: users.change_user,
    st.ChangeToken: users.change_token,
    st.ShowUsers: users.show,
    st.Prepare: prepared.prepare,
    st.Execute: _execute,
    st.Deallocate: prepared.deallocate,
}

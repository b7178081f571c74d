"""Changes of rows that no literal names: a query gives them, and the fast path makes the change.

Contract: rows, count, errors and what RETURNING gives are those of DuckDB's own run. A query that
memory answers (`ivm.reads`) sees the open transaction. Any other is DuckDB's, which reads in a
transaction of its own, so the statement is left to it where it might see something else: what
the open transaction has changed, or the time at which that began. Every other doubt, every error
and very many rows are left to it too; until the change is made nothing has been changed.
"""

from __future__ import annotations

from ivm.changes import insert_select, joined_changes
from ivm.changes.fast_table import FastTable
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.session import dml
from ivm.session.bulk import can_load, load
from ivm.session.readable import READS_CHANGES
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.warehouse.tables.table_info import TableInfo


def change(session: Session, statement: st.Dml, params: Params) -> Result:
    """Runs a change that no key finds the rows of: by the fast path, or in DuckDB and captured."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        if statement.table is None:
            dml.refuse_hidden(session, statement.text)
        if info is not None:
            try:
                return fast(session, transaction, statement, info, params)
            except NotFastError:
                pass  # nothing is changed yet
        if info is not None and can_load(session, transaction, statement, info):
            return load(session, transaction, statement, info, params)
        return dml.run_in_duckdb(session, transaction, statement, info, params)


def fast(
    session: Session, transaction: Transaction, statement: st.Dml, info: TableInfo, params: Params
) -> Result:
    """Makes a change by the fast path; NotFastError if DuckDB must run the statement."""
    if info.history is not None:
        raise NotFastError("the table is not stored")
    demanded(transaction.idle_cursor, READS_CHANGES)
    path = demanded(transaction.fast_path(info.name), dml.NO_FAST_PATH)
    table = FastTable(session, transaction, path, info)
    if statement.kind in joined_changes.KINDS:
        return joined_changes.change_of_met_rows(table, statement, params)
    return insert_select.insert(table, statement, params)

"""Changes by SQL that DuckDB runs and that are captured; see `evaluated` for the other ways.

Contract: the views get exactly the rows that changed in the tables. Tables of other databases and
temporary ones are changed by DuckDB alone; materialized views cannot be changed directly. Names are
resolved while the writer lock is held: until then another session may change the catalog.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import duckdb

from ivm.capture.capture import Captured, capture
from ivm.capture.side_effects import written_names
from ivm.capture.unstored import Unstored, capture_unstored
from ivm.catalog.version import View
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold
from ivm.storage.interrupts import begin_statement
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.duckdb.duckdb_errors import translated
from ivm.storage.warehouse.tables.table_info import TableInfo

NO_FAST_PATH = "the table has no fast path in this transaction"


def run_in_duckdb(
    session: Session,
    transaction: Transaction,
    statement: st.Dml,
    info: TableInfo | None,
    params: Params,
) -> Result:
    """Runs a change in DuckDB, and adds its changes of base tables to the transaction.

    Args:
        session: its cursor runs the change.
        transaction: the session's.
        statement: the change.
        info: the changed table; None if it is not one of the database's base tables.
        params: the statement's parameters.
    """
    transaction.show(session.reads(statement))
    begin_statement()
    tables = session.engine.catalog.tables
    try:
        if info is not None and info.history is not None:
            return _run_unstored(session, transaction, statement, info, params)
        captured = capture(session.cursor, statement, info, params, tables)
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error
    for name, (removed, added) in captured.changes.items():
        every_column = tuple(range(len(tables[name].schema)))
        transaction.add_from_duckdb(TableChange(name, removed, every_column, added))
    return _result(captured, statement)


def _result(captured: Captured, statement: st.Dml) -> Result:
    if captured.returned is None:
        return Result.count(captured.count)
    count = captured.rows if statement.returning else -1
    return Result.of_table(captured.returned, captured.types, count)


def _run_unstored(
    session: Session, transaction: Transaction, statement: st.Dml, info: TableInfo, params: Params
) -> Result:
    """Runs a change of a table that is not stored; DuckDB only evaluates it."""
    path = transaction.fast_path(info.name)
    assert path is not None  # CREATE TABLE demands it
    index = functools.partial(transaction.index, info.name)
    unstored = Unstored(session.cursor, info, path, index)
    captured, change = capture_unstored(unstored, statement, params)
    transaction.add(change)
    return _result(captured, statement)


def table_of(session: Session, statement: st.Dml) -> TableInfo | None:
    """The base table that a statement changes; None if it is not one of the database's.

    Raises:
        UnsupportedError: it is a materialized view, or a table of schema _ivm.
    """
    if statement.table is None:
        return None
    refuse_own(statement.table)
    name = session.names.resolve(statement.table)
    if name is None:
        return None
    version = session.engine.catalog.version
    if (view := version.views.get(name)) is not None:
        refuse_view(view)
    return version.tables.get(name)


def refuse_hidden(session: Session, text: str) -> None:
    """Refuses a statement that changes a view inside another one (a CTE, a trigger's body).

    Raises:
        UnsupportedError: the text names a view after a keyword such as INSERT INTO.
    """
    views = session.engine.catalog.views
    for parts in written_names(text):
        refuse_own(parts)
        if (view := views.get(session.names.resolve(parts) or "")) is not None:
            refuse_view(view)


def refuse_own(parts: Sequence[str]) -> None:
    """Refuses to change a relation of schema _ivm, which holds our records.

    Raises:
        UnsupportedError: the name is in that schema.
    """
    if "_ivm" in map(fold, parts[:-1]):
        raise UnsupportedError(
            "the schema _ivm holds the database's own records: they can be read, not changed"
        )


def refuse_view(view: View) -> None:
    """Refuses to change a materialized view, whose rows follow from its tables.

    Raises:
        UnsupportedError: always.
    """
    tables = ", ".join(sorted(view.bases - view.time_relations)) or "none"
    raise UnsupportedError(
        f"{view.name!r} is a materialized view and cannot be changed directly: change its tables "
        f"({tables}), or drop it with DROP MATERIALIZED VIEW"
    )

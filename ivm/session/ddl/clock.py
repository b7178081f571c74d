"""The clock in a session: made with the first view that reads it, and moved by a call."""

from __future__ import annotations

from ivm.engine.opening.ticking import tick
from ivm.engine.transactions.transaction import Transaction
from ivm.session.session import Session
from ivm.sql.resolve.clock import CLOCK
from ivm.storage.errors import UnavailableError
from ivm.storage.warehouse.duckdb.duck import run
from ivm.storage.warehouse.tables.system_tables import CLOCK_TABLES


def make_clock(session: Session, transaction: Transaction) -> bool:
    """Makes the clock's table in the transaction, if there is none; returns whether it has."""
    if CLOCK in session.engine.catalog.tables:
        return False
    transaction.begin_in_duckdb()
    transaction.change_catalog()
    transaction.change_tables()
    for name, columns in CLOCK_TABLES.items():
        run(session.cursor, f"CREATE TABLE _ivm.{name} {columns}")
    session.engine.reload_tables(session.cursor)
    return True


def tick_now(session: Session) -> None:
    """Commits what is due; see `ivm.engine.opening.ticking.tick`.

    Raises:
        UnavailableError: the session has an open transaction, or another one does not end.
    """
    if session.transaction is not None:
        raise UnavailableError("the clock ticks outside of transactions: COMMIT or ROLLBACK first")
    engine = session.engine
    session.release()
    if not tick(engine, session.cursor, engine.writer_lock.wait_limit):
        raise UnavailableError(
            "another transaction is open: commit or roll it back, then try again"
        )

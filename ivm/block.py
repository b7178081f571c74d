"""The `with` block that is one transaction.

Contract: however the block is left, or if it cannot be entered, it leaves no transaction open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ivm.storage.interrupts import Deferral
from ivm.storage.warehouse.duckdb.duckdb_errors import Translating

if TYPE_CHECKING:
    from ivm.database import Database
    from ivm.engine.transactions.transaction import Transaction
    from ivm.session.session import Session


class TransactionBlock(contextlib.AbstractContextManager["Database"]):
    """One transaction of the thread's session.

    Args:
        database: the value of the `with` statement's target.
        with_session: calls a function with the thread's session.
    """

    def __init__(
        self,
        database: Database,
        with_session: Callable[[Callable[[Session], None]], None],
    ) -> None:
        self._database = database
        self._with_session = with_session
        self._session: Session | None = None
        self._before: Transaction | None = None

    def __enter__(self) -> Database:
        # No generator: interrupted at its `yield`, it would leave the transaction open.
        try:
            self._with_session(self._begin)
        except BaseException:
            self._undo()
            raise
        return self._database

    def _begin(self, session: Session) -> None:
        self._session, self._before = session, session.transaction
        session.begin()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._undo()
            return
        self._with_session(lambda session: session.commit())

    def _undo(self) -> None:
        session = self._session
        if session is not None and session.transaction not in (None, self._before):
            with Deferral(), Translating():
                session.rollback()

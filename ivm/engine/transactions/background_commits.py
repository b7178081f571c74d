"""Commits of the database's own accord: what the passing of time asks for.

Contract: such a commit waits for the writer lock for a limited time, and ends no transaction. A
view that fails on it is broken, as by a change of a stream: the time is a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ivm.engine.engine import Aside, Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.transactions.watermark_moves import Late
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.duckdb.duck import Cursor


def _nothing_is_temporary(queries: Iterable[tuple[str, str]]) -> None:
    """Does nothing: only committed views are recomputed."""


def commit_own(
    engine: Engine,
    cursor: Cursor,
    patience: float,
    due: Callable[[], Sequence[TableChange]],
    late: Late = "refused",
) -> bool:
    """Commits changes as one epoch.

    Args:
        engine: of the database.
        cursor: of the caller's own.
        patience: seconds to wait for the writer lock.
        due: gives the changes, under the lock.
        late: what becomes of their late rows.

    Returns:
        False if another transaction held the lock all that time.
    """
    if not engine.writer_lock.acquire_within(Aside(), patience):
        return False
    try:
        changes = due()
    except BaseException:
        engine.writer_lock.release()
        raise
    if not changes:
        engine.writer_lock.release()
        return True
    transaction = Transaction(engine, cursor, _nothing_is_temporary, owned=True)
    transaction.break_failing_views()
    try:
        for change in changes:
            transaction.add(change, late)
        transaction.commit()
    except BaseException:
        transaction.rollback()
        raise
    return True

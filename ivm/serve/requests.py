"""Requests that may be repeated: rows are written once for each key, also after a crash.

Law: the key is a row of `_ivm.requests`, written in the epoch of the request's rows. A key is kept
for a day, or until `KEPT` later ones have come; a key that comes with another request is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from ivm.engine.transactions.transaction import Transaction
from ivm.session.session import Session
from ivm.session.table_writer import FastWriter
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.warehouse.duckdb.duck import run
from ivm.storage.warehouse.tables.system_tables import REQUEST_TABLES

TABLE = "_ivm.requests"
KEPT = 100_000
_DAY = 86_400_000_000  # microseconds
_PRUNED_EVERY = 1000
_LENGTH = 255


def once(
    session: Session, user: str, key: str | None, digest: str, work: Callable[[], int]
) -> tuple[dict[str, Any], bool]:
    """Writes rows in a transaction of their own, unless a request with this key has done it.

    Args:
        session: without an open transaction.
        user: who asks; the keys of others are others.
        key: of the request; None if it is not to be repeated.
        digest: of the request.
        work: writes the rows; returns their number.

    Returns:
        The number of rows and their epoch, and whether they were written before.

    Raises:
        InputError: the key came with another request before.
    """
    if key is None:
        return _written(session, work, None, ""), False
    if not 0 < len(key) <= _LENGTH:
        raise InputError(f"an Idempotency-Key has 1 to {_LENGTH} characters")
    stored = json.dumps([user, key])
    _create(session)
    session.begin()
    try:
        assert session.transaction is not None
        with session.transaction as transaction:
            found = session.engine.small.find(TABLE, (stored,), transaction.changes)
    except BaseException:
        session.rollback()
        raise
    if found is None:
        return _written(session, work, stored, digest), False
    session.rollback()
    if found[2] != digest:
        raise InputError(
            f"the Idempotency-Key {key!r} came with another request before: each needs its own"
        )
    answer: dict[str, Any] = json.loads(found[3])
    return answer, True


def _written(
    session: Session, work: Callable[[], int], key: str | None, digest: str
) -> dict[str, Any]:
    if session.transaction is None:
        session.begin()
    try:
        count = work()
        # No other transaction commits until this one has.
        answer = {"rows": count, "epoch": session.engine.epoch + (count > 0 or key is not None)}
        if key is not None:
            assert session.transaction is not None
            with session.transaction as transaction:
                _note(session, transaction, key, digest, json.dumps(answer))
    except BaseException:
        if session.transaction is not None:
            session.rollback()
        raise
    session.commit()
    return answer


def _create(session: Session) -> None:
    """Creates the table of the keys, in an epoch of its own."""
    if TABLE in session.engine.catalog.tables:
        return
    with session.writing() as transaction:
        transaction.begin_in_duckdb()
        transaction.change_catalog()
        transaction.change_tables()
        for name, columns in REQUEST_TABLES.items():  # another thread may have been first
            run(session.cursor, f"CREATE TABLE IF NOT EXISTS _ivm.{name} {columns}")
        session.engine.reload_tables(session.cursor)


def _note(session: Session, transaction: Transaction, key: str, digest: str, answer: str) -> None:
    now = time.time_ns() // 1000
    row = {"key": [key], "micros": [now], "digest": [digest], "answer": [answer]}
    writer = _writer(transaction)
    writer.insert(*_columns(session, row))
    old = _old(session, now)
    if old:
        writer.delete(*_columns(session, {"key": old}))


def _old(session: Session, now: int) -> list[str]:
    """The keys that need not be kept any more; looked for now and then."""
    known = session.engine.small.rows(TABLE) or []
    if not known or len(known) % _PRUNED_EVERY:
        return []
    known.sort(key=lambda row: row[1])
    first = max(len(known) - KEPT, 0)
    return [row[0] for i, row in enumerate(known) if i < first or row[1] < now - _DAY]


def _writer(transaction: Transaction) -> FastWriter:
    path = transaction.fast_path(TABLE)
    if path is None:
        raise UnavailableError("rows cannot be written once in a transaction with DDL: COMMIT")
    return FastWriter(transaction, path)


def _columns(session: Session, rows: dict[str, Any]) -> Any:
    engine = session.engine
    return engine.definitions.reader(engine.catalog.tables[TABLE]).read(rows, session.cursor)

"""The removal of rows that are older than their tables keep them, batch by batch.

Contract: each batch is an epoch of its own, so no writer waits longer than a batch takes. It has as
many rows as have come since the batch before, or twice that, so that a busy table does not grow.
A row stays while a final view waits for a window that it is part of.
"""

from __future__ import annotations

from ivm.engine.engine import Aside, Engine
from ivm.engine.tables.retention import ExpiringRows, Rule
from ivm.engine.transactions.background_commits import commit_own
from ivm.engine.views.waited_rows import waited
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.duckdb.duck import Cursor

BATCH = 2_000
"""Rows removed in one epoch, at least."""


def expire(engine: Engine, cursor: Cursor, patience: float) -> bool:
    """Removes all rows that are too old now.

    Args:
        engine: of the database.
        cursor: of the caller's own.
        patience: seconds to wait for the writer lock, each time.

    Returns:
        False if another transaction held the lock all that time; the next call goes on.
    """
    rules = list(engine.retention.rules.values())
    done = [_expire(engine, cursor, patience, rule) for rule in rules]
    return all(done)


def _expire(engine: Engine, cursor: Cursor, patience: float, rule: Rule) -> bool:
    retention = engine.retention
    threshold = retention.threshold(rule, engine.clock.second(), cursor)
    while threshold is not None and retention.rules.get(rule.table) == rule:
        held = retention.held(rule)
        if held is None or (held.done and held.bound < threshold):
            if not _read_ahead(engine, patience, rule, threshold):
                return False
            continue
        held.catch_up()  # before the lock, as far as it goes
        if not _remove(engine, cursor, patience, rule, held, threshold):
            return False
        if held.waits:
            break
        if not held.complete:
            engine.writer_lock.give_way()
        elif held.bound >= threshold and not held.outdated:
            break
        else:
            held.done = True
    return True


def _remove(
    engine: Engine, cursor: Cursor, patience: float, rule: Rule, held: ExpiringRows, threshold: int
) -> bool:
    """Removes a batch; returns False if the lock was not had."""

    def due() -> list[TableChange]:
        if engine.retention.held(rule) is not held:
            return []
        found = held.due(threshold, max(BATCH, 2 * held.come))
        rows = _not_waited(engine, rule, held, found) if len(found) else found
        held.waits, held.come = len(found) > 0 and not len(rows), 0
        return [_removal(rule, held, rows)] if len(rows) else []

    return commit_own(engine, cursor, patience, due, late="not counted")


def _removal(rule: Rule, held: ExpiringRows, rows: ZSet) -> TableChange:
    none = empty([type for _, type in held.info.schema])
    return TableChange(rule.table, rows, held.columns, none)


def _not_waited(engine: Engine, rule: Rule, held: ExpiringRows, rows: ZSet) -> ZSet:
    """Those of some rows for which no final view waits."""
    known = engine.catalog.version, engine.maintenance, engine.warehouse.cursor
    return rows.filter(~waited(_removal(rule, held, rows), *known))


def _read_ahead(engine: Engine, patience: float, rule: Rule, threshold: int) -> bool:
    """Reads the rows that come next, beside the writers; returns False if the lock was not had."""
    retention = engine.retention
    engine.tables.flush()  # here, since a writer would wait for it
    if not engine.writer_lock.acquire_within(Aside(), patience):
        return False
    with retention.reading:
        try:
            if retention.rules.get(rule.table) != rule:
                return True  # the table was dropped or altered meanwhile
            held, snapshot = retention.begin(rule)
        finally:
            engine.writer_lock.release()
        retention.read(rule, held, snapshot, threshold)
    return True

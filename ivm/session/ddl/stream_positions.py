"""The positions of the events that programs have sent: they follow their table.

Law: such a row of `_ivm.positions` has the table's name as its stream. It is renamed with the table
and goes with it, in the transaction that does so; else the events of one table would count for
another. The streams of stored sources are named upstream, and stay. So it is with the rows of
`_ivm.origins`, which tell whose events go into a table, and of `_ivm.displaced`, which have those
of its rows that are without a place, and are altered with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.engine.tables.small_tables import Row
from ivm.engine.transactions.transaction import Transaction
from ivm.session.ddl.displaced_rows import altered
from ivm.session.session import Session
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.tables.table_info import TableInfo

POSITIONS, SOURCES = "_ivm.positions", "_ivm.sources"
ORIGINS, DISPLACED = "_ivm.origins", "_ivm.displaced"


def move_positions(
    session: Session, transaction: Transaction, before: Mapping[str, TableInfo]
) -> None:
    """Lets the positions follow a change of the catalog.

    Args:
        session: of the transaction.
        transaction: takes the change of the positions.
        before: the tables before.
    """
    tables, small = session.engine.catalog.tables, session.engine.small
    if tables == before or not tables.keys() >= {POSITIONS, SOURCES}:
        return
    names = {info.oid: name for name, info in tables.items()}
    now = dict.fromkeys(tables) | {name: names.get(info.oid) for name, info in before.items()}
    stored = {name for name, *_ in small.current(SOURCES, transaction.changes)}
    rows = small.current(POSITIONS, transaction.changes)
    positions = [row for row in rows if row[0] not in stored]
    _move(session, transaction, POSITIONS, positions, now)
    for table in tables.keys() & {ORIGINS, DISPLACED}:
        _move(session, transaction, table, small.current(table, transaction.changes), now)
    if DISPLACED in tables:
        rows = small.current(DISPLACED, transaction.changes)
        olds = {now.get(name, name): info for name, info in before.items()}
        _replace(session, transaction, DISPLACED, rows, _as_altered(session, rows, olds))


def _as_altered(
    session: Session, rows: Sequence[Row], olds: Mapping[str | None, TableInfo]
) -> list[Row]:
    """Rows of `_ivm.displaced` as their tables are now."""
    tables = session.engine.catalog.tables
    return [
        altered(session, row, olds[row[1]], tables[row[1]])
        if row[1] in olds and row[1] in tables
        else row
        for row in rows
    ]


def _move(
    session: Session,
    transaction: Transaction,
    table: str,
    rows: Sequence[Row],
    now: Mapping[str, str | None],
) -> None:
    """Lets rows follow the tables that their second cells name.

    Args:
        session: of the transaction.
        transaction: takes the change.
        table: of the rows.
        rows: some of its rows.
        now: the names of tables that are others now, None for those that are gone.
    """
    new = [(row[0], now.get(row[1], row[1]), *row[2:]) for row in rows]
    _replace(session, transaction, table, rows, new)


def _replace(
    session: Session,
    transaction: Transaction,
    table: str,
    rows: Sequence[Row],
    replacements: Sequence[Row],
) -> None:
    """Replaces rows of a table, each by one; by none if the new one names no table."""
    pairs = [(old, new) for old, new in zip(rows, replacements, strict=True) if new != old]
    if pairs:
        old = _zset(session, table, [old for old, _ in pairs])
        new = _zset(session, table, [new for _, new in pairs if new[1] is not None])
        transaction.add(TableChange(table, old, tuple(range(len(old.columns))), new))


def _zset(session: Session, table: str, rows: Sequence[Row]) -> ZSet:
    info = session.engine.catalog.tables[table]
    named = {name: [row[i] for row in rows] for i, (name, _) in enumerate(info.schema)}
    columns, count = session.engine.definitions.reader(info).read(named, session.cursor)
    return ZSet(tuple([columns[i] for i in range(len(columns))]), ones(count))

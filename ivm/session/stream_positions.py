"""The positions of the events that programs have sent: they follow their table.

Law: such a row of `_ivm.positions` has the table's name as its stream. It is renamed with the table
and goes with it, in the transaction that does so; else the events of one table would count for
another. The streams of stored sources are named upstream, and stay. So it is with the rows of
`_ivm.origins`, which tell whose events go into a table, and of `_ivm.displaced`, which have those
of its rows that are without a place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.engine.small_tables import Row
from ivm.engine.transaction import Transaction
from ivm.session.session import Session
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.table_info import TableInfo

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
    old = [row for row in rows if now.get(row[1], row[1]) != row[1]]
    new = [(row[0], now[row[1]], *row[2:]) for row in old if now[row[1]] is not None]
    if old:
        every = tuple(range(len(old[0])))
        change = TableChange(table, _zset(session, table, old), every, _zset(session, table, new))
        transaction.add(change)


def _zset(session: Session, table: str, rows: Sequence[Row]) -> ZSet:
    info = session.engine.catalog.tables[table]
    named = {name: [row[i] for row in rows] for i, (name, _) in enumerate(info.schema)}
    columns, count = session.engine.definitions.reader(info).read(named, session.cursor)
    return ZSet(tuple([columns[i] for i in range(len(columns))]), ones(count))

"""The positions of the events that programs have sent: they follow their table.

Law: such a row of `_ivm.positions` has the table's name as its stream. It is renamed with the table
and goes with it, in the transaction that does so; else the events of one table would count for
another. The streams of stored sources are named upstream, and stay.
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
    old, new = list[Row](), list[Row]()
    for row in small.current(POSITIONS, transaction.changes):
        source, stream, *rest = row
        if source not in stored and now.get(stream, stream) != stream:
            old.append(row)
            if now[stream] is not None:
                new.append((source, now[stream], *rest))
    if old:
        every = tuple(range(len(old[0])))
        change = TableChange(POSITIONS, _zset(session, old), every, _zset(session, new))
        transaction.add(change)


def _zset(session: Session, rows: Sequence[Row]) -> ZSet:
    info = session.engine.catalog.tables[POSITIONS]
    named = {name: [row[i] for row in rows] for i, (name, _) in enumerate(info.schema)}
    columns, count = session.engine.definitions.reader(info).read(named, session.cursor)
    return ZSet(tuple([columns[i] for i in range(len(columns))]), ones(count))

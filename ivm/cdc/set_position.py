"""SET POSITION: a source that is paused goes on elsewhere in its upstream.

Law: the positions change in one transaction with what hangs on them. A source goes back only where
its events replace rows by a primary key: then all that is read again leaves the rows that there are
in the end. What it passes over is not read. Dead letters of events that come again are gone: what
cannot be applied then is one again. All else stays: the table upstream that is meant, watermarks,
and displaced rows, which only events of their own transaction take up.
"""

from __future__ import annotations

from typing import NamedTuple

from ivm.catalog.names import name_parts
from ivm.cdc.dead_letters import discard_from
from ivm.cdc.records import Records
from ivm.cdc.sources.source import Movable, Position
from ivm.cdc.stored_sources import (
    RUNNING,
    StoredSource,
    counted_again,
    find,
    load,
    load_all,
    load_positions,
    unknown,
)
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError, UnsupportedError
from ivm.storage.identifiers import fold

BEGINS, AGAIN, SKIPS, STAYS = "begins", "reads again", "skips", "stays"


class Move(NamedTuple):
    """What SET POSITION has done to one stream.

    Attributes:
        stream: its name.
        before: its position before; None if it had none.
        position: from which it is read now.
        effect: one of the words above; `begins` where what it is read from was not read before.
        dead_letters: that are gone, since their events come again.
    """

    stream: str
    before: int | None
    position: int
    effect: str
    dead_letters: int


def set_position(session: Session, name: str, place: str) -> list[Move]:
    """Moves a source to a place.

    Args:
        session: of this thread.
        name: of the source.
        place: as the kind of source has it.

    Returns:
        What became of the streams that the place tells of, by their names.

    Raises:
        InputError: there is no such source, or no such place.
        UnavailableError: the source runs, or its upstream does not answer.
        UnsupportedError: its kind cannot be moved, or its table has no key by which it could.
    """
    stored = load(session, fold(name))
    if stored is None:
        raise unknown(name, [source.name for source in load_all(session)])
    definition = _demand_movable(stored)
    positions = load_positions(session, stored.name)
    there = definition.moved(stored.name, place, positions)  # asked before the lock is acquired
    with session.writing() as transaction:
        records = Records(session, transaction, stored.name)
        before = {stream: records.position(stream) for stream in sorted(there)}
        same = all(positions.get(stream) == at for stream, at in before.items())
        if find(session, transaction, name) != stored or not same:
            raise UnavailableError(f"source {stored.name!r} has changed meanwhile: try again")
        effects = {stream: _effect(at, there[stream]) for stream, at in before.items()}
        for stream, at in before.items():
            if at is not None and effects[stream] in (AGAIN, BEGINS):
                _demand_key(session, stored, definition, stream)
        again = {stream: there[stream].offset for stream in there if effects[stream] == AGAIN}
        gone = discard_from(session, transaction, stored.name, again)
        records.reach(there)
        counted_again(session, transaction, stored.name)
    return [
        Move(
            stream,
            None if at is None else at.offset,
            there[stream].offset,
            effects[stream],
            gone[stream],
        )
        for stream, at in before.items()
    ]


def _demand_movable(stored: StoredSource) -> Movable:
    definition = stored.definition
    if not isinstance(definition, Movable):
        raise UnsupportedError(
            f"the position of source {stored.name!r} cannot be set: {definition.stays}"
        )
    if stored.state == RUNNING:
        raise UnavailableError(
            f"source {stored.name!r} is not paused: PAUSE SOURCE {stored.name} first, and RESUME "
            "SOURCE when its position is set"
        )
    return definition


def _effect(before: Position | None, there: Position) -> str:
    if before is None or before.detail != there.detail:
        return BEGINS
    if before.offset == there.offset:
        return STAYS
    return AGAIN if there.offset < before.offset else SKIPS


def _demand_key(session: Session, stored: StoredSource, definition: Movable, stream: str) -> None:
    """Refuses to read a stream again into a table that would have its rows twice."""
    table = definition.table_of(stream, stored.target)
    if table is None or session.engine.catalog.names.resolve(name_parts(table)) is None:
        return
    if not table_info(session, table).primary_key:
        raise UnsupportedError(
            f"{stream} cannot be read again: table {table} has no PRIMARY KEY, so what was read "
            "would be in it twice. Only places behind its position can be set. To begin anew, "
            f"DROP SOURCE {stored.name}, empty the table, and CREATE SOURCE with start"
        )

"""RETRY and DISCARD of dead letters.

Law: a letter is there until its event is applied or it is discarded; both are one epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from ivm.cdc import records
from ivm.cdc.apply import apply_within, prepare
from ivm.cdc.records import Records
from ivm.cdc.sources.other_places import OtherPlaces
from ivm.cdc.sources.source import AsksUpstream, PartOf, Source
from ivm.cdc.stored_sources import counted_again, find, load
from ivm.engine.transaction import Transaction
from ivm.session.session import Session
from ivm.storage.identifiers import fold, literal

_Letter = tuple[Any, ...]
_COLUMNS = ("source", "table", "stream", "position", "event", "time", "reason", "payload")
_TABLE, _STREAM, _POSITION, _PAYLOAD = (
    _COLUMNS.index(name) for name in ("table", "stream", "position", "payload")
)


def retry(session: Session, name: str) -> int:
    """Applies the events of a source's dead letters once more.

    Returns:
        How many letters are gone; those that are refused again stay, with their new reasons.

    Raises:
        SqlError: there is no such source: of the events of a program only that program knows how
            they are to be read.
    """
    asked = _asked(session, fold(name))
    with session.writing() as transaction:
        source = find(session, transaction, name)
        letters = _taken_out(session, transaction, [source.name])
        left = 0
        for table, group in groupby(letters, lambda letter: str(letter[_TABLE])):
            lines = list(group)
            part_of = asked.get((source.definition, table), partial(source.definition.part, table))
            again = part_of([line[_PAYLOAD] for line in lines])
            part = partial(prepare, session, _Retried(again, lines))
            [done] = apply_within(session, transaction, source.name, [part])
            left += len(done.refused)
        counted_again(session, transaction, source.name)
    return len(letters) - left


def _asked(session: Session, name: str) -> dict[tuple[Source, str], PartOf]:
    """What is asked upstream before the writer lock is acquired, by definition and table."""
    source = None if session.transaction is not None else load(session, name)
    if source is None or not isinstance(source.definition, AsksUpstream):
        return {}
    sql = f'SELECT DISTINCT "table" FROM _ivm.dead_letters WHERE source = {literal(name)}'
    tables = [str(table) for (table,) in records.listed(session, sql)]
    return {(source.definition, table): source.definition.asked(table) for table in tables}


def discard(session: Session, name: str) -> int:
    """Removes the dead letters of a source, or of a program's stream; returns how many."""
    with session.writing() as transaction:
        counted_again(session, transaction, fold(name))
        return len(_taken_out(session, transaction, sorted({name, fold(name)})))


def _taken_out(session: Session, transaction: Transaction, names: Sequence[str]) -> list[_Letter]:
    """The letters of these sources, which are removed; those of one table stand together."""
    among = ", ".join([literal(name) for name in names])
    sql = f"""FROM _ivm.dead_letters WHERE source IN ({among})
              ORDER BY "table", time, stream, position, event"""
    letters = records.listed(session, sql)
    if letters:
        columns = map(list, zip(*letters, strict=True))
        rows = dict(zip(_COLUMNS, columns, strict=True))
        Records(session, transaction, names[0]).unbury(rows)
    return letters


@dataclass(frozen=True)
class _Retried(OtherPlaces):
    """Events of dead letters, with the places that they had."""

    letters: Sequence[_Letter]

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        return [self.letters[line][_PAYLOAD] for line in lines]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        return [(self.letters[line][_STREAM], self.letters[line][_POSITION]) for line in lines]

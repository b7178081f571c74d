"""RETRY and DISCARD of dead letters.

Law: a letter is there until its event is applied or it is discarded; both are one epoch. One that
is overtaken (see `letter_keys`) is not applied any more, and is left until it is discarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from ivm.cdc import records
from ivm.cdc.apply import apply_within, prepare
from ivm.cdc.formats.events import Decoded
from ivm.cdc.letter_keys import OVERTAKEN
from ivm.cdc.records import LETTER, Records, place_of
from ivm.cdc.sources.metadata import TellsFacts
from ivm.cdc.sources.metadata_part import again
from ivm.cdc.sources.other_places import OtherPlaces
from ivm.cdc.sources.source import AsksUpstream, Part, PartOf, Source
from ivm.cdc.stored_sources import counted_again, find, load
from ivm.engine.transactions.transaction import Transaction
from ivm.session.session import Session
from ivm.storage.identifiers import fold, literal
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

_Letter = tuple[Any, ...]
_FACTS = len(LETTER)
_SOURCE, _TABLE, _STREAM, _POSITION, _REASON, _PAYLOAD = (
    LETTER.index(name) for name in ("source", "table", "stream", "position", "reason", "payload")
)


def retry(session: Session, name: str) -> int:
    """Applies the events of a source's dead letters once more.

    Returns:
        How many letters are gone; those that are refused again stay, with their new reasons, and
        those that are overtaken.

    Raises:
        SqlError: there is no such source: of the events of a program only that program knows how
            they are to be read.
    """
    asked = _asked(session, fold(name))
    with session.writing() as transaction:
        source = find(session, transaction, name)
        letters = _taken_out(session, transaction, [source.name], overtaken=False)
        left = 0
        for table, group in groupby(letters, lambda letter: str(letter[_TABLE])):
            lines = list(group)
            part_of = asked.get((source.definition, table), partial(source.definition.part, table))
            retried = _Retried(part_of([line[_PAYLOAD] for line in lines]), lines)
            part = partial(prepare, session, _with_facts(source.definition, retried))
            [done] = apply_within(session, transaction, source.name, [part], follows=False)
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


def discard_from(
    session: Session, transaction: Transaction, name: str, since: Mapping[str, int]
) -> Counter[str]:
    """Removes dead letters whose events come again; counts them by stream.

    Args:
        session: of this thread.
        transaction: its own.
        name: of the source.
        since: the first position that comes again, by stream.
    """
    rows = records.listed(session, f"FROM _ivm.dead_letters WHERE source = {literal(name)}")
    letters = [
        row for row in rows if row[_STREAM] in since and row[_POSITION] >= since[row[_STREAM]]
    ]
    if letters:
        _removed(session, transaction, letters)
    return Counter(str(letter[_STREAM]) for letter in letters)


def _taken_out(
    session: Session, transaction: Transaction, names: Sequence[str], *, overtaken: bool = True
) -> list[_Letter]:
    """The letters of these sources, which are removed; those of one table stand together.

    Behind its columns each has the facts that were kept of it.

    Args:
        session: of this thread.
        transaction: its own.
        names: of the sources.
        overtaken: those that are overtaken, too.
    """
    among = ", ".join([literal(name) for name in names])
    sql = f"""FROM _ivm.dead_letters WHERE source IN ({among})
              ORDER BY "table", time, stream, position, event"""
    found = records.listed(session, sql)
    letters = [row for row in found if overtaken or not row[_REASON].endswith(OVERTAKEN)]
    if not letters:
        return []
    facts = _removed(session, transaction, letters)
    return [(*letter, told) for letter, told in zip(letters, facts, strict=True)]


def _removed(
    session: Session, transaction: Transaction, letters: Sequence[_Letter]
) -> list[str | None]:
    """The facts that were kept of letters, at least one, which are removed."""
    held = Records(session, transaction, str(letters[0][_SOURCE]))
    columns = map(list, zip(*letters, strict=True))
    held.unbury(dict(zip(LETTER, columns, strict=True)))
    facts = held.take_facts(letters)
    places = {place_of(letter) for letter in letters}
    for name, table in sorted({(str(letter[_SOURCE]), str(letter[_TABLE])) for letter in letters}):
        held = Records(session, transaction, name)
        held.close([row for row in held.open_letters(table) if place_of(row) in places])
    return facts


def _with_facts(source: Source, retried: _Retried) -> Part:
    """Retried events with the facts that were kept of them; without any now, these stay kept."""
    told = [letter[_FACTS] for letter in retried.letters]
    if not isinstance(source, TellsFacts) or not (source.told() or any(told)):
        return retried
    return again(retried, source.told(), source.facts, told)


@dataclass(frozen=True)
class _Retried(OtherPlaces):
    """Events of dead letters, with the places that they had.

    Those that move a row have taken it away under its old key before.
    """

    letters: Sequence[_Letter]

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        return _in_place(super().decode(cursor, info), info)

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        return _in_place(super().keyed(cursor, key, lines), key)

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        return [self.letters[line][_PAYLOAD] for line in lines]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        return [(self.letters[line][_STREAM], self.letters[line][_POSITION]) for line in lines]


def _in_place(found: Decoded, info: TableInfo) -> Decoded:
    """The events of a table with a key as if they moved no row."""
    return replace(found, events=replace(found.events, old=None)) if info.primary_key else found

"""Batches of events, decoded ahead, and applied in one epoch with positions and dead letters.

Law: the batches of a source are applied once each, in the order of their positions. An event that
cannot be applied is in `_ivm.dead_letters` with its reason, and its neighbours are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeAlias

from ivm.cdc.formats.events import Decoded
from ivm.cdc.letter_keys import OVERTAKEN, overtaken
from ivm.cdc.merging import Merging, Outcome
from ivm.cdc.records import Letter, Records
from ivm.cdc.sources.metadata_part import MetadataPart
from ivm.cdc.sources.source import Part, Position
from ivm.engine.transactions.transaction import Transaction
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class Ingested:
    """What a batch of events has come to.

    Attributes:
        applied: events that changed the table, or would have if they had not been seen before.
        refused: why events could not be applied, by their number in the batch, from 0.
        ignored: messages that are no changes.
        counts: of applied events by kind; `known_inserts`, `unknown_updates` and `unknown_deletes`
            are those that found, or did not find, the row that they should; `stale` are not
            applied, since the table has their version or a later one; of `superseded` ones only
            the last of their key and batch was.
        skipped: the batch's position had been reached before, and nothing was done.
    """

    applied: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    ignored: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    skipped: bool = False


@dataclass(frozen=True)
class Prepared:
    """A decoded part, and the table by which it was decoded."""

    part: Part
    info: TableInfo
    decoded: Decoded


def prepare(session: Session, part: Part) -> Prepared:
    """Decodes a part by the table as it is now.

    Raises:
        SqlError: there is no such table.
    """
    info = table_info(session, part.table)
    return Prepared(part, info, part.decode(session.cursor, info))


@dataclass(frozen=True)
class Applied:
    """What a batch has come to.

    Attributes:
        parts: one for each of its parts.
        held: the seconds for which no other could write; what follows, the sync of the log, is not
            among them.
    """

    parts: Sequence[Ingested]
    held: float = 0.0

    @property
    def refused(self) -> int:
        """The number of its dead letters."""
        return sum(len(part.refused) for part in self.parts)


Admit: TypeAlias = Callable[[Records, Applied], None]
"""Raises if a batch is not to be committed."""


def apply_parts(
    session: Session,
    source: str,
    parts: Sequence[Callable[[], Prepared]],
    positions: Mapping[str, Position],
    since: Mapping[str, Position] | None = None,
    admit: Admit | None = None,
) -> Applied:
    """Applies a batch in one transaction with its positions.

    Args:
        session: of this thread.
        source: the name of the stream.
        parts: at most one for each table, see `Session.ahead`.
        positions: reached with the batch.
        since: the positions at which the batch begins, if they are known.
        admit: is asked before the commit.

    Returns:
        What each part has come to; all are `skipped` if all positions had been reached before.

    Raises:
        UnavailableError: the stored positions are others than `since`.
    """
    with session.writing() as transaction:
        records = Records(session, transaction, source)
        stored = {stream: records.position(stream) for stream in positions}
        if since is not None and any(stored[s] != since.get(s) for s in positions):
            raise UnavailableError(f"source {source!r} stands elsewhere now: it is opened again")
        if positions and all(_reached(stored[s], positions[s]) for s in positions):
            return Applied([Ingested(skipped=True) for _ in parts])
        done = Applied(apply_within(session, transaction, source, parts))
        if admit is not None:
            admit(records, done)
        records.reach(positions)
    return replace(done, held=transaction.held)


def apply_within(
    session: Session,
    transaction: Transaction,
    source: str,
    parts: Sequence[Callable[[], Prepared]],
    *,
    follows: bool = True,
) -> list[Ingested]:
    """Applies the parts of a batch in a transaction that goes on; see `apply_parts`.

    Views that fail on the batch are broken, unless the transaction is one that the user has begun.

    Args:
        session: of this thread.
        transaction: its own.
        source: the name of the stream.
        parts: of the batch.
        follows: whether their events follow those of the batch before.
    """
    if session.transaction is None:
        transaction.break_failing_views()
    records = Records(session, transaction, source)
    return [
        _apply_part(Merging(session, transaction, records, one.part, one.info, follows), one)
        for one in (prepared() for prepared in parts)
    ]


def _reached(stored: Position | None, position: Position) -> bool:
    return stored is not None and stored.offset >= position.offset


def _apply_part(merging: Merging, prepared: Prepared) -> Ingested:
    found = prepared.decoded
    outcome = merging.run(found)
    _bury(merging.records, prepared, outcome)
    counts, refused = outcome.counts, outcome.refused
    applied = len(found.events) + len(found.truncates) + found.superseded
    applied -= len(refused.keys() - found.refused.keys()) + counts.get("stale", 0)
    return Ingested(applied, refused, found.ignored, counts)


def _bury(records: Records, prepared: Prepared, outcome: Outcome) -> None:
    """Stores the refused events, and notes which dead letters are overtaken."""
    part, info, lines = prepared.part, prepared.info, list(outcome.refused)
    told = part.told(lines) if isinstance(part, MetadataPart) else [None] * len(lines)
    each = zip(lines, part.payloads(lines), part.places(lines), told, strict=True)
    letters = [
        Letter(*place, line, outcome.refused[line], text, outcome.keys.get(line), facts)
        for line, text, place, facts in each
    ]
    if records.definition() is None:  # nobody but the program can retry them
        records.bury(info.name, letters)
        return
    older = records.open_letters(info.name)
    if not (older or letters):
        return
    known = [*((-1, row[-1]) for row in older), *((each.event, each.key) for each in letters)]
    applied, at = outcome.events.take(outcome.applied), outcome.lines[outcome.applied]
    gone = overtaken(info, known, outcome.truncates, applied, at)
    if not info.primary_key and "unknown_deletes" in outcome.counts:
        gone = [True] * len(known)
    records.overtake(info.name, list(compress(older, gone)), OVERTAKEN)
    ends = gone[len(older) :]
    buried = [
        each._replace(reason=each.reason + OVERTAKEN) if is_gone else each
        for each, is_gone in zip(letters, ends, strict=True)
    ]
    records.bury(info.name, buried)
    records.open(info.name, list(compress(letters, [not is_gone for is_gone in ends])))

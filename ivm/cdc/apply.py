"""Batches of events, decoded ahead, and applied in one epoch with positions and dead letters.

Law: the batches of a source are applied once each, in the order of their positions. An event that
cannot be applied is in `_ivm.dead_letters` with its reason, and its neighbours are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeAlias

import numpy as np

from ivm.cdc.formats.events import INSERT, Decoded, Events
from ivm.cdc.key_versions import Told
from ivm.cdc.keyed import merge_keyed, moved_rows, without_writes
from ivm.cdc.keyless import merge_keyless
from ivm.cdc.letter_keys import OVERTAKEN, overtaken, refused_of, texts_of, with_gone
from ivm.cdc.merged import Merged
from ivm.cdc.origins import told_apart
from ivm.cdc.records import Letter, Records
from ivm.cdc.sources.source import Part, Position
from ivm.cdc.versions import merge_newer, version_column
from ivm.engine.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError, UnsupportedError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Indexes
from ivm.storage.values.zset import empty
from ivm.storage.warehouse.table_info import TableInfo


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
) -> list[Ingested]:
    """Applies the parts of a batch in a transaction that goes on; see `apply_parts`.

    Views that fail on the batch are broken, unless the transaction is one that the user has begun.
    """
    if session.transaction is None:
        transaction.break_failing_views()
    records = Records(session, transaction, source)
    return [_apply_part(session, transaction, records, prepared()) for prepared in parts]


def _reached(stored: Position | None, position: Position) -> bool:
    return stored is not None and stored.offset >= position.offset


def _apply_part(
    session: Session, transaction: Transaction, records: Records, prepared: Prepared
) -> Ingested:
    found = prepared.decoded
    outcome = _merge(session, transaction, records, prepared)
    _bury(records, prepared, outcome)
    counts, refused = outcome.merged.counts, outcome.refused
    applied = len(found.events) + len(found.truncates) + found.superseded
    applied -= len(refused.keys() - found.refused.keys()) + counts.get("stale", 0)
    return Ingested(applied, refused, found.ignored, counts)


@dataclass(frozen=True)
class _Outcome:
    """What the events of a part have come to.

    Attributes:
        merged: with the stored rows.
        applied: the events that were, and their lines.
        truncates: the lines that have emptied the table.
        refused: by the numbers of the lines.
        keys: of the refused lines that tell them, as texts.
    """

    merged: Merged
    applied: tuple[Events, Indexes]
    truncates: list[int]
    refused: dict[int, str]
    keys: dict[int, str]


def _merge(
    session: Session, transaction: Transaction, records: Records, prepared: Prepared
) -> _Outcome:
    """Merges events with the stored rows."""
    part, info, found = prepared.part, prepared.info, prepared.decoded
    found, others = told_apart(records, part.tables, info.name, found)
    path = transaction.fast_path(info.name)
    if path is None or not path.is_plain:
        raise UnsupportedError(
            f"events cannot be ingested into table {info.name!r}: it has generated columns, "
            "foreign keys, further unique constraints or a default that is no literal, or was "
            "changed by DDL in this transaction"
        )
    keys: dict[int, str] = {}
    if found.refused and info.primary_key:
        told = refused_of(session, part, info, list(found.refused))
        keys = dict(zip(told.lines.tolist(), texts_of(info, told.keys), strict=True))
        found = with_gone(info, found, told)
    events, lines = found.events, found.lines
    if len(found.truncates) or (events.operations != INSERT).any():
        path.demand_removable()
    if found.truncates:
        _empty(session, transaction, info)
        later = (lines > found.truncates[-1]).nonzero()[0]
        events, lines = events.take(later), lines[later]
    stale, left = 0, events
    if part.version:
        position = version_column(info, part.version)
        index = transaction.index(info.name, all_columns=True)
        merged, stale = merge_newer(path, events, index, position)
    elif info.primary_key:
        index = transaction.index(info.name, all_columns=bool(events.unknown))
        told_rows = _told(session, transaction, part, info, lines)
        merged, left = _merge_keyed(path, events, index, told_rows)
    else:
        rows = path.no_index() if path.takes_only else transaction.index(info.name)
        merged = merge_keyless(path, events, rows)
    transaction.add(merged.change)
    if info.primary_key and merged.refused:
        bad = sorted(merged.refused)
        own = [events.columns[i].take(np.array(bad)) for i in info.primary_key]
        keys |= zip(lines[bad].tolist(), texts_of(info, own), strict=True)
    counts = {
        **merged.counts,
        "truncates": len(found.truncates),
        "stale": stale,
        "superseded": found.superseded,
    }
    refused = others | found.refused | {int(lines[i]): why for i, why in merged.refused.items()}
    merged = replace(merged, counts={kind: count for kind, count in counts.items() if count})
    is_applied = left.operations != events.operations  # halves of refused ones
    is_applied[np.delete(np.arange(len(events)), list(merged.refused))] = True
    at = is_applied.nonzero()[0]
    applied = left.take(at), lines[at]
    return _Outcome(merged, applied, found.truncates, dict(sorted(refused.items())), keys)


def _merge_keyed(
    path: FastPath, events: Events, index: KeyIndex, told: Told
) -> tuple[Merged, Events]:
    """Merges events; a refused one that moves a row takes it away under its old key."""
    refused: dict[int, str] = {}
    while True:
        merged = merge_keyed(path, events, index, told)
        moved = moved_rows(events, path.key, path.schema)
        halves = [i for i in merged.refused if moved[i]]
        if not halves:
            return replace(merged, refused=refused | merged.refused), events
        refused |= {i: merged.refused[i] for i in halves}
        events = without_writes(events, halves, path.key)


def _bury(records: Records, prepared: Prepared, outcome: _Outcome) -> None:
    """Stores the refused events, and notes which dead letters are overtaken."""
    part, info, lines = prepared.part, prepared.info, list(outcome.refused)
    letters = [
        Letter(*place, line, outcome.refused[line], text, outcome.keys.get(line))
        for line, text, place in zip(lines, part.payloads(lines), part.places(lines), strict=True)
    ]
    if records.definition() is None:  # nobody but the program can retry them
        records.bury(info.name, letters)
        return
    older = records.open_letters(info.name)
    if not (older or letters):
        return
    known = [*((-1, row[-1]) for row in older), *((each.event, each.key) for each in letters)]
    gone = overtaken(info, known, outcome.truncates, *outcome.applied)
    if not info.primary_key and "unknown_deletes" in outcome.merged.counts:
        gone = [True] * len(known)
    records.overtake(info.name, list(compress(older, gone)), OVERTAKEN)
    ends = gone[len(older) :]
    told = [
        each._replace(reason=each.reason + OVERTAKEN) if is_gone else each
        for each, is_gone in zip(letters, ends, strict=True)
    ]
    records.bury(info.name, told)
    records.open(info.name, list(compress(letters, [not is_gone for is_gone in ends])))


def _told(
    session: Session, transaction: Transaction, part: Part, info: TableInfo, lines: Indexes
) -> Told:
    """What the events of a part tell of the rows before them; they stand in these lines."""

    def befores(events: Indexes) -> Events | None:
        found = part.befores(session.cursor, info, lines[events].tolist())
        return None if found is None else found.of_lines(len(events))

    return Told(befores, lambda: transaction.index(info.name, all_columns=True), part.is_exact)


def _empty(session: Session, transaction: Transaction, info: TableInfo) -> None:
    """Takes out all rows of a table."""
    if any(change.table == info.name for change in transaction.changes):
        raise UnsupportedError(
            f"table {info.name!r} was changed in this transaction: COMMIT before a TRUNCATE event"
        )
    session.engine.tables.flush([info.name])
    rows = session.engine.tables.content(info.name)
    types = [type for _, type in info.schema]
    transaction.add(TableChange(info.name, rows, tuple(range(len(types))), empty(types)))

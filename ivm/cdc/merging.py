"""The events of one part merged with the stored rows, as its table and its source want it.

Law: an event is applied, or refused with a reason, or older than what the table has. One that is
refused and moves a row takes it away under its old key all the same: it is gone there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ivm.cdc.formats.events import INSERT, Decoded, Events
from ivm.cdc.letter_keys import refused_of, texts_of, with_gone
from ivm.cdc.merge.defaults import with_defaults
from ivm.cdc.merge.keyed import merge_keyed
from ivm.cdc.merge.keyless import merge_keyless
from ivm.cdc.merge.merged import Merged
from ivm.cdc.merge.moves import certain, moved_rows, without_writes
from ivm.cdc.merge.told import Before, Displaced, Told
from ivm.cdc.merge.versions import merge_newer, version_column
from ivm.cdc.origins import told_apart
from ivm.cdc.records import Records
from ivm.cdc.sources.source import Part
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.not_fast import NotFastError
from ivm.session.session import Session
from ivm.storage.errors import UnsupportedError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Indexes, Mask
from ivm.storage.values.zset import empty
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class Outcome:
    """What the events of a part have come to.

    Attributes:
        counts: see `Ingested`.
        events: as they were merged.
        lines: of these.
        applied: the numbers of those of them that were applied.
        truncates: the lines that have emptied the table.
        refused: by the numbers of the lines.
        keys: of the refused lines that tell them, as texts.
    """

    counts: dict[str, int]
    events: Events
    lines: Indexes
    applied: Indexes
    truncates: list[int]
    refused: dict[int, str]
    keys: dict[int, str]


@dataclass(frozen=True)
class Merging:
    """The merging of one part; `run` it once.

    Attributes:
        session: of this thread.
        transaction: takes the change.
        records: of the source.
        part: of the batch.
        info: its table.
        follows: whether the events follow those of the batch before; retried ones do not, and
            leave the rows alone that it has displaced.
    """

    session: Session
    transaction: Transaction
    records: Records
    part: Part
    info: TableInfo
    follows: bool = True

    def run(self, decoded: Decoded) -> Outcome:
        """Merges the events of the part.

        Raises:
            UnsupportedError: the table takes no events, perhaps in this transaction.
        """
        try:
            return self._run(self._path(), decoded)
        except NotFastError as error:
            raise self._unsupported(error.reason) from error

    def _run(self, path: FastPath, decoded: Decoded) -> Outcome:
        found, others = told_apart(self.records, self.part.tables, self.info.name, decoded)
        found, keys = self._keyed(found)
        found = replace(found, events=with_defaults(path, found.events))
        if found.truncates or (found.events.operations != INSERT).any():
            path.demand_removable()
        events, lines = self._behind_truncates(found)
        given = self.records.displaced(self.info) if self.follows else None
        merged, left = self._merged(path, events, lines, None if found.truncates else given)
        self.transaction.add(merged.change, late="counted")
        if self.follows and (given or merged.displaced) and (len(events) or found.truncates):
            self.records.displace(self.info, merged.displaced)
        keys |= self._keys(events, lines, sorted(merged.refused))
        refused = others | found.refused | {int(lines[i]): why for i, why in merged.refused.items()}
        stale = set(lines[list(merged.stale)].tolist()) - refused.keys()
        return Outcome(
            _counts(merged, found, len(stale)),
            left,
            lines,
            _applied(merged, left.operations != events.operations),
            found.truncates,
            dict(sorted(refused.items())),
            keys,
        )

    def _path(self) -> FastPath:
        path = self.transaction.fast_path(self.info.name)
        if path is None:
            why = "it was changed by DDL in this transaction"
            if not self.transaction.changes_catalog:
                why = self.session.engine.definitions.why_no_fast_path(self.info.name) or why
        elif self.info.referenced_by:
            why = "foreign keys refer to it"
        elif (self.info.uniques or self.info.foreign_keys) and not self.info.primary_key:
            why = "it has UNIQUE constraints or foreign keys, but no primary key"
        else:
            late = self.session.engine.watermarks.refusals(self.info.name)
            return replace(path, checks=(*path.checks, *late)) if late else path
        raise self._unsupported(why)

    def _unsupported(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"events cannot be ingested into table {self.info.name!r}: {why}")

    def _keyed(self, found: Decoded) -> tuple[Decoded, dict[int, str]]:
        """The events with what refused ones take away, and the keys of these."""
        if not found.refused or not self.info.primary_key:
            return found, {}
        told = refused_of(self.session, self.part, self.info, list(found.refused))
        texts = texts_of(self.info, told.keys)
        return with_gone(found, told), dict(zip(told.lines.tolist(), texts, strict=True))

    def _keys(self, events: Events, lines: Indexes, refused: list[int]) -> dict[int, str]:
        """The keys of refused events by their lines."""
        if not refused or not self.info.primary_key:
            return {}
        own = [events.columns[i].take(np.array(refused)) for i in self.info.primary_key]
        return dict(zip(lines[refused].tolist(), texts_of(self.info, own), strict=True))

    def _behind_truncates(self, found: Decoded) -> tuple[Events, Indexes]:
        """The events that the table has after it was emptied, and their lines."""
        if not found.truncates:
            return found.events, found.lines
        self._empty()
        later = (found.lines > found.truncates[-1]).nonzero()[0]
        return found.events.take(later), found.lines[later]

    def _empty(self) -> None:
        """Takes out all rows of the table."""
        name, tables = self.info.name, self.session.engine.tables
        if any(change.table == name for change in self.transaction.changes):
            raise UnsupportedError(
                f"table {name!r} was changed in this transaction: COMMIT before a TRUNCATE event"
            )
        tables.flush([name])
        types = [type for _, type in self.info.schema]
        rows = tables.content(name)
        self.transaction.add(TableChange(name, rows, tuple(range(len(types))), empty(types)))

    def _merged(
        self, path: FastPath, events: Events, lines: Indexes, displaced: Displaced | None
    ) -> tuple[Merged, Events]:
        """What the events have come to, and they as they were merged; see `_merge_moved`."""
        if self.part.version:
            version, index = version_column(self.info, self.part.version), self._index()
            if version in path.evaluated:
                raise self._unsupported("the default of its version column is no literal")
            return _merge_moved(path, events, lambda e: merge_newer(path, e, index, version))
        if self.info.primary_key:
            whole = bool(events.unknown) or displaced is not None
            index = self._index() if whole else self.transaction.index(self.info.name)
            told = Told(
                self._befores(lines),
                self._index,
                self.part.is_exact,
                displaced if len(events) else None,
                len(events) - 1,
            )
            return _merge_moved(path, events, lambda e: merge_keyed(path, e, index, told))
        rows = path.no_index() if path.takes_only else self.transaction.index(self.info.name)
        return merge_keyless(path, events, rows), events

    def _index(self) -> KeyIndex:
        return self.transaction.index(self.info.name, all_columns=True)

    def _befores(self, lines: Indexes) -> Callable[[Indexes], Before]:
        """What the events in these lines tell of the rows before them."""

        def befores(events: Indexes) -> Before:
            asked = lines[events].tolist()
            found = self.part.befores(self.session.cursor, self.info, asked)
            if found is None:
                return Before()
            return Before(found.of_lines(len(events)), found.transactions)

        return befores


def _merge_moved(
    path: FastPath, events: Events, merge: Callable[[Events], Merged]
) -> tuple[Merged, Events]:
    """Merges events, and of refused ones that move a row its removal.

    Returns:
        What they have come to, and they as they were merged at last.
    """
    refused: dict[int, str] = {}
    while True:
        merged = merge(events)
        halves = _halves(path, events, merged)
        if not len(halves):
            return replace(merged, refused=refused | merged.refused), events
        refused |= {i: merged.refused[i] for i in halves.tolist()}
        events = without_writes(events, halves, path.key)


def _halves(path: FastPath, events: Events, merged: Merged) -> Indexes:
    """The refused events that move rows, as far as they are refused whatever becomes of others."""
    refused = np.array(sorted(merged.refused), np.int64)
    moved = refused[moved_rows(events, path.key, path.schema)[refused]] if len(refused) else refused
    if not len(moved):
        return moved
    doubtful = np.zeros(len(events), np.bool_)
    doubtful[list(merged.stale)] = True
    for mask in events.unknown.values():
        doubtful |= mask
    return certain(moved, doubtful, events, path.key, path.schema)


def _applied(merged: Merged, halved: Mask) -> Indexes:
    """The numbers of the events that were applied, be it by half."""
    left_out = np.zeros(len(halved), np.bool_)
    left_out[list(merged.refused)] = True
    left_out &= ~halved
    left_out[list(merged.stale)] = True
    return (~left_out).nonzero()[0]


def _counts(merged: Merged, found: Decoded, stale: int) -> dict[str, int]:
    more = {"truncates": len(found.truncates), "stale": stale, "superseded": found.superseded}
    return {kind: count for kind, count in {**merged.counts, **more}.items() if count}

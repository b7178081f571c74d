"""Events of one table with facts of them in columns of the table.

Law: of a row that an event writes, the columns of metadata have the event's facts, whatever values
the event carries for them; all else is what it is without them. An event with a fact that does not
fit is refused with the reason, but for a deletion, which writes none.

The facts of a refused event are kept as a JSON object, from which `again` reads them as they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import DELETE, Decoded, Events
from ivm.cdc.sources.fact_columns import fact_columns
from ivm.cdc.sources.metadata import BYTES, TIME, Facts, Metadata, type_of
from ivm.cdc.sources.other_places import OtherPlaces
from ivm.cdc.sources.source import Part, Upstream
from ivm.storage.identifiers import fold
from ivm.storage.values.column import Column, Mask, null_column
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class MetadataPart(OtherPlaces):
    """Events with facts; see `Part`.

    Attributes:
        metadata: which column gets which fact.
        facts: of each event, by the name of the fact.
        lacking: by the numbers of events of which a fact is not known, why.
        kept: what is told of each event, if that was kept of dead letters.
    """

    metadata: Metadata
    facts: Mapping[str, pa.Array]
    lacking: Mapping[int, str] = field(default_factory=dict)
    kept: Sequence[str | None] | None = None

    @property
    def upstream(self) -> Upstream | None:  # type: ignore[override]
        """See `Part`; the columns of metadata are none of the upstream's."""
        found = self.part.upstream
        types = {name: array.type for name, array in self.facts.items()}
        return found and replace(found, ours=self.metadata.natural_types(types))

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`.

        Raises:
            InputError: the table cannot have the facts.
        """
        found = self.part.decode(cursor, self._without(info))
        self.metadata.demand(info, {name: array.type for name, array in self.facts.items()})
        return self._joined(cursor, info, found, self.metadata.facts_in(info))

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> Decoded | None:
        """See `Part`; the facts of the events before are not told."""
        found = self.part.befores(cursor, self._without(info), lines)
        if found is None:
            return None
        facts = self.metadata.facts_in(info)
        key = {i: fact for i, fact in facts.items() if i in info.primary_key}
        rows = self._some(lines)._joined(cursor, info, found, key)
        unsent = {i: np.ones(len(rows.events), np.bool_) for i in facts if i not in key}
        return replace(rows, events=replace(rows.events, unknown={**rows.events.unknown, **unsent}))

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        found = self.part.keyed(cursor, self._without(key), lines)
        return self._some(lines)._joined(cursor, key, found, self.metadata.facts_in(key))

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""
        return self.part.payloads(lines)

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        return self.part.places(lines)

    def told(self, lines: Sequence[int]) -> list[str | None]:
        """The facts of events by their numbers, as JSON objects."""
        if self.kept is not None:
            return [self.kept[line] for line in lines]
        facts = self._some(lines).facts
        columns = [_as_json(array) for array in facts.values()]
        rows = [dict(zip(facts, values, strict=True)) for values in zip(*columns, strict=True)]
        return [json.dumps(row, ensure_ascii=False) for row in rows]

    def _some(self, lines: Sequence[int]) -> MetadataPart:
        facts = {
            name: array.take(pa.array(lines, pa.int64())) for name, array in self.facts.items()
        }
        lacking = {i: self.lacking[n] for i, n in enumerate(lines) if n in self.lacking}
        return replace(self, facts=facts, lacking=lacking)

    def _without(self, info: TableInfo) -> TableInfo:
        """The table without the columns of metadata."""
        own = self.metadata.facts_in(info)
        kept = [i for i in range(len(info.schema)) if i not in own]
        new = {i: n for n, i in enumerate(kept)}
        return replace(
            info,
            schema=tuple([info.schema[i] for i in kept]),
            primary_key=tuple([new[i] for i in info.primary_key if i in new]),
            defaults={new[i]: sql for i, sql in info.defaults.items() if i in new},
        )

    def _joined(
        self, cursor: Cursor, info: TableInfo, found: Decoded, facts: Mapping[int, str]
    ) -> Decoded:
        """Events that were decoded without the columns of metadata, with these.

        Args:
            cursor: see `Part.decode`.
            info: their table.
            found: the events.
            facts: those that are read, by the column; the other columns are NULL.
        """
        given, lines = self.metadata.facts_in(info), found.lines
        columns, misfits = fact_columns(cursor, info, facts, self.facts)
        columns = {i: column.take(lines) for i, column in columns.items()}
        columns |= {i: null_column(info.schema[i][1], len(lines)) for i in given if i not in facts}
        misfits = {**self.lacking, **misfits} if facts else {}
        unfit = np.isin(lines, list(misfits)) & self._writes(found.events, info, facts)
        whole = replace(found, events=_widened(found.events, info, columns))
        return _without(whole, unfit, misfits) if unfit.any() else whole

    def _writes(self, events: Events, info: TableInfo, facts: Mapping[int, str]) -> Mask:
        """The events whose facts are read: of a deletion, those of its version alone."""
        versions = [i for i in facts if fold(info.schema[i][0]) == fold(self.version)]
        writes: Mask = (events.operations != DELETE) | bool(versions)
        return writes


def again(part: Part, metadata: Metadata, facts: Facts, told: Sequence[str | None]) -> MetadataPart:
    """Events of dead letters with the facts that were kept of them.

    Args:
        part: the events.
        metadata: which column gets which fact now.
        facts: of the kind of source.
        told: of each letter, see `MetadataPart.told`; None if none were kept.
    """
    kept = [json.loads(text or "{}") for text in told]
    asked = metadata.asked
    lacking = {
        n: f"its {fact} was not kept, since metadata did not name it when the event was refused"
        for n, each in enumerate(kept)
        for fact in asked
        if fact not in each
    }
    arrays = {
        fact: _of_json([each.get(fact) for each in kept], type_of(facts, fact)) for fact in asked
    }
    return MetadataPart(part, metadata, arrays, lacking, told)


def _as_json(array: pa.Array) -> list[Any]:
    """Values for JSON: microseconds since 1970 of times, and of bytes that are no text a hex."""
    found: list[Any] = (array.cast(pa.int64()) if array.type == TIME else array).to_pylist()
    return [_text(value) for value in found] if array.type == BYTES else found


def _text(value: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex() if value else ""}


def _of_json(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    if type == TIME:
        return pa.array(values, pa.int64()).cast(TIME)
    if type != BYTES:
        return pa.array(values, type)
    found = [bytes.fromhex(v["hex"]) if isinstance(v, dict) else v and v.encode() for v in values]
    return pa.array(found, BYTES)


def _without(found: Decoded, unfit: Mask, why: Mapping[int, str]) -> Decoded:
    """The events but for those whose facts do not fit."""
    kept, lines = (~unfit).nonzero()[0], found.lines
    refused = {line: why[line] for line in lines[unfit].tolist()}
    return replace(
        found,
        events=found.events.take(kept),
        lines=lines[kept],
        refused=dict(sorted({**found.refused, **refused}.items())),
    )


def _widened(events: Events, info: TableInfo, own: Mapping[int, Column]) -> Events:
    """Events of the other columns of a table with these."""
    others = [i for i in range(len(info.schema)) if i not in own]

    def moved(masks: Mapping[int, Mask]) -> dict[int, Mask]:
        return {others[n]: mask for n, mask in masks.items()}

    old = None if events.old is None else {others[n]: c for n, c in events.old.items()}
    if old is not None:
        old |= {i: own[i] for i in info.primary_key if i in own}
    columns = {**{others[n]: c for n, c in events.columns.items()}, **own}
    return replace(
        events,
        columns={i: columns[i] for i in sorted(columns)},
        unknown=moved(events.unknown),
        old=old,
        unchanged=moved(events.unchanged),
    )

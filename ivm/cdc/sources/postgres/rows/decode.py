"""Changes in PostgreSQL's texts as events in a table's types.

What Arrow's kernels do not read is read by one DuckDB statement a batch.

Law: a value is PostgreSQL's (see `types`), cast to the type of our column where that is another
one. A row with a value that does not fit is refused with its reason; the others are decoded as if
it was not there. Columns are matched by name, without regard to case.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Decoded, Events
from ivm.cdc.sources.postgres.connections.types import TEXT, Reading
from ivm.cdc.sources.postgres.log import messages as wire
from ivm.cdc.sources.postgres.rows.parsed import parsed
from ivm.cdc.sources.postgres.rows.texts import Texts
from ivm.storage.identifiers import fold
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    Indexes,
    Mask,
    column_from_arrow,
    not_null,
    null_column,
)
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.duckdb.carried import may_be_unfit, only_carried, why_unfit
from ivm.storage.warehouse.duckdb.duck import Cursor, registered, table
from ivm.storage.warehouse.tables.table_info import TableInfo

_TEXTS = "_ivm_texts"
_VARCHAR = type_of("VARCHAR")
_OPERATIONS = np.zeros(256, np.uint8)
_OPERATIONS[[wire.INSERT, wire.UPDATE, wire.DELETE]] = INSERT, UPDATE, DELETE


def decode(
    cursor: Cursor, texts: Texts, readings: Mapping[str, Reading], info: TableInfo, lines: Indexes
) -> Decoded:
    """Decodes changes as events of a table.

    Args:
        cursor: runs the statement; it must be in no transaction that an error could abort.
        texts: the changes.
        readings: how the columns' values are read, by name.
        info: the table.
        lines: int64[n], the numbers of the changes in their batch.
    """
    batch = _Batch(texts, readings, info)
    columns = batch.values(cursor)
    bad = batch.misfits(columns)
    refused = {int(lines[row]): why for row, why in sorted(bad.items())}
    events = batch.events(columns)
    if bad:
        kept = np.delete(np.arange(len(texts)), list(bad))
        events, lines = events.take(kept), lines[kept]
    return Decoded(events, lines, refused, [], 0)


class _Batch:
    """The changes beside the columns of the table."""

    def __init__(self, texts: Texts, readings: Mapping[str, Reading], info: TableInfo) -> None:
        self._texts = texts
        self._types = [type for _, type in info.schema]
        names = {fold(name): name for name in (*texts.columns, *texts.typed)}
        found = {i: names[fold(c)] for i, (c, _) in enumerate(info.schema) if fold(c) in names}
        self._names: dict[int, str] = found
        self._readings = readings
        self._found_by = info.primary_key or range(len(info.schema))
        updates = texts.kinds == wire.UPDATE
        # A table with a key needs the rows before only where the key has changed.
        needs_old = texts.has_old.any() or (not info.primary_key and updates.any())
        self._old = [i for i in self._found_by if i in found] if needs_old else []

    def values(self, cursor: Cursor) -> dict[str, Column]:
        """The typed columns: `c<i>`, and `o<i>` of the rows before."""
        given = {f"c{i}": self._after(name) for i, name in self._names.items()}
        given |= {f"o{i}": ArrowColumn(self._before(self._names[i])) for i in self._old}
        known = {label: self._known(label, column) for label, column in given.items()}
        done = {label: column for label, column in known.items() if column is not None}
        cast = [label for label in given if label not in done]
        if not cast:
            return done
        rows = ZSet(tuple([given[label] for label in cast]), ones(len(self._texts)))
        parts = ", ".join([f"{self._sql(label)} AS {label}" for label in cast])
        schema = tuple([(label, self._sent(label)) for label in cast])
        with registered(cursor, {_TEXTS: (rows, schema)}):
            typed = table(cursor, f"SELECT {parts} FROM {_TEXTS}")
        made = {label: column_from_arrow(typed[label], self._type(label)) for label in cast}
        return {**done, **made}

    def _known(self, label: str, given: Column) -> Column | None:
        """The values, where they need no statement."""
        if self._is_same(label):
            return given
        reading = self._reading(label)
        if self._sent(label) is not _VARCHAR or reading.type != self._type(label).sql:
            return None
        assert isinstance(given, ArrowColumn)
        return parsed(given.array, reading)

    def misfits(self, columns: Mapping[str, Column]) -> dict[int, str]:
        """Why rows are refused."""
        reasons: dict[int, list[str]] = {}
        for label, column in columns.items():
            if column.valid is None or self._is_same(label):
                continue
            wrong = ~column.valid & not_null(self._given(label))
            if int(label[1:]) not in self._found_by:  # deletes find the row without it
                wrong &= self._texts.kinds != wire.DELETE
            head = f"{self._names[int(label[1:])]} is no {self._type(label).sql}: "
            why = self._why(label)
            for row in wrong.nonzero()[0].tolist():
                reasons.setdefault(row, []).append(f"{head}{self._text(label, row)[:80]!r}{why}")
        return {row: "; ".join(dict.fromkeys(why)) for row, why in reasons.items()}

    def _why(self, label: str) -> str:
        """Why a value does not fit, where there is but one reason."""
        type = self._type(label).sql
        is_same = may_be_unfit(type) and self._reading(label).type == type
        return f" ({why_unfit(type)})" if is_same else ""

    def events(self, columns: Mapping[str, Column]) -> Events:
        """The changes as events, those that are refused among them."""
        count = len(self._texts)
        every = range(len(self._types))
        unknown = {i: self._unsent(i) for i in every}
        is_update = self._texts.kinds == wire.UPDATE
        unchanged = {i: mask & is_update for i, mask in unknown.items() if mask is not None}
        return Events(
            _OPERATIONS[self._texts.kinds],
            {i: columns.get(f"c{i}") or null_column(self._types[i], count) for i in every},
            {i: mask for i, mask in unknown.items() if mask is not None and mask.any()},
            {i: columns[f"o{i}"] for i in self._old} or None,
            {i: mask for i, mask in unchanged.items() if i in self._names and mask.any()},
        )

    def _unsent(self, i: int) -> Mask | None:
        if i in self._names:
            return self._texts.unsent.get(self._names[i])
        return np.asarray(self._texts.kinds != wire.DELETE)

    def _before(self, name: str) -> pa.Array:
        """The values before, where a change tells them, else those after."""
        has_old = self._texts.has_old
        after = np.arange(len(has_old)) + int(has_old.sum())
        at = np.where(has_old, has_old.cumsum() - 1, after)
        both = pa.concat_arrays([self._texts.old[name], self._texts.columns[name]])
        return both.take(pa.array(at))

    def _after(self, name: str) -> Column:
        known = self._texts.typed.get(name)
        return ArrowColumn(self._texts.columns[name]) if known is None else known.column

    def _given(self, label: str) -> Column:
        name = self._names[int(label[1:])]
        return self._after(name) if label[0] == "c" else ArrowColumn(self._before(name))

    def _text(self, label: str, row: int) -> str:
        known = self._texts.typed.get(self._names[int(label[1:])])
        found = self._given(label).cell(row) if known is None else known.text(row)
        return str(found)

    def _sent(self, label: str) -> ColumnType:
        """The type in which the values have come."""
        known = self._texts.typed.get(self._names[int(label[1:])])
        return _VARCHAR if known is None else known.type

    def _type(self, label: str) -> ColumnType:
        return self._types[int(label[1:])]

    def _reading(self, label: str) -> Reading:
        return self._readings.get(self._names[int(label[1:])], TEXT)

    def _is_same(self, label: str) -> bool:
        own, sent = self._type(label).sql, self._sent(label)
        return own == sent.sql and (sent is not _VARCHAR or self._reading(label).type == own)

    def _sql(self, label: str) -> str:
        return only_carried(self._cast(label), self._type(label).sql)

    def _cast(self, label: str) -> str:
        reading, own = self._reading(label), self._type(label).sql
        if self._sent(label) is not _VARCHAR:
            return f"TRY_CAST({label} AS {own})"
        value = reading.value(label)
        if reading.type == own:
            return value
        # The text itself may fit where the equal type does not: NaN of NUMERIC into DOUBLE.
        return f"coalesce(TRY_CAST({value} AS {own}), TRY_CAST({label} AS {own}))"

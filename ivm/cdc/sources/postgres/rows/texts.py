"""Changes of one table's rows in columns of PostgreSQL's texts, by the names of the columns.

Copied rows have typed values in some columns instead of texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.cdc.sources.postgres.connections.types import Reading
from ivm.cdc.sources.postgres.log import messages as wire
from ivm.cdc.sources.postgres.rows.tuples import Messages, Rows, Values
from ivm.storage.identifiers import literal
from ivm.storage.scratch import Scratch
from ivm.storage.values.column import Column, Indexes, Mask
from ivm.storage.values.types import ColumnType

_scratch = Scratch()
_NAMES = {wire.INSERT: "insert", wire.UPDATE: "update", wire.DELETE: "delete"}
_KINDS = {name: kind for kind, name in _NAMES.items()}


@dataclass(frozen=True)
class Typed:
    """A column of values that have not come as texts.

    Attributes:
        type: equal to PostgreSQL's, see `types`.
        column: the values.
    """

    type: ColumnType
    column: Column

    def text(self, row: int) -> str | None:
        """A value as a text that is read as this value, see `types`."""
        value = self.column.slice(row, row + 1).to_arrow(self.type)
        if self.type.sql == "BLOB":
            found = value[0].as_py()
            return None if found is None else f"\\x{found.hex()}"
        with _scratch.borrow() as cursor:
            cursor.register("given", pa.table({"v": value}))
            ((text,),) = cursor.sql("SELECT CAST(v AS VARCHAR) FROM given").fetchall()
            cursor.unregister("given")
        return None if text is None else str(text)


@dataclass(frozen=True)
class Texts:
    """Changes in order.

    Attributes:
        kinds: uint8[n], kinds of messages: INSERT, UPDATE or DELETE.
        columns: large strings by column: the row that the change leaves, of a delete the row that
            it removes. NULL where the value is NULL or was not sent.
        unsent: by column, the rows whose value was not sent.
        has_old: the updates that tell the row before.
        old: its columns, of those updates alone.
        typed: the columns that are none of `columns`; only in copied rows.
    """

    kinds: Any
    columns: Mapping[str, pa.Array]
    unsent: Mapping[str, Mask]
    has_old: Mask
    old: Mapping[str, pa.Array]
    typed: Mapping[str, Typed] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kinds)

    def some(self, rows: Indexes) -> Texts:
        """Some of the changes, without columns that are `typed`."""
        has_old = self.has_old[rows]
        old = pa.array((self.has_old.cumsum()[rows] - 1)[has_old])
        return Texts(
            self.kinds[rows],
            {name: array.take(pa.array(rows)) for name, array in self.columns.items()},
            {name: mask[rows] for name, mask in self.unsent.items()},
            has_old,
            {name: array.take(old) for name, array in self.old.items()},
        )

    def before(self, rows: Indexes) -> Texts:
        """The rows before some changes as inserts; of an insert the row itself."""
        has_old = self.has_old[rows]
        place = np.where(has_old, self.has_old.cumsum()[rows] - 1, rows + int(self.has_old.sum()))
        columns = {
            name: pa.concat_arrays([self.old[name], array]).take(pa.array(place))
            for name, array in self.columns.items()
        }
        return inserts(columns, len(rows))

    def payloads(self, rows: Sequence[int]) -> list[str]:
        """Changes as JSON texts, of which `from_payloads` makes them again."""
        place = self.has_old.cumsum() - 1
        return [self._payload(row, int(place[row])) for row in rows]

    def _payload(self, row: int, place: int) -> str:
        sent = {
            name: array[row].as_py()
            for name, array in self.columns.items()
            if name not in self.unsent or not self.unsent[name][row]
        }
        sent |= {name: values.text(row) for name, values in self.typed.items()}
        found: dict[str, Any] = {"op": _NAMES[int(self.kinds[row])], "row": sent}
        if self.has_old[row]:
            found["old"] = {name: array[place].as_py() for name, array in self.old.items()}
        return json.dumps(found, ensure_ascii=False)


def cut(messages: Messages, chosen: Indexes, names: Sequence[str]) -> Texts:
    """The changes that messages of one table are.

    Args:
        messages: of a batch.
        chosen: those of the table, while it has one shape.
        names: of the table's columns.
    """
    rows: Rows = messages.cut(chosen, len(names))
    pairs = zip(names, rows.columns, rows.old, strict=True)
    columns = {name: _told_before(values, old, rows.has_old) for name, values, old in pairs}
    return Texts(
        rows.kinds,
        {name: values.texts for name, values in columns.items()},
        {name: v.unsent for name, v in columns.items() if v.unsent is not None},
        rows.has_old,
        {name: values.texts for name, values in zip(names, rows.old, strict=True)},
    )


def _told_before(values: Values, old: Values, has_old: Mask) -> Values:
    """Values that were not sent from the rows before, which tell those of the replica identity."""
    if values.unsent is None or not (values.unsent & has_old).any():
        return values
    at = (values.unsent & has_old).nonzero()[0]
    place = has_old.cumsum()[at] - 1
    is_told = old.texts.is_valid().to_numpy(zero_copy_only=False)[place]
    rows, unsent = np.arange(len(has_old)), values.unsent.copy()
    rows[at[is_told]] = len(has_old) + place[is_told]
    unsent[at[is_told]] = False
    texts = pa.concat_arrays([values.texts, old.texts]).take(pa.array(rows))
    return Values(texts, unsent if unsent.any() else None)


def inserts(columns: Mapping[str, pa.Array | Typed], count: int) -> Texts:
    """New rows.

    Args:
        columns: of the rows, by name; texts as large strings.
        count: rows.
    """
    kinds = np.full(count, wire.INSERT, np.uint8)
    typed = {name: values for name, values in columns.items() if isinstance(values, Typed)}
    texts = {name: values for name, values in columns.items() if name not in typed}
    return Texts(kinds, texts, {}, np.zeros(count, np.bool_), {}, typed)


def from_payloads(payloads: Sequence[str]) -> Texts:
    """The changes that `Texts.payloads` has written."""
    changes = [json.loads(payload) for payload in payloads]
    rows = [change["row"] for change in changes]
    old = [change["old"] for change in changes if "old" in change]
    names = list(dict.fromkeys(name for row in rows for name in row))
    unsent = {name: np.array([name not in row for row in rows], np.bool_) for name in names}
    return Texts(
        np.array([_KINDS[change["op"]] for change in changes], np.uint8),
        _columns(rows, names),
        {name: mask for name, mask in unsent.items() if mask.any()},
        np.array(["old" in change for change in changes], np.bool_),
        _columns(old, list(dict.fromkeys(name for row in old for name in row))),
    )


def filled(texts: Texts, before: Mapping[str, str | None]) -> Texts:
    """Changes of rows that are older than columns, with the values that they have there.

    Args:
        texts: the changes.
        before: texts of the values or None, by column; one that the changes have stays as it is.
    """
    lacking = {name: text for name, text in before.items() if name not in texts.columns}
    rows = {name: _alike(text, len(texts)) for name, text in lacking.items()}
    old = {name: _alike(text, int(texts.has_old.sum())) for name, text in lacking.items()}
    return replace(texts, columns={**texts.columns, **rows}, old={**texts.old, **old})


def constant(reading: Reading, text: str) -> str:
    """SQL of a text's value that DEFAULT takes: it takes no lambdas."""
    with _scratch.borrow() as cursor:
        value = f"SELECT CAST({reading.value(literal(text))} AS VARCHAR)"
        ((found,),) = cursor.sql(value).fetchall()
    return "NULL" if found is None else f"CAST({literal(found)} AS {reading.type})"


def joined(parts: Sequence[Texts]) -> Texts:
    """Changes one after the other; a column that one part lacks was not sent there."""
    if len(parts) == 1:
        return parts[0]
    names = list(dict.fromkeys(name for part in parts for name in part.columns))
    unsent = {
        name: np.concatenate([_unsent(part, name) for part in parts])
        for name in names
        if any(name not in part.columns or name in part.unsent for part in parts)
    }
    return Texts(
        np.concatenate([part.kinds for part in parts]),
        {name: _chained([(part.columns, len(part)) for part in parts], name) for name in names},
        unsent,
        np.concatenate([part.has_old for part in parts]),
        {
            name: _chained([(part.old, int(part.has_old.sum())) for part in parts], name)
            for name in names
        },
    )


def _columns(rows: Sequence[Mapping[str, str | None]], names: Sequence[str]) -> dict[str, pa.Array]:
    return {name: pa.array([row.get(name) for row in rows], pa.large_string()) for name in names}


def _alike(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.large_string()), count)


def _unsent(part: Texts, name: str) -> Mask:
    if name not in part.columns:
        return np.ones(len(part), np.bool_)
    return part.unsent.get(name, np.zeros(len(part), np.bool_))


def _chained(parts: Sequence[tuple[Mapping[str, pa.Array], int]], name: str) -> pa.Array:
    text = pa.large_string()
    return pa.concat_arrays([columns.get(name, pa.nulls(n, text)) for columns, n in parts])

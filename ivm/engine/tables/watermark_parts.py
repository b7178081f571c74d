"""The parts of a stream, such as its devices, and how far each has come: `WITH (watermark_by = …)`.

Law: the watermark of a table with parts follows the slowest of those that are not idle. A part has
a row of `_ivm.watermark_parts`, which changes in the epoch of its rows. Rows without a part move
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.log.change import TableChange
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, ones

PARTS = "_ivm.watermark_parts"
_TYPES = tuple(
    [type_of(sql) for sql in ("VARCHAR", "VARCHAR", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")]
)
_ALL = tuple(range(len(_TYPES)))
_LONG_AGO = -(2**63)


class Part(NamedTuple):
    """How far a part has come.

    Attributes:
        greatest: the greatest time so far, in microseconds since 1970.
        seen: when its last row came, in the same unit.
    """

    greatest: int
    seen: int


Parts: TypeAlias = Mapping[str, Part]
"""The parts of one table, by their values as texts."""


def can_part(type: ColumnType) -> bool:
    """Returns whether a column of the type can tell parts apart."""
    return type.is_string or (type.is_integer and type.dtype is not None and not type.dtype.names)


def greatest_by_part(
    parts: Column, type: ColumnType, times: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]
) -> dict[str, int]:
    """The greatest time of each part.

    Args:
        parts: the column of the parts, one value a row.
        type: of that column.
        times: in microseconds, one a row.
        kept: the rows that have a time.
    """
    values = parts.to_arrow(type)
    known = kept & values.is_valid().to_numpy(zero_copy_only=False)
    if not known.any():
        return {}
    encoded = pc.cast(values.filter(pa.array(known)), pa.string()).dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    found = np.full(len(names), np.iinfo(np.int64).min)
    np.maximum.at(found, codes, times[known])
    return dict(zip(names, found.tolist(), strict=True))


def moved_parts(parts: Parts, greatest: Mapping[str, int], now: int) -> Parts:
    """The parts after rows with these greatest times have come."""
    new = {
        name: Part(max(at, parts[name].greatest) if name in parts else at, now)
        for name, at in greatest.items()
    }
    return {**parts, **new}


def idle_before(now: int, since: int, idle_after: int | None) -> int:
    """The time before which the last row of a part has come if it is idle; long ago if none is.

    Args:
        now: the microseconds since 1970.
        since: the time from which rows could come, in the same unit.
        idle_after: microseconds without rows after which a part is idle; None: it never is.
    """
    return _LONG_AGO if idle_after is None or now - since <= idle_after else now - idle_after


def slowest(parts: Parts, idle: int) -> int | None:
    """The least of the times that the parts which are not idle have come to; None if all are.

    Args:
        parts: all of a table.
        idle: see `idle_before`.
    """
    return min([part.greatest for part in parts.values() if part.seen >= idle], default=None)


def replaced(
    table: str, old: Parts, new: Parts, names: Iterable[str] | None = None
) -> list[TableChange]:
    """The change of the rows of a table's parts; none if nothing differs.

    Args:
        table: its name.
        old: the parts before.
        new: the parts after.
        names: those that may differ; default all.
    """
    names = {*old, *new} if names is None else names
    differ = [name for name in names if old.get(name) != new.get(name)]
    if not differ:
        return []
    gone = {name: old[name] for name in differ if name in old}
    come = {name: new[name] for name in differ if name in new}
    return [TableChange(PARTS, _rows(table, gone), _ALL, _rows(table, come))]


def _rows(table: str, parts: Parts) -> ZSet:
    texts = [pa.array(t, pa.large_string()) for t in ([table] * len(parts), list(parts))]
    numbers = [np.array([part[i] for part in parts.values()], np.int64) for i in range(2)]
    columns: list[Column] = [*map(ArrowColumn, texts), *map(FixedColumn, numbers)]
    return ZSet(tuple(columns), ones(len(parts)))


def after(known: Mapping[str, Parts], changes: Iterable[TableChange]) -> Mapping[str, Parts]:
    """The parts of all tables after changes of their rows."""
    for change in changes:
        if change.table == PARTS:
            gone, come = _cells(change.removed, change.removed_columns), _cells(change.added, _ALL)
            removed, added = [*gone], [*come]
            found = {table: dict(known.get(table, {})) for table, *_ in (*removed, *added)}
            for table, name, *_ in removed:
                found[table].pop(name, None)
            for table, name, *told in added:
                found[table][name] = Part(*told)
            known = {**known, **found}
    return known


def _cells(rows: ZSet, columns: Sequence[int]) -> Iterator[list[Any]]:
    order = [columns.index(i) for i in range(len(_TYPES)) if i in columns]
    for i in range(len(rows)):
        yield [rows.columns[at].cell(i) for at in order]

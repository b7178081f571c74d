"""What the changes of one transaction come to for the watermarks of their tables.

Law: a change is judged as it is added, by the watermark that its table has then, and by the names
and the columns of then; what it moves goes with the table, by whatever name it is known at the end,
and with what stays of its rows. A row that a change leaves as it is is none of its events. A
watermark that the transaction makes begins with the rows that its table has at the end, none of
which is late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from ivm.catalog.catalog import Catalog
from ivm.engine.tables.row_times import (
    NONE,
    Times,
    finite,
    finite_times,
    greatest,
    micros,
    time_column,
)
from ivm.engine.tables.watermark_parts import greatest_by_part, moved_parts, replaced
from ivm.engine.tables.watermark_rows import Watermark
from ivm.engine.tables.watermarks import Watermarks, late_error
from ivm.engine.transactions.late_events import count, is_whole, late_events, parted
from ivm.engine.transactions.late_letters import LETTERS, letters
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.sql.statements.own.watermarks import DEAD_LETTERS
from ivm.storage.log.change import TableChange
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

Late: TypeAlias = Literal["refused", "counted", "not counted"]
"""What becomes of late rows: they are refused, or dead letters, where that is the policy of their
table, else counted; counted in any case, as those of streams, which are dead letters before; or
neither, as those that go by their age."""


@dataclass
class _Moved:
    """What has been added to and removed from one table.

    Attributes:
        table: its name as of the last change.
        added: the finite times of new rows.
        gone: those of removed rows.
        late: the late events.
        parts: the parts and times of both, with signs.
        types: of these.
    """

    table: str
    added: list[Times] = field(default_factory=list)
    gone: list[Times] = field(default_factory=list)
    late: int = 0
    parts: list[ZSet] = field(default_factory=list)
    types: tuple[ColumnType, ...] = ()


class Accepted(NamedTuple):
    """A change that a transaction takes.

    Attributes:
        change: without late events that become dead letters.
        late: these; None if there are none.
    """

    change: TableChange
    late: TableChange | None


class WatermarkMoves:
    """The watermarks in one transaction.

    Args:
        watermarks: the committed ones.
        catalog: as the transaction changes it.
        changes: of the transaction; the list grows.
    """

    def __init__(
        self, watermarks: Watermarks, catalog: Catalog, changes: Sequence[TableChange]
    ) -> None:
        self._watermarks, self._catalog, self._changes = watermarks, catalog, changes
        self._moved: dict[int, _Moved] = {}
        self._begun: set[int] = set()
        self._marked = False

    @property
    def marks(self) -> Mapping[str, Watermark]:
        """The watermarks as of the transaction's statements so far."""
        watermarks = self._watermarks
        return watermarks.after(self._changes) if self._marked else watermarks.known

    def begin(self, table: str) -> None:
        """Notes that a table gets its watermark, or other parts of it, in this transaction."""
        self._begun.add(self._catalog.tables[table].oid)

    def end(self, table: str) -> None:
        """Forgets what has been noted of a table whose watermark is dropped."""
        info = self._catalog.tables.get(table)
        if info is not None:
            self._moved.pop(info.oid, None)
            self._begun.discard(info.oid)

    def accept(
        self, change: TableChange, late: Late, whole: Callable[[TableChange], TableChange]
    ) -> Accepted:
        """Notes a change that is about to be added, and parts it from late events.

        Args:
            change: of a table.
            late: what becomes of its late rows.
            whole: gives a change of a table with a key all columns of the rows that go. Late rows
                that are only counted are counted without, also where they stay as they are.

        Raises:
            ConstraintError: it has late events, and its table refuses them, or it cannot be told
                which rows are of one.
        """
        self._marked |= change.table == WATERMARKS
        mark = self.marks.get(change.table)
        info = self._catalog.tables.get(change.table)
        at = None if mark is None or info is None else mark.position(info)
        if mark is None or info is None or at is None:
            return Accepted(change, None)
        moved = self._moved.setdefault(info.oid, _Moved(info.name))
        moved.table, events, buried = info.name, None, None
        if late != "not counted":
            change, events = _judged(info, change, mark, whole)
        if events is not None and late == "refused" and mark.late == "refuse":
            raise late_error(mark, info, events)
        if events is not None and late == "refused" and mark.late == DEAD_LETTERS:
            change, buried = parted(info, change, events, mark)
        moved.late += 0 if events is None else count(info, buried or events)
        _collect(moved, info, mark, at, change)
        return Accepted(change, buried)

    def letters_of(self, late: TableChange) -> TableChange:
        """The change by which late events become dead letters; see `accept`."""
        tables, mark = self._catalog.tables, self.marks[late.table]
        return letters(tables[late.table], late, mark, tables[LETTERS].schema)

    def take(self, cursor: Cursor) -> list[TableChange]:
        """The changes of the watermarks and their parts by which they follow what has been noted.

        It is forgotten then.

        Args:
            cursor: sees the rows of tables that get a watermark in it.
        """
        if not self._moved and not self._begun:
            return []
        marks, found, parts = self.marks, [], list[TableChange]()
        for oid in {*self._moved, *self._begun}:
            info = self._info(oid)
            mark = None if info is None else marks.get(info.name)
            if info is not None and mark is not None:
                new, changed = self._after(mark, info, cursor)
                found.append((mark, new))
                parts += changed
        self._moved, self._begun = {}, set()
        return [*self._watermarks.replacements(found), *parts]

    def _after(
        self, mark: Watermark, info: TableInfo, cursor: Cursor
    ) -> tuple[Watermark, list[TableChange]]:
        """A watermark after the transaction, and the change of its parts."""
        watermarks, moved = self._watermarks, self._moved.get(info.oid) or _Moved(info.name)
        old = new = watermarks.parts_after(info.name, self._changes)
        come: Mapping[str, int] | None = None
        if info.oid in self._begun:
            last, new = watermarks.begun(mark, info, cursor)
        elif mark.by is None:
            last = greatest(moved.added, moved.gone)
        else:
            come = _come(moved)
            last = max(come.values(), default=None)
            new = moved_parts(old, come, watermarks.now()) if come else old
        slowest = watermarks.slowest(mark, new)
        after = mark.after(last, moved.late, watermarks.now, slowest)
        return after, replaced(info.name, old, new, come)

    def _info(self, oid: int) -> TableInfo | None:
        """The table, under the name that it has now; None if it is gone."""
        tables, moved = self._catalog.tables, self._moved.get(oid)
        info = None if moved is None else tables.get(moved.table)
        if info is not None and info.oid == oid:
            return info
        return next((info for info in tables.values() if info.oid == oid), None)


def _come(moved: _Moved) -> Mapping[str, int]:
    """The greatest times of the parts of rows that are added and stay."""
    if not moved.parts:
        return {}
    rows = add(moved.parts)
    if len(moved.parts) > 1:
        rows = consolidate(rows, moved.types)
    parts, times = rows.filter(rows.weights > 0).columns
    return greatest_by_part(parts, moved.types[0], micros(times), finite(times))


def _judged(
    info: TableInfo,
    change: TableChange,
    mark: Watermark,
    whole: Callable[[TableChange], TableChange],
) -> tuple[TableChange, TableChange | None]:
    """A change, with all columns of rows that go where these matter, and its late events.

    By all columns a late row may stay as it is, and a dead letter has them.
    """
    events = late_events(info, change, mark)
    told = mark.late != "apply" and bool(info.primary_key) and not is_whole(change, info)
    if events is None or not len(events.removed) or not told:
        return change, events
    change = whole(change)
    return change, late_events(info, change, mark)


def _collect(found: _Moved, info: TableInfo, mark: Watermark, at: int, change: TableChange) -> None:
    """Adds the times of a change, and those of its parts."""
    for rows, columns, times in (
        (change.added, None, found.added),
        (change.removed, change.removed_columns, found.gone),
    ):
        column = time_column(rows, at, columns)
        times.append(NONE if column is None else finite_times(column))
        by = None if mark.by is None else info.position(mark.by)
        part = None if by is None or column is None else time_column(rows, by, columns)
        if by is not None and part is not None and column is not None:
            weights = rows.weights if columns is None else -rows.weights
            found.parts.append(ZSet((part, column), weights))
            found.types = (info.schema[by][1], info.schema[at][1])

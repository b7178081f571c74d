"""What the changes of one transaction come to for the watermarks of their tables.

Law: a change is judged as it is added, by the watermark that its table has then, and by the names
and the columns of then; what it moves goes with the table, by whatever name it is known at the end,
and with what stays of its rows. A row that a change leaves as it is is none of its events. A
watermark that the transaction makes begins with the rows that its table has at the end, none of
which is late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ivm.catalog.catalog import Catalog
from ivm.engine.tables.row_times import (
    NONE,
    Times,
    before,
    finite,
    finite_times,
    greatest,
    micros,
    time_column,
)
from ivm.engine.tables.watermark_parts import greatest_by_part, moved_parts, replaced
from ivm.engine.tables.watermark_rows import Watermark
from ivm.engine.tables.watermarks import Watermarks, late_error
from ivm.engine.transactions.late_events import LETTERS, Parted, letters, parted
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.sql.statements.own.watermarks import DEAD_LETTERS
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import concat
from ivm.storage.values.consolidate import consolidate, distinct_rows
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

    def needs_whole_rows(self, change: TableChange) -> bool:
        """Whether all columns of the rows that a change removes tell what becomes of late ones.

        A change may leave them as they are, and a letter has all of them.

        Where late rows are only counted, those whose columns are not all at hand are, too.
        """
        mark = self.marks.get(change.table)
        if mark is None or mark.at is None or mark.late == "apply":
            return False
        info = self._catalog.tables.get(change.table)
        at = None if info is None else mark.position(info)
        if info is None or at is None or not info.primary_key or _is_whole(change, info):
            return False
        come, gone = _late_rows(at, change, mark.at)
        told = mark.late == DEAD_LETTERS  # a letter has all of the row
        return gone is not None and (come is not None or told)

    def note(self, change: TableChange, late: Late) -> None:
        """Notes a change that is about to be added.

        Args:
            change: of a table.
            late: what becomes of its late rows.

        Raises:
            ConstraintError: it has late rows, and its table refuses them.
        """
        self._marked |= change.table == WATERMARKS
        mark = self.marks.get(change.table)
        info = self._catalog.tables.get(change.table)
        at = None if mark is None or info is None else mark.position(info)
        if mark is None or info is None or at is None:
            return
        found = self._moved.setdefault(info.oid, _Moved(info.name))
        found.table = info.name
        if mark.at is not None and late != "not counted":
            judged = _judged(info, at, change, mark.at)
            if judged is not None and mark.late == "refuse" and late == "refused":
                raise late_error(mark, info, judged)
            found.late += 0 if judged is None else _events(info, judged)
        _collect(found, info, mark, at, change)

    def parted(self, change: TableChange, late: Late) -> Parted | None:
        """A change that is about to be added, parted by its late events.

        They are counted, and are to become the letters that `letters_of` gives.

        Args:
            change: of a table.
            late: what becomes of its late rows.

        Returns:
            None where no late events become dead letters.

        Raises:
            ConstraintError: it cannot be told which rows are of one event.
        """
        mark, info = self._late_mark(change, late)
        at = None if mark is None or info is None else mark.position(info)
        if mark is None or info is None or at is None:
            return None
        found = parted(info, at, change, mark)
        if found is not None:
            moved = self._moved.setdefault(info.oid, _Moved(info.name))
            moved.late += _events(info, found.late)
        return found

    def letters_of(self, late: TableChange) -> TableChange:
        """The change by which late events become dead letters; see `parted`."""
        tables, mark = self._catalog.tables, self.marks[late.table]
        return letters(tables[late.table], late, mark, tables[LETTERS].schema)

    def _late_mark(
        self, change: TableChange, late: Late
    ) -> tuple[Watermark | None, TableInfo | None]:
        """The watermark before which the rows of a change become dead letters, and their table."""
        mark = self.marks.get(change.table) if late == "refused" else None
        known = mark is not None and mark.late == DEAD_LETTERS and mark.at is not None
        return (mark, self._catalog.tables.get(change.table)) if known else (None, None)

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


def _is_whole(change: TableChange, info: TableInfo) -> bool:
    """Whether all columns are known of the rows that a change removes."""
    return len(change.removed_columns) == len(info.schema)


def _late_rows(at: int, change: TableChange, mark: int) -> list[ZSet | None]:
    """The late ones of the rows that a change adds, and of those that it removes; None for none."""
    found: list[ZSet | None] = []
    for rows, columns in ((change.added, None), (change.removed, change.removed_columns)):
        times = time_column(rows, at, columns)
        late = None if times is None else before(times, mark)
        found.append(None if late is None or not late.any() else rows.filter(late))
    return found


def _judged(info: TableInfo, at: int, change: TableChange, mark: int) -> TableChange | None:
    """What a change does to late rows, but for those that it leaves as they are; None if nothing.

    A row is left as it is if it goes and comes with the same values.
    """
    come, gone = _late_rows(at, change, mark)
    if come is not None and gone is not None and _is_whole(change, info):
        rest = consolidate(add([come, gone.negate()]), [type for _, type in info.schema])
        come, gone = rest.filter(rest.weights > 0), rest.filter(rest.weights < 0).negate()
    if not come and not gone:
        return None
    added = change.added.slice(0, 0) if come is None else come
    removed = change.removed.slice(0, 0) if gone is None else gone
    return TableChange(change.table, removed, change.removed_columns, added)


def _events(info: TableInfo, change: TableChange) -> int:
    """How many events a change of late rows is: an update of a row is one."""
    come, gone, key = change.added, change.removed, info.primary_key
    if not len(come) or not len(gone) or not key:
        return int(max(come.weights.sum(), gone.weights.sum()))
    positions = [change.removed_columns.index(i) for i in key]
    keys = zip(come.project(key).columns, gone.project(positions).columns, strict=True)
    types = [info.schema[i][1] for i in key]
    return len(distinct_rows([concat(pair) for pair in keys], types).first)


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

"""Net changes into DuckDB's tables: deletions, then updates in place, then insertions.

Law: table after = table before − deleted + inserted, as multisets of exact representations; in
between it never holds a key twice. Rows that only get other values under the same key may be
updated in place: without the index work of a deletion and an insertion that is faster for a few
rows and for very many, and the only way where foreign keys point at the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ivm.storage.identifiers import quote
from ivm.storage.values import thresholds
from ivm.storage.values.column import FixedColumn, Mask
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb.appender import Appenders, python_rows
from ivm.storage.warehouse.duckdb.duck import Cursor, evaluate, registered, run
from ivm.storage.warehouse.duckdb.duck import rows as read
from ivm.storage.warehouse.flush.reference_levels import levels
from ivm.storage.warehouse.flush.row_ids import same_row

_DELTA = "_ivm_delta"
_COUNT = "_ivm_count"
_COUNT_TYPE = type_of("BIGINT")
_NUMBER = "system.main.row_number() OVER (PARTITION BY d._ivm_id)"
"""SQL: the number of a row among those identical to it."""


@dataclass(frozen=True)
class NetChange:
    """The change that a flush makes to one relation: deletions first, then insertions.

    Attributes:
        delete: the rows to delete, only the columns at `delete_columns`; weights are positive
            counts. With `by_key` each deletes the row with that key, else exactly `weight` rows
            that are identical to it.
        delete_columns: positions in the relation's schema (all of them unless `by_key`).
        by_key: the deleted columns are a key of the relation; without columns, it has at most one
            row.
        insert: full rows; weights are positive counts.
        replaced: the first so many rows of `insert` have the keys of the first so many rows of
            `delete`, in the same order and representation; weights are 1.
        kept: positions of columns that have in all replaced rows the values that are stored.
    """

    delete: ZSet
    delete_columns: tuple[int, ...]
    by_key: bool
    insert: ZSet
    replaced: int = 0
    kept: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.delete) + len(self.insert)


@dataclass(frozen=True)
class Target:
    """A table that is written to.

    Attributes:
        table: quoted, qualified name.
        schema: all its columns.
        generated: positions of columns that DuckDB computes.
        exchanged: columns of constraints or indexes besides its primary key, which an update in
            place could violate for a moment.
        parents: canonical names of tables its foreign keys point at.
        referenced: foreign keys point at it.
        own_reference: the foreign key of the table to itself: the columns that refer, and those
            that they refer to.
        moved_by: columns whose update would be a removal to DuckDB, which it then refuses.
        touched: of a table with a key that is not stored, the table of the keys that were changed
            since its history; see `ivm.storage.warehouse.tables.history`.
        epoch: that the change is part of; only a table that is not stored keeps it.
    """

    table: str
    schema: Schema
    generated: frozenset[int] = frozenset()
    exchanged: frozenset[int] = frozenset()
    parents: tuple[str, ...] = ()
    referenced: bool = False
    own_reference: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    moved_by: frozenset[int] = frozenset()
    touched: str | None = None
    epoch: int = 0

    def at(self, epoch: int) -> Target:
        """The target of a change that is part of an epoch."""
        return self if self.touched is None else replace(self, epoch=epoch)


def apply_change(cursor: Cursor, table: str, schema: Schema, change: NetChange) -> None:
    """Applies one relation's net change inside the cursor's transaction.

    Args:
        cursor: with a write transaction.
        table: quoted, qualified name of a table without generated columns.
        schema: of the table.
        change: rows of that schema.

    Raises:
        duckdb.Error: a constraint the caller should have enforced, or the disk.
    """
    target = Target(table, schema, exchanged=frozenset(range(len(schema))))
    apply_changes(cursor, [("", target, change)], Appenders(cursor))


def apply_changes(
    cursor: Cursor, changes: Iterable[tuple[str, Target, NetChange]], appenders: Appenders
) -> None:
    """Applies net changes of several relations inside the cursor's transaction.

    Args:
        cursor: with a write transaction.
        changes: canonical name, table and change. Referenced tables lose rows after, and gain
            rows before those that reference them.
        appenders: of that cursor.

    Raises:
        duckdb.Error: a constraint the caller should have enforced, or the disk.
    """
    changes = list(changes)
    for _, target, change in changes:
        if target.touched is not None and len(change):
            _touch(cursor, target.touched, target, change)
    parts = {name: (target, *_split(target, change)) for name, target, change in changes}
    order = _parents_first({name: part[0] for name, part in parts.items()})
    for target, delete, _, _ in [parts[name] for name in reversed(order)]:
        if len(delete.delete):
            _delete(cursor, target, delete, appenders)
    for target, _, update, _ in [parts[name] for name in order]:
        if len(update.insert):
            _update(cursor, target, update, appenders)
    for target, _, _, insert in [parts[name] for name in order]:
        if len(insert):
            for part in _in_order(target, insert):
                _insert(cursor, target, part, appenders)


def _touch(cursor: Cursor, touched: str, target: Target, change: NetChange) -> None:
    """Notes the keys of a change: the rows of the history with these keys count no more."""
    key = change.delete_columns
    keys = add([change.delete, change.insert.project(key)])
    schema = tuple([target.schema[i] for i in key])
    with registered(cursor, {_DELTA: (keys, schema)}):
        values = f"SELECT DISTINCT *, {target.epoch} FROM {_DELTA}"
        run(cursor, f"INSERT OR REPLACE INTO {touched} {values}")


def lacking(cursor: Cursor, target: Target, change: NetChange) -> int:
    """The number of rows that a change removes and the table does not have."""
    batch, columns = change.delete, tuple([target.schema[i] for i in change.delete_columns])
    if not len(batch) or not columns:
        return 0
    with registered(cursor, {_DELTA: _counted(columns, batch)}):
        met = _met(target.table, columns, batch)
        found = f"SELECT system.main.count(*) FROM (SELECT 1 {met} QUALIFY {_NUMBER} <= d.{_COUNT})"
        return int(batch.weights.sum()) - int(read(cursor, found)[0][0])


def _split(target: Target, change: NetChange) -> tuple[NetChange, NetChange, ZSet]:
    """The change as deletions, updates in place, and insertions."""
    delete, insert, key = change.delete, change.insert, (change.delete_columns, change.by_key)
    mask = _in_place(target, change)
    if mask.all():  # also if nothing is replaced
        olds, news = _cut(delete, len(mask)), _cut(insert, len(mask))
    else:
        olds, news = _part(delete, mask), _part(insert, mask)
    nothing, count = insert.slice(0, 0), len(news[0])
    update = NetChange(olds[0], *key, news[0], count, change.kept)
    return NetChange(olds[1], *key, nothing), update, news[1]


def _cut(batch: ZSet, count: int) -> tuple[ZSet, ZSet]:
    return batch.slice(0, count), batch.slice(count, len(batch))


def _part(batch: ZSet, mask: Mask) -> tuple[ZSet, ZSet]:
    """The leading rows where the mask is true, and all others."""
    chosen = np.zeros(len(batch), np.bool_)
    chosen[: len(mask)] = mask
    return batch.filter(chosen), batch.filter(~chosen)


def _in_place(target: Target, change: NetChange) -> Mask:
    """A mask of the replaced rows that are updated in place.

    DuckDB's fault `unwritten_values`: it leaves a value as it is when the new one is equal in SQL,
    so 0.0 would not become -0.0 nor '1 month' '30 days'. A referenced row cannot be deleted, and
    keeps its equal value.
    """
    count = change.replaced
    if target.referenced:
        return np.ones(count, np.bool_)
    written = _written(target, change)
    many = thresholds.UPDATED_ROWS * len(written)
    worthwhile = count <= thresholds.APPENDED_ROWS or count >= many
    of_history = target.touched is not None  # where a replaced row may lie
    if not worthwhile or of_history or not target.exchanged.isdisjoint(written):
        return np.zeros(count, np.bool_)
    mask = np.ones(count, np.bool_)
    for position in written:
        column, type = change.insert.columns[position], target.schema[position][1]
        if type.is_float and isinstance(column, FixedColumn):
            mask &= column.values[:count] != 0
        elif not is_exact(type):
            mask[:] = False
    return mask


def _written(target: Target, change: NetChange) -> list[int]:
    """The columns that may have other values in replaced rows."""
    others = {*change.delete_columns, *target.generated, *change.kept}
    return [i for i in range(len(target.schema)) if i not in others]


def _parents_first(targets: Mapping[str, Target]) -> list[str]:
    ordered: dict[str, None] = {}

    def visit(name: str, above: Collection[str]) -> None:
        for parent in targets[name].parents:
            if parent in targets and parent not in above and parent not in ordered:
                visit(parent, {*above, parent})
        ordered[name] = None

    for name in targets:
        if name not in ordered:
            visit(name, {name})
    return list(ordered)


def _in_order(target: Target, batch: ZSet) -> Iterator[ZSet]:
    """The rows in parts, each of which refers to rows of those before it alone."""
    if target.own_reference is None or len(batch) < 2:
        yield batch
        return
    referring, key = target.own_reference
    columns = [[batch.columns[i] for i in positions] for positions in (referring, key)]
    for rows in levels(columns[0], columns[1], [target.schema[i][1] for i in key]):
        if len(rows):
            yield batch.take(rows)


def _insert(cursor: Cursor, target: Target, batch: ZSet, appenders: Appenders) -> None:
    """Inserts each row as often as its weight says."""
    written = [i for i in range(len(target.schema)) if i not in target.generated]
    schema = tuple([target.schema[i] for i in written])
    batch = batch.one_by_one().project(written)
    rows = python_rows(batch, schema)
    if rows is not None and not target.generated:
        appenders.write(target.table, rows)
        return
    names = ", ".join([quote(name) for name, _ in schema])
    with registered(cursor, {_DELTA: (batch, schema)}):
        run(cursor, f"INSERT INTO {target.table} ({names}) SELECT {names} FROM {_DELTA}")


def _update(cursor: Cursor, target: Target, change: NetChange, appenders: Appenders) -> None:
    """Gives the rows with the deleted keys the inserted values."""
    written = _written(target, change)
    moving = [i for i in written if i in target.moved_by]
    if moving:
        _update_moved(cursor, target, change, moving)
        written = [i for i in written if i not in target.moved_by]
    if not written:
        return
    rows = python_rows(change.insert, target.schema)
    if rows is not None and not target.generated and _no_nulls(change.delete):
        if len(rows) == 1:
            _update_one(target, change, written, rows[0], appenders)
            return
        every = {*range(len(target.schema))}.difference(change.delete_columns)
        if every.isdisjoint(target.moved_by | target.exchanged):  # the appender writes them all
            key = tuple([target.schema[i][0] for i in change.delete_columns])
            appenders.write(target.table, rows, "update", key)
            return
    _update_joined(cursor, target, change, written)


def _update_joined(
    cursor: Cursor,
    target: Target,
    change: NetChange,
    written: Sequence[int],
    where: str = "",
) -> None:
    names = [quote(target.schema[i][0]) for i in written]
    settings = ", ".join([f"{name} = d.{name}" for name in names])
    same = _same([target.schema[i][0] for i in change.delete_columns], change.delete) + where
    lent = [*change.delete_columns, *written]
    rows, schema = change.insert.project(lent), tuple([target.schema[i] for i in lent])
    with registered(cursor, {_DELTA: (rows, schema)}):
        run(cursor, f"UPDATE {target.table} AS t SET {settings} FROM {_DELTA} AS d WHERE {same}")


def _update_moved(cursor: Cursor, target: Target, change: NetChange, moving: Sequence[int]) -> None:
    """Updates columns with an index where they change, in rows that nothing refers to then."""
    names = [quote(target.schema[i][0]) for i in moving]
    differ = " OR ".join([f"t.{name} IS DISTINCT FROM d.{name}" for name in names])
    _update_joined(cursor, target, change, moving, f" AND ({differ})")


def _update_one(
    target: Target,
    change: NetChange,
    written: Sequence[int],
    row: Sequence[object],
    appenders: Appenders,
) -> None:
    """One row by a statement: planning one costs less than an appender's writing."""
    columns = tuple([target.schema[i] for i in change.delete_columns])
    (key,) = python_rows(change.delete, columns) or [()]
    settings = ", ".join([f"{quote(target.schema[i][0])} = ?" for i in written])
    sql = f"UPDATE {target.table} SET {settings} WHERE {_is(columns)}"
    appenders.run(sql, [*[row[i] for i in written], *key])


def _is(columns: Schema) -> str:
    """SQL that compares columns with the parameters' values."""
    terms = [f"{quote(name)} = CAST(? AS {type.sql})" for name, type in columns]
    return " AND ".join(terms) or "true"


def _delete(cursor: Cursor, target: Target, change: NetChange, appenders: Appenders) -> None:
    columns = tuple([target.schema[i] for i in change.delete_columns])
    if not change.by_key:
        if any(name.lower() == "rowid" for name, _ in target.schema):
            _delete_and_restore(cursor, target, columns, change.delete, appenders)
        else:
            _delete_identical(cursor, target.table, columns, change.delete)
        return
    if not columns:
        run(cursor, f"DELETE FROM {target.table}")
        return
    key = tuple([name for name, _ in columns])
    rows = python_rows(change.delete, columns)
    if rows is not None and _no_nulls(change.delete):
        if len(rows) == 1:
            appenders.run(f"DELETE FROM {target.table} WHERE {_is(columns)}", list(rows[0]))
        else:
            appenders.write(target.table, rows, "delete", key)
        return
    same = _same(key, change.delete)
    with registered(cursor, {_DELTA: (change.delete, columns)}):
        run(cursor, f"DELETE FROM {target.table} AS t USING {_DELTA} AS d WHERE {same}")


def _no_nulls(batch: ZSet) -> bool:
    return all(column.valid is None for column in batch.columns)


def _same(names: Iterable[str], batch: ZSet) -> str:
    """SQL that joins the table `t` with the delta `d` of these columns, NULL equal to NULL.

    Only `=` lets DuckDB skip blocks of the table by the delta's smallest and greatest value.
    """
    signs = ["=" if c.valid is None else "IS NOT DISTINCT FROM" for c in batch.columns]
    pairs = zip(names, signs, strict=True)
    return " AND ".join([f"t.{quote(n)} {sign} d.{quote(n)}" for n, sign in pairs]) or "true"


def _delete_identical(cursor: Cursor, table: str, columns: Schema, batch: ZSet) -> None:
    """Deletes exactly `weight` of the rows identical to each one of the batch."""
    if batch.weights.tolist() == [1] and all(is_exact(t) for _, t in columns):
        rows = python_rows(batch, columns)
        if rows is not None:
            _delete_one_identical(cursor, table, columns, rows[0])
            return
    with registered(cursor, {_DELTA: _counted(columns, batch)}):
        chosen = f"SELECT t.rowid {_met(table, columns, batch)} QUALIFY {_NUMBER} <= d.{_COUNT}"
        same = f"t.rowid {same_row(cursor, table)} d.id"
        run(cursor, f"DELETE FROM {table} AS t USING ({chosen}) AS d(id) WHERE {same}")


def _delete_and_restore(
    cursor: Cursor, target: Target, columns: Schema, batch: ZSet, appenders: Appenders
) -> None:
    """Deletes as `_delete_identical` does, for DuckDB's fault `hidden_row_ids`."""
    given = {_DELTA: _counted(columns, batch)}
    listed = ", ".join([f"t.{quote(name)}" for name, _ in target.schema])
    more = f"SELECT {listed} {_met(target.table, columns, batch)} QUALIFY {_NUMBER} > d.{_COUNT}"
    rest = evaluate(cursor, more, given, target.schema)
    with registered(cursor, given):
        same = _identical(columns, batch)
        run(cursor, f"DELETE FROM {target.table} AS t USING {_DELTA} AS d WHERE {same}")
    if len(rest):
        _insert(cursor, target, rest, appenders)


def _counted(columns: Schema, batch: ZSet) -> tuple[ZSet, Schema]:
    """The batch with its weights as one more column."""
    counted = ZSet((*batch.columns, FixedColumn(batch.weights)), batch.weights)
    return counted, (*columns, (_COUNT, _COUNT_TYPE))


def _met(table: str, columns: Schema, batch: ZSet) -> str:
    """SQL: FROM the table's rows `t` that are identical to a row `d` of the delta."""
    delta = f"(SELECT *, system.main.row_number() OVER () AS _ivm_id FROM {_DELTA})"
    return f"FROM {table} AS t JOIN {delta} AS d ON {_identical(columns, batch)}"


def _identical(columns: Schema, batch: ZSet) -> str:
    same = _same([name for name, _ in columns], batch)
    return same + "".join([_told_apart(quote(name), type) for name, type in columns])


def _delete_one_identical(
    cursor: Cursor, table: str, columns: Schema, row: tuple[object, ...]
) -> None:
    """One row by its values: a scan for them is planned faster than a join with one row."""
    signs = ["IS NOT DISTINCT FROM" if value is None else "=" for value in row]
    pairs = zip(columns, signs, strict=True)
    same = " AND ".join([f"{quote(n)} {sign} CAST(? AS {t.sql})" for (n, t), sign in pairs])
    first = f"SELECT system.main.min(rowid) FROM {table} WHERE {same}"
    run(cursor, f"DELETE FROM {table} WHERE rowid = ({first})", list(row))


def is_exact(type: ColumnType) -> bool:
    """Returns whether SQL's equality of this type's values is that of their representation."""
    if type.is_float or type.is_interval or type.sql == "TIME WITH TIME ZONE":
        return False
    return type.dtype is not None or type.is_bytes or type.sql == "BIT"


def _told_apart(column: str, type: ColumnType) -> str:
    """SQL that distinguishes equal values of different representation."""
    if is_exact(type):
        return ""
    form = "system.main.signbit({})" if type.is_float else "{}::VARCHAR"
    table, delta = form.format(f"t.{column}"), form.format(f"d.{column}")
    return f" AND {table} IS NOT DISTINCT FROM {delta}"

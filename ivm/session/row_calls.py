"""insert, upsert, delete and apply: rows without SQL, through the door or through DuckDB.

Law: the same call means the same on every table; a table without a door (foreign keys, generated
columns, several keys) is changed by the SQL that says the same. Names are resolved within the
writers' turn, as in `ivm.session.dml`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ivm.catalog.catalog import name_parts
from ivm.engine.transaction import Transaction
from ivm.ingest.fast_path import FastPath, last_of_each
from ivm.ingest.rows import Rows
from ivm.session.dml import natively, refuse_view
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import ConstraintError, InputError, SqlError
from ivm.storage.identifiers import quote
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.values.zset import Weights, ZSet
from ivm.storage.warehouse.duck import registered
from ivm.storage.warehouse.table_info import TableInfo

_GIVEN = "_ivm_given"
Given = dict[int, Column]
Said = tuple[str, Given]
"""A statement that changes a table by the rows lent to it under the name `_GIVEN`, and these."""


def insert(session: Session, table: str, rows: Rows) -> int:
    """See `Database.insert`."""

    def fast(door: FastPath, transaction: Transaction, given: Given, count: int) -> TableChange:
        index = transaction.index(door) if door.key else None
        return door.insert(given, count, index)

    return _change(session, table, rows, fast, _insert)


def upsert(session: Session, table: str, rows: Rows) -> int:
    """See `Database.upsert`."""

    def fast(door: FastPath, transaction: Transaction, given: Given, count: int) -> TableChange:
        whole = len(given) < len(door.schema)
        return door.upsert(given, count, transaction.index(door, whole=whole))

    return _change(session, table, rows, fast, _upsert)


def delete(session: Session, table: str, keys: Rows) -> int:
    """See `Database.delete`."""

    def fast(door: FastPath, transaction: Transaction, given: Given, count: int) -> TableChange:
        return door.delete(given, count, transaction.index(door))

    return _change(session, table, keys, fast, _delete)


def apply(session: Session, table: str, rows: Rows, given_weights: npt.ArrayLike) -> int:
    """See `Database.apply`."""
    weights = _weights(given_weights)
    with session.writing() as transaction:
        info = _info(session, table)
        given, count = session.engine.reader(info.name).read(rows, session.cursor)
        _need_weights(count, weights)
        door = session.door(info.name)
        if door is None:
            _apply_natively(session, transaction, info, given, weights)
        elif count:
            transaction.add(door.apply(given, weights, transaction.index(door)))
        return count


def _weights(given: npt.ArrayLike) -> Weights:
    """Weights as integers that lose nothing."""
    array = np.asarray(given)
    if array.ndim == 1 and array.dtype.kind in "iuf":
        with np.errstate(invalid="ignore"):
            weights = array.astype(np.int64)
        if (weights == array).all():
            return weights
    raise InputError(f"weights are integers, one for each row, not {given!r}")


def _need_weights(count: int, weights: Weights) -> None:
    if len(weights) != count:
        raise InputError(f"{count} rows need {count} weights, not {len(weights)}")


def _info(session: Session, table: str) -> TableInfo:
    catalog = session.engine.catalog
    parts = name_parts(table)
    name = session.names.resolve(parts)
    if name is None:
        if (base := session.names.hides(parts)) is not None:
            raise SqlError(
                f"{table!r} means a temporary table here: change that one by SQL; the database's "
                f"own is {catalog.qualified[base]}"
            )
        known = ", ".join(catalog.tables) or "none yet (CREATE TABLE makes one)"
        raise SqlError(f"there is no table {table!r}; there are: {known}")
    if name in catalog.views:
        refuse_view(catalog.views[name])
    return catalog.tables[name]


def _change(
    session: Session,
    table: str,
    rows: Rows,
    fast: Callable[[FastPath, Transaction, Given, int], TableChange],
    said: Callable[[TableInfo, Given], Said],
) -> int:
    with session.writing() as transaction:
        info = _info(session, table)
        given, count = session.engine.reader(info.name).read(rows, session.cursor)
        if count == 0:
            return 0
        door = session.door(info.name)
        if door is not None:
            transaction.add(fast(door, transaction, given, count))
            return count
        _by_sql(session, transaction, info, *said(info, given))
        return count


def _by_sql(
    session: Session, transaction: Transaction, info: TableInfo, text: str, given: Given
) -> None:
    count = _count(given)
    schema = tuple(info.schema[i] for i in given)
    batch = ZSet(tuple(given.values()), np.ones(count, np.int64))
    (statement,) = st.parse(text)
    assert isinstance(statement, st.Dml)
    with registered(session.cursor, {_GIVEN: (batch, schema)}):
        changed = natively(session, transaction, statement, info, None).rowcount
    if statement.kind == "delete" and changed < count:
        raise ConstraintError(
            f"cannot delete {count} rows of table {info.name!r}: {count - changed} of them are not"
            " stored (as often); nothing was changed"
        )


def _count(given: Given) -> int:
    return len(next(iter(given.values())))


def _apply_natively(
    session: Session, transaction: Transaction, info: TableInfo, given: Given, weights: Weights
) -> None:
    missing = set(range(len(info.schema))) - set(info.generated) - set(given)
    if len(weights) and missing:
        names = ", ".join(info.schema[i][0] for i in sorted(missing))
        raise InputError(f"apply to {info.name!r} needs every column; missing: {names}")
    for sign, said in ((-1, _delete), (1, _insert)):
        chosen = np.repeat(np.arange(len(weights)), np.maximum(weights * sign, 0))
        part = {i: c.take(chosen) for i, c in given.items()}
        keys = {i: part[i] for i in info.primary_key or part} if sign < 0 else part
        if len(chosen):
            _by_sql(session, transaction, info, *said(info, keys))


def _insert(info: TableInfo, given: Given) -> Said:
    return f"INSERT INTO {info.qualified} BY NAME FROM {_GIVEN}", given


def _upsert(info: TableInfo, given: Given) -> Said:
    """The last of several rows with one key wins."""
    if not info.primary_key or not set(info.primary_key) <= set(given):
        raise InputError(f"upsert into {info.name!r} needs a primary key and all its columns")
    key = ", ".join(quote(info.schema[i][0]) for i in info.primary_key)
    rest = [quote(info.schema[i][0]) for i in given if i not in info.primary_key]
    sets = ", ".join(f"{name} = excluded.{name}" for name in rest)
    action = f"UPDATE SET {sets}" if rest else "NOTHING"
    keys = [given[i] for i in info.primary_key]
    last = last_of_each(keys, [info.schema[i][1] for i in info.primary_key])
    text, _ = _insert(info, given)
    return f"{text} ON CONFLICT ({key}) DO {action}", {i: c.take(last) for i, c in given.items()}


def _delete(info: TableInfo, given: Given) -> Said:
    """Each given row takes out one."""
    wanted = set(info.primary_key or set(range(len(info.schema))) - set(info.generated))
    if not wanted <= set(given) or (info.primary_key and len(given) > len(wanted)):
        listed = ", ".join(info.schema[i][0] for i in sorted(wanted))
        raise InputError(f"delete from {info.name!r} takes exactly the columns {listed}")
    if info.position("rowid") is not None:
        raise InputError(
            f"delete from {info.name!r} cannot tell its rows apart, since its column rowid hides"
            " DuckDB's own; write a DELETE in SQL"
        )
    names = [quote(info.schema[i][0]) for i in given]
    same = " AND ".join(f"t.{name} IS NOT DISTINCT FROM g.{name}" for name in names)
    each = ", ".join(f"g.{name}" for name in names)
    found = (
        f"SELECT t.rowid AS row, g.n,"
        f" system.main.row_number() OVER (PARTITION BY {each} ORDER BY t.rowid) AS i"
        f" FROM {info.qualified} AS t JOIN ({_counted(names)}) AS g ON {same}"
    )
    chosen = f"SELECT row AS __ivm_row FROM ({found}) WHERE i <= n"
    this = "t.rowid IS NOT DISTINCT FROM d.__ivm_row"  # not `=`: see ivm.storage.warehouse.row_ids
    return f"DELETE FROM {info.qualified} AS t USING ({chosen}) AS d WHERE {this}", given


def _counted(names: Sequence[str]) -> str:
    listed = ", ".join(names)
    return f"SELECT {listed}, system.main.count(*) AS n FROM {_GIVEN} GROUP BY {listed}"

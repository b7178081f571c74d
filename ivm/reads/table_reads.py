"""Rows of a base table that a query asks for by a key or a range of it, out of the table's indexes.

Contract: they include every commit made before the query began, and in a transaction its own
changes; no other session's change is seen before it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from ivm.engine.engine import Engine
from ivm.engine.transaction import Transaction
from ivm.engine.view_contents import MOST_FOUND
from ivm.ingest.key_index import KeyIndex
from ivm.reads.answer import Answer
from ivm.reads.compiling import Compiled
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.table_info import TableInfo

Look: TypeAlias = Callable[[KeyIndex, bool], ZSet | None]
"""Finds rows in an index, committed ones or those of the transaction; None if there are too many.
"""


class TableReads:
    """Answers the queries of base tables.

    Args:
        engine: the database's engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def answer(
        self,
        compiled: Compiled,
        given: Sequence[Column],
        meaning: Hashable,
        transaction: Transaction | None,
    ) -> Answer | None:
        """The answer to a query; None if its indexes cannot be used now.

        Args:
            compiled: reads one base table.
            given: the parameters' columns of one row.
            meaning: see `Engine.meaning`.
            transaction: the session's, within one of its statements.
        """
        engine, (table,) = self._engine, compiled.reads
        ((source, scan),) = compiled.query.scans.items()
        info = engine.catalog.tables[table]
        look = _looking(compiled, given)
        found = self._indexes(info, compiled.key, scan.columns, transaction)
        if found is None:
            return None
        index = found[-1]
        rows: ZSet | None
        if look is None:
            rows = empty([info.schema[i][1] for i in index.columns])
        elif transaction is not None:
            rows = _found(found, look, info, committed=False)
        else:
            with engine.held.publishing:
                engine.log.demand_readable()
                same = found == self._committed(info, compiled.key, scan.columns)
                if not same or meaning != engine.meaning():
                    return None
                rows, epoch = _found(found, look, info, committed=True), engine.epoch
            engine.log.sync(epoch)  # nothing is shown that a crash could undo
        if rows is None:
            return None
        read = rows.one_by_one().project([index.columns.index(i) for i in scan.columns])
        return Answer(compiled.query.answer({source: read}, given), compiled.shape)

    def _indexes(
        self,
        info: TableInfo,
        key: tuple[int, ...],
        columns: Sequence[int],
        transaction: Transaction | None,
    ) -> list[KeyIndex] | None:
        """The indexes by which rows under a key are found; built if nobody is writing."""
        if transaction is not None:
            return self._own(info, key, columns, transaction)
        found = self._committed(info, key, columns)
        if found is None:
            indexes = self._engine.indexes
            with self._engine.aside() as alone:
                if alone and info.keyed and indexes.find(info.name, all_columns=True) is None:
                    indexes.build(info.name, all_columns=True)
                if alone and key != info.primary_key:
                    indexes.secondary.find(info.name, key, builds=True)
            found = self._committed(info, key, columns)
        return found

    def _own(
        self,
        info: TableInfo,
        key: tuple[int, ...],
        columns: Sequence[int],
        transaction: Transaction,
    ) -> list[KeyIndex] | None:
        """Those with the changes of the transaction."""
        found = list[KeyIndex | None]()
        if key != info.primary_key:
            found.append(transaction.index_by(info.name, key))
        if info.keyed:
            last = self._engine.indexes.find(info.name)
            if last is None or not set(columns).issubset(last.columns):
                last = transaction.index_of_committed(info.name, all_columns=True)
            found.append(last)
        return _all(found)

    def _committed(
        self, info: TableInfo, key: tuple[int, ...], columns: Sequence[int]
    ) -> list[KeyIndex] | None:
        """The indexes of `_indexes`, if they can be asked without the writer lock."""
        indexes, found = self._engine.indexes, list[KeyIndex | None]()
        if key != info.primary_key:
            found.append(indexes.secondary.committed(info.name, key))
        if info.keyed:
            found.append(indexes.committed(info.name, columns))
        return _all(found)


def _all(found: Sequence[KeyIndex | None]) -> list[KeyIndex] | None:
    """The indexes, if none is missing."""
    there = [index for index in found if index is not None]
    return there if len(there) == len(found) else None


def _looking(compiled: Compiled, given: Sequence[Column]) -> Look | None:
    """Finds the rows that a query asks for; None if there can be none."""
    if compiled.ranged:
        low, high = compiled.bounds(given)
        return lambda index, committed: index.between(low, high, MOST_FOUND, committed=committed)
    values = compiled.values(given)
    return None if values is None else lambda index, committed: _under(index, values, committed)


def _under(index: KeyIndex, values: Sequence[Column], committed: bool) -> ZSet | None:
    if not index.unique and index.size(values, committed=committed) > MOST_FOUND:
        return None
    return (index.find_committed if committed else index.find)(values).rows


def _found(
    indexes: Sequence[KeyIndex], look: Look, info: TableInfo, *, committed: bool
) -> ZSet | None:
    """The rows that are found in the first index; it has the primary keys for the other one."""
    found, last = look(indexes[0], committed), indexes[-1]
    if found is None or len(indexes) == 1:
        return found
    if not len(found):
        return empty([info.schema[i][1] for i in last.columns])
    keys = [found.columns[indexes[0].columns.index(i)] for i in info.primary_key]
    return _under(last, keys, committed)

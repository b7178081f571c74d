"""Rows of base tables that a query asks for by keys or ranges of them, out of the tables' indexes.

Contract: they include every commit made before the query began, and in a transaction its own
changes; no other session's change is seen before it is durable. Those of all tables, and of views
that are read beside them, are of one epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from ivm.engine.engine import Engine
from ivm.engine.transaction import Transaction
from ivm.engine.view_contents import MOST_FOUND
from ivm.ingest.key_index import KeyIndex
from ivm.reads.accesses import Table, table_of
from ivm.reads.answer import Answer
from ivm.reads.chains import Step
from ivm.reads.compiling import Compiled
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.table_info import TableInfo

_TRIES = 3
_T = TypeVar("_T")
Way: TypeAlias = tuple[TableInfo, tuple[int, ...], Sequence[int]]
Rows: TypeAlias = Mapping[str, ZSet]
"""The rows of sources, by the names that the circuit has for them."""
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
            compiled: reads base tables.
            given: the parameters' columns of one row.
            meaning: see `Engine.meaning`.
            transaction: the session's, within one of its statements.
        """
        own, ways = compiled.query.own_rows(given), self._ways(compiled)
        indexes = _all([self._indexes(*way, transaction) for way in ways])
        if indexes is None:
            return None

        def find(viewed: Rows, *, committed: bool) -> Rows | None:
            known = {**own, **viewed}
            return _rows(compiled, ways, indexes, given, known, committed=committed)

        if transaction is None:
            rows = self._of_last_commit(compiled, meaning, ways, indexes, find)
        else:  # it has the writer lock
            viewed = self._viewed(compiled, meaning)
            rows = None if viewed is None else find(viewed, committed=False)
        return None if rows is None else compiled.found_by(rows, given)

    def _of_last_commit(
        self,
        compiled: Compiled,
        meaning: Hashable,
        ways: Sequence[Way],
        indexes: Sequence[Sequence[KeyIndex]],
        find: Callable[..., Rows | None],
    ) -> Rows | None:
        """The rows at one epoch; None if commits come between those of views and of tables."""
        engine = self._engine
        for _ in range(_TRIES):
            before, viewed = engine.epoch, self._viewed(compiled, meaning)
            if viewed is None:
                return None
            with engine.held.publishing:
                engine.log.demand_readable()
                same = indexes == [self._committed(*way) for way in ways]
                if not same or meaning != engine.meaning():
                    return None
                epoch = engine.epoch
                if viewed and epoch != before:
                    continue
                rows = find(viewed, committed=True)
            engine.log.sync(epoch)  # nothing is shown that a crash could undo
            return rows
        return None

    def _viewed(self, compiled: Compiled, meaning: Hashable) -> Rows | None:
        """The rows of the views that are read beside tables; None if they cannot be had now."""
        if not compiled.views:
            return {}
        whole = self._engine.held.whole(compiled.views, meaning)
        if whole is None:
            return None
        by_name = dict(zip(compiled.views, whole, strict=True))
        scans = compiled.query.scans
        read = [(source, name) for source, name in compiled.sources.items() if name in by_name]
        return {source: by_name[name].project(scans[source].columns) for source, name in read}

    def _ways(self, compiled: Compiled) -> list[Way]:
        """The table of each step, the columns by which its rows are found, and those read."""
        tables = self._engine.catalog.tables
        names = {table_of(compiled.query.scans[s]): name for s, name in compiled.sources.items()}
        return [(tables[names[step.table]], step.key, step.table[1]) for step in compiled.steps]

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


def _all(found: Sequence[_T | None]) -> list[_T] | None:
    """All of them, if none is missing."""
    there = [each for each in found if each is not None]
    return there if len(there) == len(found) else None


def _rows(
    compiled: Compiled,
    ways: Sequence[Way],
    indexes: Sequence[Sequence[KeyIndex]],
    given: Sequence[Column],
    known: Rows,
    *,
    committed: bool,
) -> Rows | None:
    """The rows of all sources, those of tables found by the steps; None if they are many.

    Args:
        known: of the other sources.
    """
    query = compiled.query
    tables = {**query.own, **{source: table_of(scan) for source, scan in query.scans.items()}}
    found = {**query.accesses.listed(given), **{tables[s]: rows for s, rows in known.items()}}
    for step, (info, _, columns), by in zip(compiled.steps, ways, indexes, strict=True):
        look, held = _looking(step, given, found), by[-1].columns
        if look is None:
            rows: ZSet | None = empty([info.schema[i][1] for i in held])
        else:
            rows = _found(by, look, info, committed=committed)
        if rows is None:
            return None
        found[step.table] = rows.one_by_one().project([held.index(i) for i in columns])
    return {source: found[table] for source, table in tables.items()}


def _looking(step: Step, given: Sequence[Column], found: Mapping[Table, ZSet]) -> Look | None:
    """Finds the rows that a step asks for; None if there can be none."""
    if step.range is not None:
        low, high = step.range.bounds(given)
        return lambda index, committed: index.between(low, high, MOST_FOUND, committed=committed)
    values = step.values(given, found)
    return None if values is None else lambda index, committed: _under(index, values, committed)


def _under(index: KeyIndex, values: Sequence[Column], committed: bool) -> ZSet | None:
    if len(values[0]) > MOST_FOUND:
        return None
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

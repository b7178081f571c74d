"""Rows of base tables that a query asks for by keys or ranges of them, out of the tables' indexes.

Contract: they include every commit made before the query began, and in a transaction its own
changes; no other session's change is seen before it is durable. Those of all tables, and of views
that are read beside them, are of one epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ivm.catalog.version import Meaning
from ivm.engine.engine import Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.views.view_contents import MOST_FOUND
from ivm.ingest.key_index import KeyIndex
from ivm.reads.accesses import Table
from ivm.reads.answer import Answer
from ivm.reads.chains import Step
from ivm.reads.compiling import Compiled
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.tables.table_info import TableInfo

_TRIES = 3
_T = TypeVar("_T")
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
        meaning: Meaning,
        transaction: Transaction | None,
    ) -> Answer | None:
        """The answer to a query; None if its indexes cannot be used now.

        Args:
            compiled: reads base tables.
            given: the parameters' columns of one row.
            meaning: see `Engine.meaning`.
            transaction: the session's, within one of its statements.
        """
        search = self._search(compiled, given, meaning, transaction)
        if search is None:
            return None
        if transaction is None:
            rows = self._of_last_commit(search, meaning)
        else:  # it has the writer lock
            viewed = self._viewed(compiled, meaning)
            rows = None if viewed is None else search.rows(viewed, committed=False)
        return None if rows is None else compiled.found_by(rows, given)

    def _search(
        self,
        compiled: Compiled,
        given: Sequence[Column],
        meaning: Meaning,
        transaction: Transaction | None,
    ) -> _Search | None:
        """How the rows are found; None if an index is missing."""
        infos = [meaning.version.tables[step.name] for step in compiled.steps]
        steps = zip(compiled.steps, infos, strict=True)
        if transaction is None:
            found = [self._of_all_sessions(info, step, meaning) for step, info in steps]
        else:
            found = [self._own(info, step, transaction) for step, info in steps]
        indexes, own = _all(found), compiled.query.own_rows(given)
        return None if indexes is None else _Search(compiled, given, own, infos, indexes)

    def _of_last_commit(self, search: _Search, meaning: Meaning) -> Rows | None:
        """The rows at one epoch; None if commits come between those of views and of tables."""
        engine, compiled = self._engine, search.compiled
        for _ in range(_TRIES):
            before, viewed = engine.epoch, self._viewed(compiled, meaning)
            if viewed is None:
                return None
            with engine.held.publishing:
                engine.log.demand_readable()
                if meaning != engine.meaning() or not self._are_committed(search):
                    return None
                epoch = engine.epoch
                if viewed and epoch != before:
                    continue
                rows = search.rows(viewed, committed=True)
            engine.log.sync(epoch)  # nothing is shown that a crash could undo
            return rows
        return None

    def _are_committed(self, search: _Search) -> bool:
        """Returns whether the indexes are those of the last commit still."""
        steps = zip(search.compiled.steps, search.infos, search.indexes, strict=True)
        return all(self._committed(info, step) == found for step, info, found in steps)

    def _viewed(self, compiled: Compiled, meaning: Meaning) -> Rows | None:
        """The rows of the views that are read beside tables; None if they cannot be had now."""
        if not compiled.views:
            return {}
        whole = self._engine.held.whole(compiled.views, meaning)
        return None if whole is None else compiled.viewed(whole)

    def _of_all_sessions(
        self, info: TableInfo, step: Step, meaning: Meaning
    ) -> list[KeyIndex] | None:
        """The indexes by which a step finds rows; built if nobody is writing."""
        found = self._committed(info, step)
        if found is None:
            indexes = self._engine.indexes
            with self._engine.aside() as alone:
                if not alone or meaning != self._engine.meaning():
                    return None
                if info.keyed and indexes.find(info.name, all_columns=True) is None:
                    indexes.build(info.name, all_columns=True)
                if step.key != info.primary_key:
                    indexes.secondary.find(info.name, step.key, builds=True)
            found = self._committed(info, step)
        return found

    def _own(self, info: TableInfo, step: Step, transaction: Transaction) -> list[KeyIndex] | None:
        """Those with the changes of the transaction."""
        found = list[KeyIndex | None]()
        if step.key != info.primary_key:
            found.append(transaction.index_by(info.name, step.key))
        if info.keyed:
            last = self._engine.indexes.find(info.name)
            if last is None or not set(step.columns).issubset(last.columns):
                last = transaction.index_of_committed(info.name, all_columns=True)
            found.append(last)
        return _all(found)

    def _committed(self, info: TableInfo, step: Step) -> list[KeyIndex] | None:
        """The indexes of `_of_all_sessions`, if they can be asked without the writer lock."""
        indexes, found = self._engine.indexes, list[KeyIndex | None]()
        if step.key != info.primary_key:
            found.append(indexes.secondary.committed(info.name, step.key))
        if info.keyed:
            found.append(indexes.committed(info.name, step.columns))
        return _all(found)


@dataclass(frozen=True)
class _Search:
    """What finds the rows of one query.

    Attributes:
        given: the parameters' columns of one row.
        own: the rows that the query gives itself.
        infos: the table of each step.
        indexes: those by which each step finds rows; the last one has them.
    """

    compiled: Compiled
    given: Sequence[Column]
    own: Rows
    infos: Sequence[TableInfo]
    indexes: Sequence[Sequence[KeyIndex]]

    def rows(self, viewed: Rows, *, committed: bool) -> Rows | None:
        """The rows of all sources; None if they are many.

        Args:
            viewed: those of views.
            committed: without the changes of a transaction.
        """
        tables, found = self.compiled.query.tables, self.compiled.query.accesses.listed(self.given)
        found.update({tables[source]: rows for source, rows in {**self.own, **viewed}.items()})
        steps = zip(self.compiled.steps, self.infos, self.indexes, strict=True)
        for step, info, indexes in steps:
            look, held = _looking(step, self.given, found), indexes[-1].columns
            if look is None:
                rows: ZSet | None = empty([info.schema[i][1] for i in held])
            else:
                rows = _found(indexes, look, info, committed=committed)
            if rows is None:
                return None
            found[step.table] = rows.one_by_one().project([held.index(i) for i in step.columns])
        return {source: found[table] for source, table in tables.items()}


def _all(found: Sequence[_T | None]) -> list[_T] | None:
    """All of them, if none is missing."""
    there = [each for each in found if each is not None]
    return there if len(there) == len(found) else None


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

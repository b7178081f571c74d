"""Queries that come again are answered from memory, by their compiled forms.

Contract: an answer has the rows, names, types and values of DuckDB's to the same text, and includes
every commit made before the query began. A query is compiled when its text comes the third time:
compiling costs several reads. One that is left to DuckDB costs a look-up from then on.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb

from ivm.engine.engine import Engine
from ivm.engine.held_views import TooManyRowsError
from ivm.engine.transaction import Transaction
from ivm.ingest.key_index import KeyIndex
from ivm.reads.answer import Answer
from ivm.reads.compiling import Compiled, ReadCompiler
from ivm.reads.parameters import Values, duckdb_type, named
from ivm.reads.state_query import NotFromStateError
from ivm.sql.plan.nodes import NotIncremental
from ivm.storage.errors import EvaluationError, InternalError, SqlError, UnsupportedError
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.refused import RefusedError
from ivm.storage.warehouse.table_info import TableInfo

Params: TypeAlias = Sequence[Any] | Mapping[str, Any] | None

_WORTHWHILE = 3
"""The time at which a text is compiled (measured: 5 to 10 ms; a read from a file costs 2 to 7)."""
_MOST_TEXTS = 4096
_LONGEST = 8192
"""Characters of a text that is remembered; longer ones seldom come twice."""


@dataclass
class _Text:
    """What is known of a text with parameters of certain types.

    Attributes:
        times: how often it came.
        compiled: None if it is not, or is left to DuckDB.
        reason: why it is left to DuckDB.
        keyed: its view has too many rows to be held whole.
    """

    times: int = 0
    compiled: Compiled | None = None
    reason: str | None = None
    keyed: bool = False


class StateReads:
    """The compiled queries of one database.

    Args:
        engine: its engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._compiler = ReadCompiler(engine)
        self._forget(None)

    def _forget(self, meaning: Hashable) -> None:
        self._meaning = meaning
        self._known: dict[str | tuple[str, ...], _Text] = {}

    def answer(
        self, text: str, params: Params, transaction: Transaction | None = None
    ) -> Answer | None:
        """The answer to a query; None if DuckDB gives it.

        Args:
            text: one SELECT; its session sees the names that all sessions see.
            params: its parameters, None for none.
            transaction: the session's, within one of its statements; of the catalog it has changed
                nothing.

        Raises:
            UnavailableError: the last commit cannot be made durable.
        """
        meaning = self._engine.meaning()
        if len(text) > _LONGEST:
            return None
        try:
            return self._answered(text, params, transaction, meaning)
        except (KeyError, InternalError):
            if meaning == self._engine.meaning():
                raise
            return None  # names have come to mean something else meanwhile

    def _answered(
        self, text: str, params: Params, transaction: Transaction | None, meaning: Hashable
    ) -> Answer | None:
        if meaning != self._meaning:
            self._forget(meaning)
        label, values, types = _labelled(text, params)
        entry = self._known.get(label)
        if entry is None:
            entry = self._entry(label)
        if entry.compiled is None:
            if entry.reason is not None or meaning is None:
                return None
            entry.times += 1
            if entry.times < _WORTHWHILE:
                return None
            self._compile_or_say_why(entry, text, types, meaning)
            if entry.compiled is None:
                return None
        return self._answer(entry, entry.compiled, values, meaning, transaction)

    def _entry(self, label: str | tuple[str, ...]) -> _Text:
        if len(self._known) >= _MOST_TEXTS:  # most of them come once, with other literals each
            kept = {n: e for n, e in list(self._known.items()) if e.compiled is not None}
            self._known = kept if 2 * len(kept) < _MOST_TEXTS else {}
        return self._known.setdefault(label, _Text())

    def _answer(
        self,
        entry: _Text,
        compiled: Compiled,
        values: Values | None,
        meaning: Hashable,
        transaction: Transaction | None,
    ) -> Answer | None:
        try:
            given = compiled.parameters.columns(values) if compiled.parameters and values else ()
            if compiled.most is None:
                return self._of_table(compiled, given, meaning, transaction)
            if transaction is not None and (transaction.changes or transaction.in_duckdb):
                return None
            rows = self._of_views(entry, compiled, given, meaning, compiled.most)
            return None if rows is None else compiled.found(rows, given)
        except TooManyRowsError:
            entry.compiled, entry.reason = None, "a view has too many rows"
        except (EvaluationError, RefusedError, duckdb.Error):
            pass  # the way through DuckDB has the words for it, or an answer
        return None

    def _of_views(
        self,
        entry: _Text,
        compiled: Compiled,
        given: Sequence[Column],
        meaning: Hashable,
        most: int,
    ) -> Sequence[ZSet] | None:
        """The rows of the views that a query reads; None if they cannot be had now."""
        held = self._engine.held
        if not entry.keyed:
            try:
                return held.whole(compiled.reads, meaning)
            except TooManyRowsError:
                if not compiled.key:
                    raise
                entry.keyed = True
        values, (view,) = compiled.values(given), compiled.reads
        if values is None:
            schema = self._engine.catalog.relation_schema(view)
            return [empty([type for _, type in schema])]
        rows = held.under_key(view, compiled.key, values, meaning, most)
        return None if rows is None else [rows]

    def _of_table(
        self,
        compiled: Compiled,
        given: Sequence[Column],
        meaning: Hashable,
        transaction: Transaction | None,
    ) -> Answer | None:
        """The answer from the row of a base table under its key, in the key index."""
        engine, (table,) = self._engine, compiled.reads
        ((source, scan),) = compiled.query.scans.items()
        values, info = compiled.values(given), engine.catalog.tables[table]
        found = self._indexes(table, compiled.key, scan.columns, transaction)
        if found is None:
            return None
        index = found[-1]
        if values is None:
            rows = empty([info.schema[i][1] for i in index.columns])
        elif transaction is not None:
            rows = _under(found, values, info, committed=False)
        else:
            with engine.held.publishing:
                engine.log.demand_readable()
                same = found == self._committed(table, compiled.key, scan.columns)
                if not same or meaning != engine.meaning():
                    return None
                rows, epoch = _under(found, values, info, committed=True), engine.epoch
            engine.log.sync(epoch)  # nothing is shown that a crash could undo
        read = rows.project([index.columns.index(i) for i in scan.columns])
        return Answer(compiled.query.answer({source: read}, given), compiled.shape)

    def _indexes(
        self,
        table: str,
        key: tuple[int, ...],
        columns: Sequence[int],
        transaction: Transaction | None,
    ) -> list[KeyIndex] | None:
        """The indexes by which rows under a key are found; built if nobody is writing."""
        indexes = self._engine.indexes
        by_primary = key == self._engine.catalog.tables[table].primary_key
        if transaction is not None:
            first = None if by_primary else indexes.secondary.find(table, key, builds=False)
            last = indexes.find(table)
            if last is None or not set(columns).issubset(last.columns):
                return None
            return [last] if by_primary else None if first is None else [first, last]
        found = self._committed(table, key, columns)
        if found is None:
            with self._engine.aside() as alone:
                if alone and indexes.find(table, all_columns=True) is None:
                    indexes.build(table, all_columns=True)
                if alone and not by_primary:
                    indexes.secondary.find(table, key, builds=True)
            found = self._committed(table, key, columns)
        return found

    def _committed(
        self, table: str, key: tuple[int, ...], columns: Sequence[int]
    ) -> list[KeyIndex] | None:
        """The indexes of `_indexes`, if they can be asked without the writer lock."""
        indexes = self._engine.indexes
        last = indexes.committed(table, columns)
        if last is None or key == self._engine.catalog.tables[table].primary_key:
            return None if last is None else [last]
        first = indexes.secondary.committed(table, key)
        return None if first is None else [first, last]

    def why_not(self, text: str, params: Params, transaction: Transaction | None) -> str | None:
        """Why a query is left to DuckDB; None if it is answered from memory."""
        meaning = self._engine.meaning()
        if meaning is None:
            return "a transaction changes the catalog"
        if meaning != self._meaning:
            self._forget(meaning)
        label, values, types = _labelled(text, params)
        entry = self._known.get(label) or self._entry(label)
        if entry.compiled is None and entry.reason is None:
            self._compile_or_say_why(entry, text, types, meaning)
        if entry.compiled is not None and entry.compiled.most is not None:
            if transaction is not None and (transaction.changes or transaction.in_duckdb):
                return "the transaction has changes of its own, or has used DuckDB"
            self._answer(entry, entry.compiled, values, meaning, None)  # may find too many rows
        return entry.reason

    def _compile_or_say_why(
        self, entry: _Text, text: str, types: Mapping[str, str | None], meaning: Hashable
    ) -> None:
        """Compiles a text; what was compiled while names changed their meaning is dropped."""
        compiled, reason = None, None
        try:
            compiled = self._compiler.compile(text, types, meaning)
        except (NotFromStateError, UnsupportedError, SqlError, EvaluationError) as verdict:
            reason = str(verdict)
        except duckdb.Error as error:
            reason = str(error)
        except NotIncremental as verdict:
            reason = verdict.reason
        except RecursionError:
            reason = "an expression nested too deeply to be planned"
        if meaning == self._engine.meaning():
            entry.compiled, entry.reason = compiled, reason


def _labelled(
    text: str, params: Params
) -> tuple[str | tuple[str, ...], Values | None, Mapping[str, str | None]]:
    """The name under which a text with parameters is known, their values and their types."""
    if not params:
        return text, None, {}
    values = named(params)
    if values is None:
        return (text, ""), None, {"": None}
    types = {name: duckdb_type(value) for name, value in values.items()}
    return (text, *types, *map(str, types.values())), values, types


def _under(
    indexes: Sequence[KeyIndex], values: Sequence[Column], info: TableInfo, *, committed: bool
) -> ZSet:
    """The rows under a key of the first index; it has the primary keys for the other one."""
    for index in indexes[:-1]:
        keys = (index.find_committed if committed else index.find)(values).rows
        values = [keys.columns[index.columns.index(i)] for i in info.primary_key]
    last = indexes[-1]
    if not len(values[0]):
        return empty([info.schema[i][1] for i in last.columns])
    return (last.find_committed if committed else last.find)(values).rows

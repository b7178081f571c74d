"""Which queries are answered from the contents of views in memory, and their compiled forms.

Contract: an answer has the rows, names, types and values of DuckDB's to the same text, and includes
every commit made before the query began. A query is compiled when its text comes the third time:
compiling costs several reads. One that is left to DuckDB costs a look-up from then on.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb

from ivm.catalog.broken_views import broken_views
from ivm.catalog.catalog import BindingCatalog
from ivm.engine.engine import Engine
from ivm.engine.held_views import TooManyRowsError
from ivm.engine.transaction import Transaction
from ivm.ingest.key_index import KeyIndex
from ivm.reads.answer import Answer, Shape
from ivm.reads.parameters import Parameters, Values, duckdb_type, named
from ivm.reads.state_query import NotFromStateError, StateQuery
from ivm.sql.bind.bind import bind
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.plan.nodes import NotIncremental, Plan, nodes, types
from ivm.sql.plan.render import render
from ivm.sql.resolve.determinism import check_deterministic
from ivm.sql.rewrite.rewrite import rewrite
from ivm.sql.statements.placeholders import placeholders
from ivm.storage.errors import EvaluationError, SqlError, UnsupportedError
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.refused import RefusedError

Params: TypeAlias = Sequence[Any] | Mapping[str, Any] | None

_WORTHWHILE = 3
"""The time at which a text is compiled (measured: 5 to 10 ms; a read from a file costs 2 to 7)."""
_MOST_TEXTS = 4096
_ZONED = re.compile(r"TIMESTAMPTZ|TIMETZ|TIME ZONE", re.IGNORECASE)
_MOST_KEYED = 2_000_000
"""Rows of a view that is arranged by its key for a query that asks for keys."""


@dataclass(frozen=True)
class Compiled:
    """A query that is answered from memory.

    Attributes:
        sources: the relation behind each of its sources.
        reads: the views that it reads, or the base table.
        key: the columns by which the rows of its only relation are looked up; () if there are none.
        most: rows that its view may have to be looked up so; None for a base table.
    """

    query: StateQuery
    shape: Shape
    reads: tuple[str, ...]
    sources: Mapping[str, str]
    parameters: Parameters | None
    key: tuple[int, ...]
    most: int | None

    def found(self, rows: Sequence[ZSet], given: Sequence[Column]) -> Answer:
        """The answer from the rows of its relations, in their order."""
        by_name = dict(zip(self.reads, rows, strict=True))
        scans = self.query.scans
        read = {s: by_name[name].project(scans[s].columns) for s, name in self.sources.items()}
        return Answer(self.query.answer(read, given), self.shape)

    def values(self, given: Sequence[Column]) -> list[Column] | None:
        """The values of the key's columns; None if no row can have them."""
        found = [self.query.lookups[i].key(given) for i in self.key]
        values = [column for column in found if column is not None]
        return values if len(values) == len(found) else None


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
        self._names = _Tables(engine.catalog)
        self._compiling = threading.Lock()
        self._functions: tuple[Hashable, FunctionList] | None = None
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
        if len(self._known) >= _MOST_TEXTS:
            self._known.clear()
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
        values = compiled.values(given)
        index = self._index(table, scan.columns, transaction)
        if index is None:
            return None
        if values is None:
            schema = engine.catalog.tables[table].schema
            rows = empty([schema[i][1] for i in index.columns])
        elif transaction is not None:
            rows = index.find(values).rows
        else:
            with engine.held.publishing:
                engine.log.demand_readable()
                same = index is engine.indexes.committed(table, scan.columns)
                if not same or meaning != engine.meaning():
                    return None
                rows, epoch = index.find_committed(values).rows, engine.epoch
            engine.log.sync(epoch)  # nothing is shown that a crash could undo
        read = rows.project([index.columns.index(i) for i in scan.columns])
        return Answer(compiled.query.answer({source: read}, given), compiled.shape)

    def _index(
        self, table: str, columns: Sequence[int], transaction: Transaction | None
    ) -> KeyIndex | None:
        """The key index of a table with these columns; it is built if nobody is writing."""
        indexes = self._engine.indexes
        if transaction is not None:
            found = indexes.find(table)
            return found if found and set(columns).issubset(found.columns) else None
        found = indexes.committed(table, columns)
        if found is None:
            with self._engine.aside() as alone:
                if alone and indexes.find(table, all_columns=True) is None:
                    indexes.build(table, all_columns=True)
            found = indexes.committed(table, columns)
        return found

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
            with self._compiling:
                compiled = self._compile(text, types, meaning)
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

    def _compile(self, text: str, types: Mapping[str, str | None], meaning: Hashable) -> Compiled:
        engine = self._engine
        parameters = _parameters(text, types)
        written = text if parameters is None else parameters.marked()
        named = self._relations(written)
        with contextlib.closing(engine.warehouse.cursor()) as cursor:
            functions = self._functions_seen_by(cursor, meaning)
            _demand_deterministic(written, cursor, functions)
            plan = rewrite(bind(written, self._names, cursor, functions, ordered=True))
            shape = _shape(plan, cursor)
            query = StateQuery(plan, engine.warehouse.cursor, parameters)
        if parameters is not None and any(parameters.marks_in(name) for name in shape.names):
            raise NotFromStateError("a column that DuckDB names after a parameter")
        sources = {s: self._names.canonical(scan.relation) for s, scan in query.scans.items()}
        if not named.issuperset(sources.values()):
            raise NotFromStateError("a name that DuckDB takes for another relation")
        read = tuple(sorted(set(sources.values())))
        key, most = self._key(read, query)
        return Compiled(query, shape, read, sources, parameters, key, most)

    def _functions_seen_by(self, cursor: Cursor, meaning: Hashable) -> FunctionList:
        """The functions, listed once as long as names mean the same."""
        if self._functions is None or self._functions[0] != meaning:
            self._functions = meaning, list_functions(cursor)
        return self._functions[1]

    def _key(self, read: Sequence[str], query: StateQuery) -> tuple[tuple[int, ...], int | None]:
        """The columns by which rows are looked up, and how many rows a view may have for that.

        The number is None where the columns are the primary key of a base table.
        """
        if len(read) != 1:
            return (), 0
        (name,), asked = read, query.lookups.keys()
        info = self._engine.catalog.tables.get(name)
        if info is not None:
            if not asked >= set(info.primary_key):
                raise NotFromStateError(f"it does not ask for a key of the table {name!r}")
            return info.primary_key, None
        for key in self._indexed(name):
            if asked >= set(key):
                return key, sys.maxsize
        key = self._engine.catalog.views[name].key or ()
        return (key, _MOST_KEYED) if asked >= set(key) else ((), 0)

    def _indexed(self, view: str) -> list[tuple[int, ...]]:
        """The positions of the columns of the user's indexes on a view."""
        catalog = self._engine.catalog
        names = [name for name, _ in catalog.views[view].schema]
        found = [index for index in catalog.view_indexes.values() if index.view == view]
        return [tuple([names.index(column) for column in index.columns]) for index in found]

    def _relations(self, text: str) -> frozenset[str]:
        """The views that a query reads, or the base table.

        Raises:
            NotFromStateError: it reads others too, or one whose rows cannot be held.
        """
        catalog = self._engine.catalog
        found = self._engine.definitions.relations.read_by(text)
        if not found:
            raise NotFromStateError("it reads no table and no materialized view")
        broken = broken_views(catalog.views)
        for name in found:
            view = catalog.views.get(name)
            if view is not None and (not view.incremental or name in broken):
                raise NotFromStateError(f"the view {name!r} is not maintained incrementally")
            if view is None and (len(found) > 1 or not self._is_indexed(name)):
                raise NotFromStateError(f"{name!r} is no materialized view")
        return found

    def _is_indexed(self, table: str) -> bool:
        """Returns whether a base table has a key index that holds its columns."""
        info = self._engine.catalog.user_tables.get(table)
        plain = info is not None and info.history is None and not info.generated
        return plain and bool(info and info.primary_key)


def _labelled(
    text: str, params: Params
) -> tuple[str | tuple[str, ...], Values | None, Mapping[str, str | None]]:
    """The name under which a text with parameters is known, their values and their types."""
    if not params:
        return text, None, {}
    values = named(params)
    types = {name: duckdb_type(value) for name, value in values.items()}
    return (text, *types, *map(str, types.values())), values, types


def _demand_deterministic(text: str, cursor: Cursor, functions: FunctionList) -> None:
    try:
        tellers = check_deterministic(text, cursor, functions)
    except UnsupportedError as reason:
        raise NotFromStateError("its answer depends on more than the rows of its views") from reason
    if tellers:
        raise NotFromStateError("it asks for the time")


def _parameters(text: str, types: Mapping[str, str | None]) -> Parameters | None:
    """The parameters of a text.

    Raises:
        NotFromStateError: DuckDB alone knows what they mean.
    """
    if not types and not any(True for _ in placeholders(text)):
        return None
    known = {name: type for name, type in types.items() if type is not None}
    parameters = Parameters(text, known)
    if len(known) < len(types) or not parameters.fit:
        raise NotFromStateError("parameters whose values DuckDB converts, or that do not fit")
    return parameters


def _shape(plan: Plan, cursor: Cursor) -> Shape:
    """The shape of a plan's rows.

    Raises:
        NotFromStateError: something depends on the session's time zone, or DuckDB alone converts
            the values.
    """
    read = {type.sql for node in nodes(plan) for type in types(node)}
    if _ZONED.search(render(plan)) or any(_ZONED.search(sql) for sql in read):
        raise NotFromStateError("a value in the session's time zone")
    shape = Shape.of(plan.schema, cursor)
    if shape is None:
        raise NotFromStateError("a column of a type whose values DuckDB converts")
    return shape


class _Tables(BindingCatalog):
    """The relations of a database, where a materialized view is a table like others."""

    def view_plan(self, name: str) -> Plan | None:
        """None: a query reads the rows of the view."""
        return None

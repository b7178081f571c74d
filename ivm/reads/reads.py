"""Which queries are answered from the contents of views in memory, and their compiled forms.

Contract: an answer has the rows, names, types and values of DuckDB's to the same text, and includes
every commit made before the query began. A query is compiled when its text comes the third time:
compiling costs several reads. One that is left to DuckDB costs a look-up from then on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb

from ivm.catalog.broken_views import broken_views
from ivm.catalog.catalog import BindingCatalog
from ivm.engine.engine import Engine
from ivm.engine.held_views import TooManyRowsError
from ivm.reads.answer import Answer, Shape
from ivm.reads.parameters import Parameters, Values, duckdb_type, named
from ivm.reads.state_query import NotFromStateError, StateQuery
from ivm.sql.bind.bind import bind
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.plan.nodes import NotIncremental, Plan, types
from ivm.sql.resolve.determinism import check_deterministic
from ivm.sql.rewrite.rewrite import rewrite
from ivm.sql.statements.placeholders import placeholders
from ivm.storage.errors import EvaluationError, SqlError, UnsupportedError
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.duck import Cursor

Params: TypeAlias = Sequence[Any] | Mapping[str, Any] | None

_WORTHWHILE = 3
"""The time at which a text is compiled (measured: 5 to 10 ms; a read from a file costs 2 to 7)."""
_MOST_TEXTS = 4096
_MOST_KEYED = 2_000_000
"""Rows of a view that is arranged by its key for a query that asks for keys."""


@dataclass(frozen=True)
class Compiled:
    """A query that is answered from memory.

    Attributes:
        sources: the view behind each of its sources.
        key: the columns by which the rows of its only view can be looked up; () if there are none.
    """

    query: StateQuery
    shape: Shape
    views: tuple[str, ...]
    sources: Mapping[str, str]
    parameters: Parameters | None
    key: tuple[int, ...]

    def found(self, rows: Sequence[ZSet], given: Sequence[Column]) -> Answer:
        """The answer from the rows of its views, in their order."""
        by_view = dict(zip(self.views, rows, strict=True))
        read = {source: by_view[view] for source, view in self.sources.items()}
        return Answer(self.query.answer(read, given), self.shape)


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
        self._forget(None)

    def _forget(self, meaning: Hashable) -> None:
        self._meaning = meaning
        self._known: dict[str | tuple[str, ...], _Text] = {}
        self._functions: FunctionList | None = None

    def answer(self, text: str, params: Params) -> Answer | None:
        """The answer to a query; None if DuckDB gives it.

        Args:
            text: one SELECT; its session sees the names that all sessions see.
            params: its parameters, None for none.

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
            self._compile_or_say_why(entry, text, types)
            if entry.compiled is None:
                return None
        return self._answer(entry, entry.compiled, values, meaning)

    def _entry(self, label: str | tuple[str, ...]) -> _Text:
        if len(self._known) >= _MOST_TEXTS:
            self._known.clear()
        return self._known.setdefault(label, _Text())

    def _answer(
        self, entry: _Text, compiled: Compiled, values: Values | None, meaning: Hashable
    ) -> Answer | None:
        try:
            given = compiled.parameters.columns(values) if compiled.parameters and values else ()
            rows = self._rows(entry, compiled, given, meaning)
            return None if rows is None else compiled.found(rows, given)
        except TooManyRowsError:
            entry.compiled, entry.reason = None, "a view has too many rows"
        except (EvaluationError, duckdb.Error):
            pass  # DuckDB has the words for it, or an answer
        return None

    def _rows(
        self, entry: _Text, compiled: Compiled, given: Sequence[Column], meaning: Hashable
    ) -> Sequence[ZSet] | None:
        held = self._engine.held
        if not entry.keyed:
            try:
                return held.whole(compiled.views, meaning)
            except TooManyRowsError:
                if not compiled.key:
                    raise
                entry.keyed = True
        lookups, (view,) = compiled.query.lookups, compiled.views
        key = [lookups[i].key(given) for i in compiled.key]
        values = [column for column in key if column is not None]
        if len(values) < len(key):
            types = [type for _, type in self._engine.catalog.relation_schema(view)]
            return [empty(types)]
        rows = held.under_key(view, compiled.key, values, meaning, _MOST_KEYED)
        return None if rows is None else [rows]

    def why_not(self, text: str, params: Params) -> str | None:
        """Why a query is left to DuckDB; None if it is answered from memory."""
        meaning = self._engine.meaning()
        if meaning is None:
            return "a transaction changes the catalog"
        if meaning != self._meaning:
            self._forget(meaning)
        label, values, types = _labelled(text, params)
        entry = self._known.get(label) or self._entry(label)
        if entry.compiled is None and entry.reason is None:
            self._compile_or_say_why(entry, text, types)
        if entry.compiled is not None:
            self._answer(entry, entry.compiled, values, meaning)  # there may be too many rows
        return entry.reason

    def _compile_or_say_why(self, entry: _Text, text: str, types: Mapping[str, str | None]) -> None:
        try:
            with self._compiling:
                entry.compiled = self._compile(text, types)
            return
        except (NotFromStateError, UnsupportedError, SqlError, EvaluationError) as reason:
            entry.reason = str(reason)
        except duckdb.Error as error:
            entry.reason = str(error)
        except NotIncremental as verdict:
            entry.reason = verdict.reason
        except RecursionError:
            entry.reason = "an expression nested too deeply to be planned"

    def _compile(self, text: str, types: Mapping[str, str | None]) -> Compiled:
        engine = self._engine
        parameters = _parameters(text, types)
        written = text if parameters is None else parameters.marked()
        views = self._views(written)
        with contextlib.closing(engine.warehouse.cursor()) as cursor:
            if self._functions is None:
                self._functions = list_functions(cursor)
            _demand_deterministic(written, cursor, self._functions)
            plan = rewrite(bind(written, self._names, cursor, self._functions, ordered=True))
            shape = _shape(plan, cursor)
            query = StateQuery(plan, engine.warehouse.cursor, parameters)
        if parameters is not None and any(parameters.marks_in(name) for name in shape.names):
            raise NotFromStateError("a column that DuckDB names after a parameter")
        sources = {s: self._names.canonical(scan.relation) for s, scan in query.scans.items()}
        if not views.issuperset(sources.values()):
            raise NotFromStateError("a name that DuckDB takes for another relation")
        read = tuple(sorted(set(sources.values())))
        key = self._key(read[0]) if len(read) == 1 else ()
        usable = key if query.lookups.keys() >= set(key) else ()
        return Compiled(query, shape, read, sources, parameters, usable)

    def _key(self, view: str) -> tuple[int, ...]:
        return self._engine.catalog.views[view].key or ()

    def _views(self, text: str) -> frozenset[str]:
        """The views that a query reads.

        Raises:
            NotFromStateError: it reads other relations too, or one whose rows cannot be held.
        """
        catalog = self._engine.catalog
        found = self._engine.definitions.relations.read_by(text)
        if not found:
            raise NotFromStateError("it reads no materialized view")
        broken = broken_views(catalog.views)
        for name in found:
            view = catalog.views.get(name)
            if view is None:
                raise NotFromStateError(f"{name!r} is no materialized view")
            if not view.incremental or name in broken:
                raise NotFromStateError(f"the view {name!r} is not maintained incrementally")
        return found


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
        check_deterministic(text, cursor, functions)
    except UnsupportedError as reason:
        raise NotFromStateError("its answer depends on more than the rows of its views") from reason


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
    if any("TIME ZONE" in type.sql or "TZ" in type.sql for type in types(plan)):
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

"""From a query's text to its compiled form, or the reason why DuckDB answers it.

Contract: the text means to DuckDB what its compiled form computes. It is bound as the text of a
materialized view would be; views are tables in it.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.broken_views import broken_views
from ivm.catalog.version import CatalogVersion, Meaning
from ivm.engine.engine import Engine
from ivm.engine.views.view_reads import (
    NamedText,
    definitions_named,
    relations_read,
    views_and_macros,
)
from ivm.reads.accesses import relation_of, told_apart
from ivm.reads.answer import Answer, Shape
from ivm.reads.chains import Indexed, Step, step_to, steps_to
from ivm.reads.parameters import Parameters
from ivm.reads.state_query import StateQuery
from ivm.reads.verdicts import NO_KEY, NotFromStateError
from ivm.sql.bind.bind import bind
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.nodes import Plan, types
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import nodes
from ivm.sql.resolve.determinism import SeenNames, check_deterministic
from ivm.sql.rewrite.rewrite import rewrite
from ivm.sql.scalar.lookup import Lookup
from ivm.sql.statements.text.placeholders import placeholders
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import words_in
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

_ZONED = re.compile(r"TIMESTAMPTZ|TIMETZ|TIME ZONE", re.IGNORECASE)
_MOST_KEYED = 2_000_000
"""Rows of a view that is arranged by its key for a query that asks for keys."""


@dataclass(frozen=True)
class Compiled:
    """A query that is answered from memory.

    Attributes:
        sources: the relation behind each of its sources.
        views: those that it reads.
        steps: how the rows of each base table are found, or those of its only view; else ().
        most: rows that the view may have to be looked up so; None if it reads base tables.
    """

    query: StateQuery
    shape: Shape
    sources: Mapping[str, str]
    parameters: Parameters | None
    views: tuple[str, ...]
    steps: tuple[Step, ...]
    most: int | None

    def viewed(self, rows: Sequence[ZSet]) -> Mapping[str, ZSet]:
        """What its sources read of the rows of its views, which are in their order."""
        by_name, scans = dict(zip(self.views, rows, strict=True)), self.query.scans
        read = [(source, name) for source, name in self.sources.items() if name in by_name]
        return {source: by_name[name].project(scans[source].columns) for source, name in read}

    def found(self, rows: Sequence[ZSet], given: Sequence[Column]) -> Answer:
        """The answer from the rows of its views, in their order, if it reads nothing else."""
        return Answer(self.query.answer(self.viewed(rows), given), self.shape)

    def found_under(self, rows: ZSet, given: Sequence[Column]) -> Answer:
        """The answer from the rows of its only relation that its step finds."""
        ((source, scan),) = self.query.scans.items()
        return self.found_by({source: rows.project(scan.columns)}, given)

    def found_by(self, rows: Mapping[str, ZSet], given: Sequence[Column]) -> Answer:
        """The answer from the rows that its steps find.

        Args:
            rows: of each source, with the columns of its scan; not all of its own.
            given: the parameters' columns of one row.
        """
        alone = len(self.steps) == 1 and self.steps[0].is_constant
        query = self._under_key if alone else self.query
        return Answer(query.answer(rows, given), self.shape)

    @functools.cached_property
    def _under_key(self) -> StateQuery:
        return self.query.under([e for e in self.steps[0].by if isinstance(e, Lookup)])


class _Seen(NamedTuple):
    """What queries may name: functions, the texts of plain views and macros, and relations."""

    functions: FunctionList
    definitions: list[NamedText]
    names: SeenNames


class ReadCompiler:
    """Compiles the queries of one database, one at a time.

    Args:
        engine: its engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._compiling = threading.Lock()
        self._seen: tuple[Meaning, _Seen] | None = None

    def compile(
        self,
        text: str,
        given: Mapping[str, str | None],
        meaning: Meaning,
        literals: Collection[str] = (),
        *,
        is_source: bool = False,
    ) -> Compiled:
        """The compiled form of a query.

        Args:
            text: one SELECT.
            given: DuckDB's types of its parameters by name; None for those that are left to it.
            meaning: see `Engine.meaning`.
            literals: the names of those parameters that are literals which were lifted.
            is_source: a change takes the rows, by the columns' positions. Such a query may read no
                relation at all; DuckDB answers others as fast.

        Raises:
            NotFromStateError: DuckDB answers it.
            NotIncremental: the same; so do errors of DuckDB's.
            LiftedError: a literal cannot be lifted.
        """
        with self._compiling:
            return self._compiled(text, given, meaning, literals, is_source=is_source)

    def _compiled(
        self,
        text: str,
        given: Mapping[str, str | None],
        meaning: Meaning,
        literals: Collection[str],
        *,
        is_source: bool,
    ) -> Compiled:
        engine, version = self._engine, meaning.version
        names = _Tables(version)
        parameters = _parameters(text, given, literals)
        written = text if parameters is None else parameters.marked()
        relations = engine.definitions.relations
        found = relations.read_by(written)
        if relations.names_relations_alone(written):
            # Before DuckDB is asked for more.
            _demand_held(found, written, version, is_source=is_source)
        with contextlib.closing(engine.warehouse.cursor()) as cursor:
            seen = self._seen_by(cursor, meaning)
            within = [text for _, text in definitions_named(written, seen.definitions)]
            if any("order" in words_in(text) for text in within):  # DuckDB may order by it
                raise NotFromStateError("an ORDER BY inside a view or macro that it reads")
            if within:
                found = relations_read(version, cursor, written, "")
            named = _demand_held(found, written, version, is_source=is_source)
            _demand_deterministic(written, cursor, seen)
            plan = rewrite(bind(written, names, cursor, seen.functions, ordered=True))
            plan = told_apart(plan)
            if parameters is not None and is_source:
                plan = parameters.without_names(plan)
            shape = _shape(plan, cursor)
            query = StateQuery(plan, engine.warehouse.cursor, parameters)
        if parameters is not None and any(parameters.marks_in(name) for name in shape.names):
            raise NotFromStateError("a column that DuckDB names after a parameter")
        sources = {s: names.canonical(relation_of(scan)) for s, scan in query.scans.items()}
        if not named.issuperset(sources.values()):
            raise NotFromStateError("a name that DuckDB takes for another relation")
        views = tuple(sorted(set(sources.values()) - version.tables.keys()))
        return Compiled(query, shape, sources, parameters, views, *_steps(sources, query, version))

    def _seen_by(self, cursor: Cursor, meaning: Meaning) -> _Seen:
        """What the queries may name, listed once as long as names mean the same."""
        if self._seen is None or self._seen[0] != meaning:
            functions = self._engine.definitions.functions
            definitions = views_and_macros(cursor, functions)
            self._seen = meaning, _Seen(functions, definitions, SeenNames(cursor))
        return self._seen[1]


def _steps(
    sources: Mapping[str, str], query: StateQuery, version: CatalogVersion
) -> tuple[tuple[Step, ...], int | None]:
    """How rows are looked up, and how many a view may have for that, None for base tables."""
    read = {query.tables[source]: name for source, name in sources.items()}
    of = version.tables
    tables = {table: _of_table(of[name]) for table, name in read.items() if name in of}
    if tables:
        known = [table for table in query.tables.values() if table not in tables]
        return steps_to(query.accesses, tables, known), None
    if len(read) != 1:
        return (), 0
    ((table, name),) = read.items()
    most = dict.fromkeys(_indexed(name, version), sys.maxsize)
    if key := version.views[name].key:
        most.setdefault(key, _MOST_KEYED)
    view = Indexed(name, version.relation_schema(name), tuple(most))
    step = step_to(query.accesses, table, view, ())
    return ((step,), most[step.key]) if step is not None else ((), 0)


def _of_table(info: TableInfo) -> Indexed:
    return Indexed(info.name, info.schema, _keys(info))


def _indexed(view: str, version: CatalogVersion) -> list[tuple[int, ...]]:
    """The positions of the columns of the user's indexes on a view."""
    names = [name for name, _ in version.views[view].schema]
    found = [index for index in version.view_indexes.values() if index.view == view]
    return [tuple([names.index(column) for column in index.columns]) for index in found]


def _demand_held(
    found: frozenset[str] | None, text: str, version: CatalogVersion, *, is_source: bool
) -> frozenset[str]:
    """The views and base tables that a query reads.

    Raises:
        NotFromStateError: it reads others too, or one whose rows cannot be held.
    """
    if found is None or not (found or is_source):
        raise NotFromStateError("it reads no table and no materialized view")
    broken = broken_views(version.views)
    for name in found:
        view = version.views.get(name)
        if view is not None and (not view.incremental or name in broken):
            raise NotFromStateError(f"the view {name!r} is not maintained incrementally")
        if view is not None and view.recomputed_below:  # its deltas come as it is read
            raise NotFromStateError(f"the view {name!r} reads one that is recomputed")
        info = version.tables.get(name)
        if view is None and (info is None or not _is_indexed(info)):
            raise NotFromStateError(f"{name!r} has no key, and is no materialized view")
        if info is not None and not _names_a_key(info, text):
            raise NotFromStateError(NO_KEY.format(name))
    return found


def _names_a_key(info: TableInfo, text: str) -> bool:
    """Returns whether a query of a base table has the names of a key's columns."""
    words = words_in(text)
    keys = [[info.schema[i][0] for i in key] for key in _keys(info)]
    return any(all(words.issuperset(words_in(name)) for name in key) for key in keys)


def _is_indexed(info: TableInfo) -> bool:
    """Returns whether a base table has an index that holds its columns."""
    plain = not info.name.startswith("_ivm.") and info.history is None and not info.generated
    return plain and bool(_keys(info))


def _keys(info: TableInfo) -> Sequence[tuple[int, ...]]:
    """The columns by which rows of a base table are found."""
    return (info.primary_key, *info.indexed) if info.keyed else info.indexed


def _demand_deterministic(text: str, cursor: Cursor, seen: _Seen) -> None:
    try:
        time_functions = check_deterministic(text, cursor, seen.functions, seen.names)
    except UnsupportedError as reason:
        raise NotFromStateError("its answer depends on more than the rows of its views") from reason
    if time_functions:
        raise NotFromStateError("it asks for the time")


def _parameters(
    text: str, types: Mapping[str, str | None], literals: Collection[str]
) -> Parameters | None:
    """The parameters of a text.

    Raises:
        NotFromStateError: DuckDB alone knows what they mean.
    """
    if not types and not any(True for _ in placeholders(text)):
        return None
    known = {name: type for name, type in types.items() if type is not None}
    parameters = Parameters(text, known, literals)
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

"""Which queries are answered from the contents of views in memory, and their compiled forms.

Contract: an answer has the rows, names, types and values of DuckDB's to the same text, and includes
every commit made before the query began. A query is compiled when its text comes the third time:
compiling costs several reads. One that is left to DuckDB costs a look-up from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

import duckdb

from ivm.catalog.broken_views import broken_views
from ivm.catalog.catalog import BindingCatalog
from ivm.engine.engine import Engine
from ivm.reads.answer import Answer, Shape
from ivm.reads.state_query import NotFromStateError, StateQuery
from ivm.sql.bind.bind import bind
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.plan.nodes import NotIncremental, Plan, types
from ivm.sql.resolve.determinism import check_deterministic
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.errors import EvaluationError, SqlError, UnsupportedError
from ivm.storage.warehouse.duck import Cursor

_WORTHWHILE = 3
"""The time at which a text is compiled (measured: 5 to 10 ms; a read from a file costs 2 to 7)."""
_MOST_TEXTS = 4096


@dataclass(frozen=True)
class Compiled:
    """A query that is answered from memory.

    Attributes:
        sources: the view behind each of its sources.
    """

    query: StateQuery
    shape: Shape
    views: tuple[str, ...]
    sources: dict[str, str]


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
        self._known: dict[str, int | str | Compiled] = {}
        self._functions: FunctionList | None = None

    def answer(self, text: str) -> Answer | None:
        """The answer to a query; None if DuckDB gives it.

        Args:
            text: one SELECT; its session sees the names that all sessions see.

        Raises:
            UnavailableError: the last commit cannot be made durable.
        """
        meaning = self._engine.meaning()
        if meaning != self._meaning:
            self._forget(meaning)
        known = self._known
        found = known.get(text, 0)
        if isinstance(found, int):
            if len(known) >= _MOST_TEXTS:
                known.clear()
            known[text] = found + 1
            if found + 1 < _WORTHWHILE or meaning is None:
                return None
            found = known[text] = self._compiled_or_reason(text)
        if isinstance(found, str):
            return None
        rows = self._engine.held.at_one_epoch(found.views, meaning)
        if rows is None:
            known[text] = "a view has too many rows"
            return None
        try:
            batch = found.query.answer({s: rows[view] for s, view in found.sources.items()})
        except (EvaluationError, duckdb.Error):
            return None  # DuckDB has the words for it, or an answer
        return Answer(batch, found.shape)

    def explain(self, text: str) -> str | None:
        """Why a query is left to DuckDB; None if it is answered from memory."""
        found = self._known.get(text)
        if not isinstance(found, str | Compiled):
            found = self._compiled_or_reason(text)
        return found if isinstance(found, str) else None

    def _compiled_or_reason(self, text: str) -> Compiled | str:
        try:
            with self._compiling:
                return self._compile(text)
        except (NotFromStateError, UnsupportedError, SqlError, duckdb.Error) as reason:
            return str(reason)
        except NotIncremental as verdict:
            return verdict.reason
        except RecursionError:
            return "an expression nested too deeply to be planned"

    def _compile(self, text: str) -> Compiled:
        engine = self._engine
        views = self._views(text)
        cursor = engine.warehouse.cursor()
        try:
            if self._functions is None:
                self._functions = list_functions(cursor)
            check_deterministic(text, cursor, self._functions)
            plan = rewrite(bind(text, self._names, cursor, self._functions, ordered=True))
            shape = _shape(plan, cursor)
            query = StateQuery(plan, engine.warehouse.cursor)
        finally:
            cursor.close()
        named = {s: self._names.canonical(scan.relation) for s, scan in query.scans.items()}
        if not views.issuperset(named.values()):
            raise NotFromStateError("a name that DuckDB takes for another relation")
        return Compiled(query, shape, tuple(sorted(set(named.values()))), named)

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

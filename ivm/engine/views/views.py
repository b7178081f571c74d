"""The life of a view: defined and compiled, created with its table, attached, filled anew, dropped.

Invariant: a view's table is filled in the transaction that creates it, from the SQL whose answer it
must equal from then on; its circuit state is built right after, at the same epoch. Deltas remove
exactly the rows that deltas added, so where DuckDB rounds differently from the circuit, the rows
are rewritten by the circuit's. Changefeeds of a view that is filled anew get the difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import duckdb

from ivm.catalog.broken_views import broken_views
from ivm.catalog.fatal_types import refuse_fatal_types
from ivm.catalog.version import View
from ivm.delta_ops.circuit import Circuit
from ivm.engine.feeds.changefeed import ChangeFeeds
from ivm.engine.feeds.outbox_rows import refuse_outbox
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.views.broken_views import record_of
from ivm.engine.views.clock import default_tick
from ivm.engine.views.fillings import Kept, answer, filling_again
from ivm.engine.views.held_views import HeldViews
from ivm.engine.views.maintenance import Maintenance
from ivm.engine.views.recomputed_views import RecomputedViews
from ivm.engine.views.statement_time import told
from ivm.engine.views.view_plans import compiled
from ivm.engine.views.view_reads import relations_read
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.compile.explain import explain
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import EvaluationError, InputError, SqlError, UnsupportedError
from ivm.storage.identifiers import fold, path_of, quote
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb.carried import unfit_type, why_unfit
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, run
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql, translated
from ivm.storage.warehouse.net_changes import PendingView
from ivm.storage.warehouse.tables.system_tables import (
    Emits,
    State,
    StoredView,
    delete_view,
    save_view,
)
from ivm.storage.warehouse.tables.view_indexes import delete_view_index

_SPEED = ("linear", "indexed", "group recompute", "whole recompute")


def create_table(cursor: Cursor, database: str, name: str, columns: Schema) -> str:
    """Creates the table that holds a view, and returns its name in SQL.

    Args:
        cursor: of the database.
        database: its name in DuckDB.
        name: canonical name of the view.
        columns: of the view.
    """
    table = ".".join([quote(part) for part in (database, *path_of(name))])
    listed = ", ".join(f"{quote(column)} {type.sql}" for column, type in columns)
    run(cursor, f"CREATE TABLE {table} ({listed})")
    return table


class Views:
    """The views of one database.

    Args:
        maintenance: the circuit that maintains the incremental ones.
        recomputed: the state of the recomputed ones.
        tables: the tables that store them.
        feeds: their changefeeds.
        held: their rows in memory.
    """

    def __init__(
        self,
        maintenance: Maintenance,
        recomputed: RecomputedViews,
        tables: StoredTables,
        feeds: ChangeFeeds,
        held: HeldViews,
    ) -> None:
        self._maintenance = maintenance
        self._recomputed = recomputed
        self._tables = tables
        self._warehouse, self._catalog = tables.warehouse, tables.catalog
        self._feeds = feeds
        self._held = held

    # -- defining -------------------------------------------------------------------------------

    def define(
        self,
        cursor: Cursor,
        name: str,
        query: str,
        columns: tuple[str, ...],
        functions: FunctionList,
        time_functions: frozenset[str],
        tick: int | None = None,
        *,
        emits: Emits = "changes",
    ) -> View:
        """Compiles a view that is not in the catalog yet.

        Args:
            cursor: sees the relations that the view reads.
            name: canonical name.
            query: the SELECT, verbatim.
            columns: names of the view's first columns; the others have the query's names.
            functions: those the cursor sees.
            time_functions: those that tell the time and that it calls; see `check_deterministic`.
            tick: of the clock that it reads then, in microseconds; None for the usual one.
            emits: when its rows come.

        Raises:
            SqlError: the query does not bind, or has fewer columns than are named.
            UnsupportedError: it has no meaning as a view.
        """
        described = _described(cursor, query)
        if len(columns) > len(described):
            raise SqlError(
                f"view {name!r} names {len(columns)} columns ({', '.join(columns)}), but its query "
                f"gives {len(described)}"
            )
        version = self._catalog.version
        reads = relations_read(version, cursor, query, name)
        refuse_outbox(name, reads)
        refuse_fatal_types(f"view {name!r}", described)
        for relation in reads:
            refuse_fatal_types(
                f"view {name!r} over {relation!r}", version.relation_schema(relation)
            )
        renamed = tuple((n, t) for n, (_, t) in zip(columns, described, strict=False))
        schema = renamed + described[len(columns) :]
        given = name, query, _unique_names(schema), reads
        view = View(*given, described=described, time_functions=time_functions, emits=emits)
        if time_functions:
            view = replace(view, tick=tick or default_tick(time_functions))
        view = replace(view, reads=reads | view.time_relations)
        return self.bound(view, cursor, functions)

    def bound(self, view: View, cursor: Cursor, functions: FunctionList | None = None) -> View:
        """A view, compiled, or with the reason why it is recomputed; see `compiled`."""
        version, cursors = self._catalog.version, self._warehouse.cursor
        return compiled(view, version, cursor, functions, cursors)

    # -- showing --------------------------------------------------------------------------------

    def strategy(self, view: View) -> str:
        """The strategy of the view's slowest operator."""
        if view.plan is None:
            return "linear" if view.constant else "whole recompute"
        with self._maintenance.shape_lock:
            circuit = self._compiler(view, view.plan).circuit
            nodes = circuit.nodes_of(view.name)
            return max((circuit.node(n).operator.strategy for n in nodes), key=_SPEED.index)

    def _compiler(self, view: View, plan: Plan) -> CircuitCompiler:
        """The compiler of the view: its own until the transaction that has created it commits.

        One that another session has dropped since it was looked up is compiled anew.
        """
        whole = self._maintenance.compiler
        if view.compiled is not None and self._catalog.views.get(view.name) is view:
            return view.compiled
        if view.name in whole.circuit.views:
            return whole
        alone = CircuitCompiler(Circuit(), self._warehouse.cursor)
        alone.add_view(view.name, plan)
        return alone

    def explain(self, view: View, *, format: str = "text", analyze: bool = False) -> str:
        """Explains how the view is maintained; see `ivm.sql.compile.explain`."""
        plan = view.plan
        with self._maintenance.shape_lock:
            return explain(
                view.name,
                plan,
                view.reason,
                self._maintenance.compiler if plan is None else self._compiler(view, plan),
                format=format,
                constant=view.constant,
                recomputing=self._recomputed.work.get(view.name),
                analyze=analyze,
            )

    # -- creating and dropping ------------------------------------------------------------------

    def create(self, cursor: Cursor, view: View, kept: Kept | None = None) -> None:
        """Creates and fills a defined view's table in the cursor's transaction, and records it.

        That of a broken view stays empty, but for rows that are kept.

        Args:
            cursor: of the database.
            view: as it is defined.
            kept: the rows that a view has already whose rows stay; None for none.
        """
        table = create_table(cursor, self._warehouse.database, view.name, view.schema)
        view = self._catalog.add_view(view)
        statements = f"INSERT INTO {table} {answer(view)}"
        if kept is not None and view.stays:
            run(cursor, kept(table))
            statements = filling_again(view, table)
        if view.name not in broken_views(self._catalog.views):
            self._fill(cursor, view, table, statements)
        save_view(cursor, self.stored(view, exact=not view.rounds))

    def drop(self, cursor: Cursor, view: View) -> None:
        """Drops a view's table in the cursor's transaction; `rebuild` then detaches the view."""
        run(cursor, f"DROP TABLE {self._catalog.qualified[view.name]}")
        delete_view(cursor, view.name)
        for index in self._catalog.view_indexes.values():
            if index.view == view.name:
                delete_view_index(cursor, index.name)
        self._catalog.remove_view(view.name)

    def attach(self, view: View) -> None:
        """Lets the circuit maintain a view from here on, or marks a recomputed one as stale."""
        if view.compiled is not None:
            self._attach([view])
        else:
            self._recomputed.stale.add(view.name)

    def _attach(self, views: Iterable[View]) -> None:
        """Lets the circuit of all views take over those that have one of their own."""
        compiled = {view.name: view.compiled for view in views if view.compiled is not None}
        with self._maintenance.shape_lock:  # nobody is shown a circuit that is being taken
            for name, own in compiled.items():
                self._maintenance.attach(name, own)
            self._catalog.change_views(compiled, compiled=None)

    def _detach(self, name: str) -> None:
        self._recomputed.forget(name)
        self._maintenance.detach(name)

    def rebuild(
        self, dropped: Collection[str], filled: Collection[str], before: Mapping[str, ZSet]
    ) -> None:
        """Brings the circuit and the changefeeds up to views that were dropped or filled anew.

        Args:
            dropped: names of dropped views; some may have been created anew.
            filled: names of views that were bound and filled anew.
            before: the old rows of views with changefeeds that stay.
        """
        self._held.forget({*dropped, *filled})
        for name in {*dropped, *filled}:  # all before any is attached, since they share nodes
            self._detach(name)
        for name in dropped:
            self._feeds.close(name)
        views = [view for name, view in self._catalog.views.items() if name in filled]
        self._attach(views)
        with contextlib.suppress(EvaluationError):  # the next change raises it, and is refused
            if rounding := [view for view in views if view.rounds]:
                self._maintenance.hydrate()
                for view in rounding:
                    self.rewrite_rows(view)
            else:
                self._maintenance.hydrate(early=True)
        deltas = {name: self._since(name, rows) for name, rows in before.items()}
        notified = {name: delta for name, delta in deltas.items() if len(delta)}
        self._feeds.notify(self._tables.pending.epoch, notified)

    def _since(self, name: str, before: ZSet) -> ZSet:
        schema = self._catalog.version.relation_schema(name)
        now = self._tables.content(name)
        return consolidate(add([now, before.negate()]), [t for _, t in schema])

    def refuse_readers(self, names: list[str], what: str, *, cascades: bool) -> None:
        """Refuses to drop or replace relations that other views read.

        Args:
            names: of the relations.
            what: would be done.
            cascades: CASCADE would drop the others, too.

        Raises:
            UnsupportedError: other views read them.
        """
        readers = [v.name for v in self._catalog.version.readers(names) if v.name not in names]
        if readers:
            raise UnsupportedError(
                f"cannot {what}: {', '.join(readers)} read{'s' if len(readers) == 1 else ''} it; "
                f"drop {'it' if len(readers) == 1 else 'them'} first"
                + (", or add CASCADE to drop them too" if cascades else "")
            )

    # -- filling --------------------------------------------------------------------------------

    def stored(self, view: View, *, exact: bool) -> StoredView:
        """The view's record in the file.

        A view in state "needs_rewrite" is rewritten at the next opening, unless `rewrite_rows` has
        run before. A view in state "recomputed" is filled anew by the first opening that maintains
        it incrementally.
        """
        if view.broken is not None:
            return record_of(view, "broken", view.broken)
        state: State = "exact" if exact else "needs_rewrite"
        return record_of(view, state if view.incremental else "recomputed")

    def refill(self, cursor: Cursor, view: View) -> None:
        """Replaces a view's rows by its query's answer, as the cursor's transaction sees it.

        Raises:
            EvaluationError: the query fails on the rows.
        """
        table = self._catalog.qualified[view.name]
        try:
            self._fill(cursor, view, table, filling_again(view, table))
        except duckdb.Error as error:
            if type(translated(error)) not in (EvaluationError, InputError):
                raise
            failed = EvaluationError(
                f"the view {view.name!r} cannot be filled: {of_our_sql(error)}"
            )
            failed.views = frozenset([view.name])
            raise failed from error
        save_view(cursor, self.stored(view, exact=not view.rounds))

    def _fill(self, cursor: Cursor, view: View, table: str, statements: str) -> None:
        """Fills a view's table, as the cursor's transaction sees its query's answer.

        Args:
            cursor: of the transaction.
            view: with its plan.
            table: of the view, in SQL.
            statements: that fill it.

        Raises:
            UnsupportedError: a value in it, or in a relation it reads, cannot be maintained.
        """
        with self._warehouse.zone.on(cursor), told(cursor, view):
            try:
                run(cursor, statements)
            except duckdb.Error as error:
                raise error.__class__(of_our_sql(error)) from error
        for relation in (*[self._catalog.qualified[name] for name in view.reads], table):
            type = unfit_type(cursor.sql(f"FROM {relation}"))
            if type is not None:
                raise UnsupportedError(f"the view {view.name} over {relation}: {why_unfit(type)}")

    def rewrite_rows(self, view: View) -> None:
        """Replaces the view's rows by the circuit's, where DuckDB rounds differently.

        Raises:
            EvaluationError: an expression fails on the tables' rows, as it will at any change.
        """
        with self._warehouse.transaction() as cursor:
            run(cursor, f"DELETE FROM {self._catalog.qualified[view.name]}")
            held = PendingView(view.schema)  # chunks that remove rows, perhaps of later chunks
            for chunk in self._maintenance.contents(view):
                part = PendingView(view.schema) if (chunk.weights > 0).all() else held
                part.add(chunk)
                if part is not held:
                    self._tables.write(cursor, view.name, part.net())
            self._tables.write(cursor, view.name, held.net())
            save_view(cursor, self.stored(view, exact=True))
            self._held.forget([view.name])


def _described(cursor: Cursor, query: str) -> Schema:
    try:
        return describe(cursor, query)
    except duckdb.Error as error:
        raise translated(error, text=query, before="DESCRIBE ") from error


def _unique_names(schema: Schema) -> Schema:
    """Appends a number to repeated column names, as DuckDB does."""
    taken: set[str] = set()
    result = []
    for name, type in schema:
        unique, number = name, 1
        while fold(unique) in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(fold(unique))
        result.append((unique, type))
    return tuple(result)

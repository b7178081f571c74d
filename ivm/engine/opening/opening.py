"""Opening a database: the catalog, the views, then the log's commits that DuckDB does not have.

Contract: after opening, tables and views are at the last committed epoch. Tables get every record
after their epoch, and a view only the deltas after its own, each exactly once.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from ivm.catalog.broken_views import is_unfit
from ivm.catalog.catalog import Catalog
from ivm.catalog.functions import Function
from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.opening.foreign_columns import defined, fitted, unbound_view
from ivm.engine.transactions.transaction import Transaction
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.known_functions import computes
from ivm.storage.errors import (
    ConstraintError,
    CorruptionError,
    EvaluationError,
    InternalError,
    IvmError,
    UnavailableError,
)
from ivm.storage.identifiers import fold
from ivm.storage.log.change import Record
from ivm.storage.log.commit import Commit
from ivm.storage.log.reading import read_records
from ivm.storage.log.recovery import check_tables
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, run
from ivm.storage.warehouse.net_changes import PendingTable
from ivm.storage.warehouse.opening.opening import Choice
from ivm.storage.warehouse.pending import hinders
from ivm.storage.warehouse.tables.history import (
    History,
    demand_unchanged,
    is_stub,
    write_stub,
    write_view,
)
from ivm.storage.warehouse.tables.system_tables import (
    StoredView,
    forget_view_epochs,
    load_views,
    record_duckdb,
    save_view,
    upgrade,
)
from ivm.storage.warehouse.tables.table_info import TableInfo
from ivm.storage.warehouse.warehouse import Warehouse

_NOT_OF_THE_QUERY = (
    *(duckdb.InterruptException, duckdb.IOException, duckdb.OutOfMemoryException),
    *(duckdb.InternalException, duckdb.FatalException),
    *(CorruptionError, InternalError, UnavailableError),
)
"""What says nothing of a view that is bound: the next opening may find nothing wrong with it."""
_MISSING = re.compile(r"Scalar Function with name \"?(.+?)\"? does not exist")


def open_engine(
    path: str | Path,
    *,
    sync_at_commit: bool,
    memory_limit: int | None,
    threads: int | None,
    functions: Iterable[Function] = (),
    choice: Choice = "refuse",
) -> Engine:
    """Opens a database and brings it up to its log.

    Raises:
        UnavailableError: another process has it open, or a view calls a function that is not in
            `functions`.
        CorruptionError: not a DuckDB file, or a damaged log.
    """
    interval = None if sync_at_commit else 0.02
    warehouse = Warehouse.open(
        path, memory_limit=memory_limit, threads=threads, sync_interval=interval, choice=choice
    )
    try:
        engine = Engine(warehouse, Catalog(warehouse.database), sync_at_commit=sync_at_commit)
        for function in functions:
            function.register(warehouse.cursor())
            engine.definitions.forget(registered=[function.name])
        away = _see_histories(engine)
        engine.outbox.replaying = True
        promoted, records = _load(engine)
        refills = promoted or warehouse.is_strange
        _break_behind(engine, away, every=refills)
        engine.maintenance.saved.open()
        if refills:
            _owe(engine, engine.catalog.views)
            engine.unfilled.outdate(engine.catalog.tables)
            warehouse.distrust_views()
            _replay_tables(engine)
            _save(engine, records)
            _refresh_all(engine)
        else:
            _save(engine, records)
            _replay(engine)
        engine.unfilled.hold()
        warehouse.take(engine.catalog.version.tables_by_schema)
        engine.outbox.replaying = False
        engine.settle()
        return engine
    except BaseException:
        warehouse.close()
        raise


def _see_histories(engine: Engine) -> frozenset[str]:
    """Lets the database open where the files of a table are away, and sees when they are back.

    DuckDB opens a file to bind a query over it: without it no view over the table could be bound.

    Returns:
        The tables whose files are away, or are not those that were pinned.
    """
    cursor = engine.warehouse.cursor()
    found = [info for info in engine.warehouse.tables(cursor).values() if info.history is not None]
    return frozenset([info.name for info in found if not _see_history(engine, cursor, info)])


def _see_history(engine: Engine, cursor: Cursor, info: TableInfo) -> bool:
    """Gives a table a view that can be bound, and returns whether its files are as they were."""
    assert info.history is not None
    away = not _is_readable(cursor, info.history)
    if away != is_stub(cursor, info.history):
        if away:
            write_stub(cursor, info.history, info.schema)
        else:
            write_view(cursor, info.history, info.schema, info.key_columns, replace=True)
        engine.warehouse.recorded({})
    try:
        demand_unchanged(cursor, {info.name: info.history})
    except UnavailableError:
        return False
    return True


def _break_behind(engine: Engine, away: Collection[str], *, every: bool) -> None:
    """Breaks the views that cannot be brought up to the log, since files that they need are away.

    The tables get all commits, and REFRESH fills the views when the files are back.

    Args:
        engine: with its views loaded.
        away: the tables whose files are away, or others.
        every: whether all views are to be filled anew; else only those that lack commits suffer.
    """
    log = engine.warehouse.log
    views = [v for v in engine.catalog.views.values() if not v.bases.isdisjoint(away)]
    if not views or log is None:
        return
    records = read_records(log.folder, engine.warehouse.base_epoch)
    behind = {change.table for record in records for change in record.changes}
    lacking = [v for v in views if every or not v.bases.isdisjoint(behind)]
    whole = {v.name for v in lacking if v.incremental} - engine.broken.names()
    if whole:
        why = f"the files of {', '.join(sorted(away))} were away, or others, at an opening"
        engine.broken.mark(whole, f"{why}, and it may lack what was committed before")


def _is_readable(cursor: Cursor, history: History) -> bool:
    try:
        describe(cursor, f"FROM {history.source}")
    except duckdb.Error:
        return False
    return True


def _load(engine: Engine) -> tuple[bool, list[StoredView]]:
    """Binds the views.

    Returns:
        Whether they are to be filled anew, since one that was recomputed is now maintained
        incrementally, or fits its table again; and the records that are not as they are stored.
    """
    cursor = engine.warehouse.cursor()
    stored, promoted = load_views(cursor), False
    saved = list[StoredView]()
    engine.catalog.expect_views(view.name for view in stored)
    engine.reload_databases(cursor)
    engine.reload_tables(cursor)
    engine.outbox.load(cursor)
    engine.retention.load(cursor)
    engine.watermarks.load(cursor)
    if not stored:
        return False, saved  # to list DuckDB's functions takes a third of an opening
    functions = engine.definitions.functions
    for each in stored:
        view = engine.catalog.add_view(_define(engine, cursor, each, functions))
        promoted |= view.broken is None and each.reason is not None
        if view.broken not in (None, each.reason):
            saved.append(replace(each, state="broken", reason=view.broken))
        engine.outbox.load_owed(cursor, view.name)
        if view.name in engine.broken.names():
            _owe(engine, [view.name])  # replay gives it nothing, but the outbox what is in the log
            continue  # REFRESH fills it anew, whatever its rows are now
        engine.views.attach(view)
        if not view.incremental:
            if each.state != "recomputed":
                saved.append(engine.views.stored(view, exact=True))
        elif each.state == "recomputed":
            promoted = True
        elif each.state == "needs_rewrite":
            _owe(engine, [view.name])
            with contextlib.suppress(EvaluationError):  # the next change raises it, and is refused
                engine.views.rewrite_rows(view)
    return promoted, saved


def _save(engine: Engine, records: Sequence[StoredView]) -> None:
    """Stores records of views; ours may not fit beside those of another format."""
    if records:
        with contextlib.closing(engine.warehouse.cursor()) as cursor:
            upgrade(cursor)
            run(cursor, "BEGIN TRANSACTION")
            for record in records:
                save_view(cursor, record)
            run(cursor, "COMMIT")


def _owe(engine: Engine, views: Iterable[str]) -> None:
    """Stores what sinks know of views whose rows are about to be replaced, if they have sinks.

    What replayed records give to sinks comes on top of it.
    """
    views = list(views)
    engine.outbox.outdate(views)
    names = {sink.view for sink in engine.outbox.of_views(views)}
    known = {n: (engine.warehouse.view_epoch(n), engine.tables.content(n)) for n in names}
    changes = engine.outbox.owe(known)
    if changes:
        cursor = engine.warehouse.cursor()
        run(cursor, "BEGIN TRANSACTION")
        engine.tables.write_changes(cursor, changes)
        run(cursor, "COMMIT")
        engine.outbox.follow(Commit(engine.epoch, changes, {}))


def _define(engine: Engine, cursor: Cursor, stored: StoredView, functions: FunctionList) -> View:
    """The view of a record; one that does not bind is broken, which holds up no other."""
    try:
        view = defined(engine, cursor, stored, functions)
    except _NOT_OF_THE_QUERY:
        raise
    except (duckdb.Error, IvmError) as error:
        missing = _MISSING.search(str(error))
        if missing is not None and not computes(fold(missing[1])):
            raise UnavailableError(
                f"materialized view {stored.name!r} calls {missing[1]}(), which is no function of "
                "DuckDB: give the Python function to ivm.connect(functions=[ivm.Function(…)]); or, "
                "if it was a macro that another program has dropped, create that again by DuckDB"
            ) from error
        return unbound_view(engine, cursor, stored, error)
    view = replace(view, broken=stored.reason)
    if engine.warehouse.is_strange or is_unfit(stored.reason):
        return fitted(engine, cursor, view, stored)
    return view


def _replay(engine: Engine) -> None:
    warehouse = engine.warehouse
    if warehouse.log is None:
        return
    for record in read_records(warehouse.log.folder, warehouse.base_epoch):
        if engine.pending.hinder(record.changes):
            engine.tables.flush()
        try:
            deltas = engine.maintenance.step(record.changes)
        except EvaluationError as error:
            _replay_failing(engine, record, error.views)
            continue
        lacking = {n: d for n, d in deltas.items() if warehouse.view_epoch(n) < record.epoch}
        engine.follow(Commit(record.epoch, record.changes, lacking))


def _replay_failing(engine: Engine, record: Record, failing: frozenset[str]) -> None:
    """Replays a record that was committed together with the differences of stale views.

    It is committed in any case: views that fail on it all the same are broken.
    """
    while True:
        try:
            return _replay_in_duckdb(engine, record, failing)
        except EvaluationError as error:
            if not engine.recomputed.concern(error.views - failing):
                engine.broken.break_failing(error, record.changes)
            failing |= error.views


def _nothing_is_temporary(queries: Iterable[tuple[str, str]]) -> None:
    """Does nothing: no session has begun."""


def _replay_in_duckdb(engine: Engine, record: Record, failing: Iterable[str]) -> None:
    engine.pending.epoch = record.epoch - 1
    transaction = Transaction(engine, engine.warehouse.cursor(), _nothing_is_temporary)
    for change in record.changes:
        transaction.add(change, late="not counted")  # it was judged when it was committed
    transaction.replay(frozenset(failing))


def _replay_tables(engine: Engine) -> None:
    """Brings the tables up to the log; the caller then fills the views from them.

    Raises:
        CorruptionError: the log's commits do not fit the tables, which another program has
            changed. Nothing was changed.
    """
    warehouse = engine.warehouse
    if warehouse.log is None:
        return
    schemas = engine.catalog.version.tables_by_schema
    check_tables(warehouse.log.folder, warehouse.base_epoch, schemas)
    parts: dict[str, PendingTable] = {}
    for record in read_records(warehouse.log.folder, warehouse.base_epoch):
        if hinders(parts, record.changes, engine.catalog):
            _write(engine, parts)
            parts = {}
        engine.pending.epoch = record.epoch
        engine.outbox.follow(Commit(record.epoch, record.changes, {}))
        for change in record.changes:
            part = parts.setdefault(change.table, engine.pending.new_table(change.table))
            part.collect(change, record.epoch)
    _write(engine, parts)


def _write(engine: Engine, parts: Mapping[str, PendingTable]) -> None:
    """Flushes the changes that records tell of."""
    warehouse = engine.warehouse
    changes = {name: part.net() for name, part in parts.items()}
    warehouse.flusher.demand_stored(changes)
    try:
        warehouse.flush(engine.epoch, changes or None, {})
    except (duckdb.ConstraintException, ConstraintError) as error:
        raise CorruptionError(
            f"The log's commits do not fit the tables as they are now: {error}. Nothing was"
            f" changed; `ivm recover {warehouse.file.file}` says what can be done."
        ) from error


def _refresh_all(engine: Engine) -> None:
    """Fills every view anew: the state of the tables that their rows are from is not known.

    Views whose queries fail on what another program has written are broken; recomputed ones are
    stale, as after any opening.
    """
    stale: set[str] = set()
    while True:
        try:
            _refill(engine, stale)
            break
        except EvaluationError as error:
            late = {n for n in error.views if not engine.catalog.views[n].incremental}
            if not late:
                engine.broken.break_failing(error, ())
            stale |= late
    for view in _whole(engine):
        if view.rounds:
            with contextlib.suppress(EvaluationError):
                engine.views.rewrite_rows(view)


def _refill(engine: Engine, stale: Collection[str]) -> None:
    """Fills all views that are not broken, but for these, in one transaction.

    The epochs of views are dropped too: that of a view may be greater than the tables', if it was
    flushed ahead of commits that were then discarded. Later commits with these numbers would be
    skipped.
    """
    with engine.warehouse.write_lock, contextlib.closing(engine.warehouse.cursor()) as cursor:
        run(cursor, "BEGIN TRANSACTION")  # closing rolls back after an error
        for view in _whole(engine):
            if view.name not in stale:
                engine.views.refill(cursor, view)
        forget_view_epochs(cursor)
        record_duckdb(cursor)
        run(cursor, "COMMIT")
        engine.warehouse.refilled()


def _whole(engine: Engine) -> list[View]:
    broken = engine.broken.names()
    return [view for name, view in engine.catalog.views.items() if name not in broken]

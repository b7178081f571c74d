"""Views that no longer fit: another program has altered their tables or what they read, or DuckDB
is of another version, and refuses their queries or gives other types.

Law: a view has the columns of the table that holds it, by which its rows and the deltas that sinks
have to get are read. Where its query gives others, or fails to bind, it is broken, until that is
altered back: by another program, after which all views are filled anew anyway, or here, and then
REFRESH fills it. A table that is gone is made anew; that of a view whose query fails gets its
columns when the query binds again.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb

from ivm.catalog.broken_views import FOREIGN, LOST, UNFIT_HERE, is_unfit, spelled
from ivm.catalog.columns import difference, same_columns
from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.views.view_reads import demand_earlier
from ivm.engine.views.views import create_table
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.resolve.determinism import check_deterministic
from ivm.storage.errors import CorruptionError, EvaluationError, IvmError
from ivm.storage.identifiers import path_of, quote
from ivm.storage.values.types import Schema, type_of
from ivm.storage.versions import own_version
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, run
from ivm.storage.warehouse.tables.system_tables import StoredView, load_views

_GONE = f"{FOREIGN}: the table that held it is gone"
_UNKNOWN: Schema = (("unknown", type_of("VARCHAR")),)
"""The columns of a table that holds a view whose own columns nobody knows."""


def defined(engine: Engine, cursor: Cursor, stored: StoredView, functions: FunctionList) -> View:
    """The view of a record, as its query binds now; see `Views.define` for what it raises."""
    time_functions = check_deterministic(stored.query, cursor, functions)
    given = stored.name, stored.query, stored.columns
    ways = functions, time_functions, stored.tick
    return engine.views.define(cursor, *given, *ways, emits=stored.emits)


def bound_again(engine: Engine, cursor: Cursor, broken: View) -> View:
    """A view that another program has broken, as its query binds now; it may be broken still.

    Args:
        engine: knows the tables.
        cursor: sees them.
        broken: the view.

    Raises:
        EvaluationError: its query still fails.
        UnsupportedError: it would read a view that was made after it.
    """
    stored = next(each for each in load_views(cursor) if each.name == broken.name)
    try:
        view = defined(engine, cursor, stored, list_functions(cursor))
    except duckdb.InterruptException:
        raise
    except (duckdb.Error, IvmError) as error:
        found = _reason(engine, stored, f"fails ({error})")
        raise EvaluationError(f"the view {stored.name!r} is broken: {found}") from error
    demand_earlier(engine.catalog.version, view.name, view.reads)
    return fitted(engine, cursor, replace(view, broken=broken.broken), stored)


def without_reads(broken: View) -> View:
    """A broken view that reads nothing, so that nothing which is altered concerns it."""
    return replace(broken, reads=frozenset(), plan=None, compiled=None, key=None)


def fitted(engine: Engine, cursor: Cursor, view: View, stored: StoredView) -> View:
    """A view with the columns of its table, broken if its query gives others.

    Args:
        engine: knows the tables.
        cursor: sees them.
        view: with the columns that its query gives; it may have been broken before.
        stored: its record.

    Raises:
        CorruptionError: the table is gone, and something else has its name.
    """
    given, gone = view.schema, _is_gone(engine, view.name, view.broken)
    if gone:
        _make_table(engine, cursor, view.name, given)
    held, broken = _held(engine, cursor, view.name), view.broken
    if not same_columns(held, given):
        found = f"gives {difference(held, given)}, unlike the table that holds it"
        broken = _reason(engine, stored, found)
    elif gone and engine.outbox.of_views([view.name]):
        refresh = f"REFRESH MATERIALIZED VIEW {spelled(view.name)}"
        broken = f"{LOST}. {refresh} fills it anew, and they get all its rows again"
    elif is_unfit(broken):
        broken = None
    return replace(view, schema=held, broken=broken)


def unbound_view(engine: Engine, cursor: Cursor, stored: StoredView, error: Exception) -> View:
    """A view whose query fails to bind: it is broken, and reads nothing.

    Args:
        engine: knows the tables.
        cursor: sees them.
        stored: the view's record.
        error: of its query.

    Raises:
        CorruptionError: as above.
    """
    broken = _reason(engine, stored, f"fails ({error})")
    if _is_gone(engine, stored.name, stored.reason):
        broken = f"{_GONE}, and {broken.removeprefix(FOREIGN + ': ')}"
        if stored.name not in engine.catalog.qualified:
            _make_table(engine, cursor, stored.name, _UNKNOWN)
    held = _held(engine, cursor, stored.name)
    return View(
        stored.name,
        stored.query,
        held,
        frozenset(),
        described=held,
        broken=broken,
        tick=stored.tick,
        emits=stored.emits,
    )


def _is_gone(engine: Engine, name: str, reason: str | None) -> bool:
    """Returns whether a view's table is missing, or was and has other columns since then."""
    return name not in engine.catalog.qualified or (reason or "").startswith(_GONE)


def _make_table(engine: Engine, cursor: Cursor, name: str, columns: Schema) -> None:
    """Makes the table that holds a view anew, unless it has these columns."""
    known = engine.catalog.qualified.get(name)
    if known is not None:
        if same_columns(describe(cursor, f"FROM {known}"), columns):
            return
        run(cursor, f"DROP TABLE {known}")
    database = engine.warehouse.database
    try:
        run(cursor, f"CREATE SCHEMA IF NOT EXISTS {quote(database)}.{quote(path_of(name)[0])}")
        create_table(cursor, database, name, columns)
    except duckdb.CatalogException as error:
        raise CorruptionError(
            f"the table that holds materialized view {name!r} is gone, and something else has its "
            f"name ({error}); another program has put it there: drop or rename that by DuckDB"
        ) from error
    engine.reload_tables(cursor)


def _held(engine: Engine, cursor: Cursor, name: str) -> Schema:
    """The columns of the table that holds a view."""
    return describe(cursor, f"FROM {engine.catalog.qualified[name]}")


def _reason(engine: Engine, stored: StoredView, found: str) -> str:
    again = f"MATERIALIZED VIEW {spelled(stored.name)}"
    why, back = f"{UNFIT_HERE} {own_version()} with DuckDB {duckdb.__version__}", "mended"
    if engine.warehouse.foreign_write or (stored.reason or "").startswith(FOREIGN):
        why, back = FOREIGN, "altered back"
    return (
        f"{why}: its query {found}. REFRESH {again} fills it when that is {back}, or "
        f"CREATE OR REPLACE {again} makes it anew"
    )

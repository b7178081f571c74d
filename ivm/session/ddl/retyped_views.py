"""Views that show a column whose type has changed are created anew in their place.

Law: such a view has the names, the query, the tick and the indexes that it had, and its query's
rows in the types that it gives now; a final view keeps its own, cast to these. Views above it are
created anew too, since each view comes after those that it reads. A view with a sink stays as it
is, and the change is refused: what the sink has told of its columns would not hold any more.
"""

from __future__ import annotations

from dataclasses import replace

import duckdb

from ivm.catalog.version import View
from ivm.engine.transactions.transaction import Transaction
from ivm.session.ddl.sinks import refuse_sinks
from ivm.session.session import Session
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.resolve.determinism import check_deterministic
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import describe, run
from ivm.storage.warehouse.tables.view_indexes import save_view_index

_KEPT = "temp.main._ivm_kept"


def is_retyped(session: Session, view: View) -> bool:
    """Whether a view's query gives the columns that it gave, in other types."""
    try:
        found = describe(session.cursor, view.query)
    except duckdb.InterruptException:
        raise
    except duckdb.Error:  # what is wrong with it is told where it is bound
        return False
    names = [fold(name) for name, _ in found] == [fold(name) for name, _ in view.described]
    return names and [type for _, type in found] != [type for _, type in view.described]


def create_anew(
    session: Session, transaction: Transaction, view: View, functions: FunctionList
) -> View:
    """Creates a view anew, in the types that its query gives now.

    Raises:
        UnsupportedError: it has sinks.
    """
    what = f"give columns of the materialized view {view.name} other types"
    refuse_sinks(session, transaction, [view.name], what)
    engine = session.engine
    indexes = [index for index in engine.catalog.view_indexes.values() if index.view == view.name]
    time_functions = check_deterministic(view.query, session.cursor, functions)
    names = tuple([name for name, _ in view.schema])
    given = view.name, view.query, names
    ways = functions, time_functions, view.tick
    anew = engine.views.define(session.cursor, *given, *ways, emits=view.emits)
    anew = replace(anew, broken=view.broken)
    if view.stays:
        _create_keeping(session, transaction, view, anew)
    else:
        transaction.drop_view(view)
        transaction.create_view(anew)
    for index in indexes:
        save_view_index(session.cursor, index)
    engine.reload_tables(session.cursor)
    return anew


def _create_keeping(session: Session, transaction: Transaction, view: View, anew: View) -> None:
    """Creates a view whose rows stay in the place of its former self, with the rows of that."""
    cursor, held = session.cursor, session.engine.catalog.qualified[view.name]
    run(cursor, f"CREATE TEMP TABLE _ivm_kept AS FROM {held}")
    transaction.drop_view(view)
    transaction.create_view(anew, lambda table: f"INSERT INTO {table} FROM {_KEPT}")
    run(cursor, f"DROP TABLE {_KEPT}")

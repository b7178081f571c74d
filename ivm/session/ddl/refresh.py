"""REFRESH MATERIALIZED VIEW: fills a view anew from its query, with the views above it.

Contract: after it the view is not broken, nor are those above it that were broken by it alone. If
its query still fails, nothing has changed. One above it that fails by itself stays broken, by
itself from then on.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.catalog.broken_views import UNFILLED, broken_error, broken_views, is_unfit
from ivm.catalog.version import CatalogVersion, View
from ivm.engine.opening.foreign_columns import bound_again
from ivm.engine.views.broken_views import why
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.parse.function_list import list_functions
from ivm.sql.statements import parse as st
from ivm.storage.errors import EvaluationError, UnavailableError


def refresh(session: Session, statement: st.RefreshView, params: Params) -> Result:
    """Runs REFRESH MATERIALIZED VIEW.

    Raises:
        EvaluationError: the query fails on the rows, or a view below is broken.
        UnavailableError: its first fill has not ended, and the session has a transaction open.
    """
    while True:
        try:
            _refresh(session, statement)
            return Result("done")
        except EvaluationError as error:
            if session.transaction is not None or not _broke_above(session, statement, error):
                raise


def _broke_above(session: Session, statement: st.RefreshView, error: EvaluationError) -> bool:
    """Breaks the views above that failed, if they were broken by the one below until now."""
    with session.writing():
        engine = session.engine
        name = engine.catalog.version.view(statement.name).name
        failed = error.views & engine.broken.names() - {name}
        if failed:
            engine.broken.mark(failed, why(error))
    return bool(failed)


def _refresh(session: Session, statement: st.RefreshView) -> None:
    with session.writing() as transaction:
        engine = session.engine
        view = engine.catalog.version.view(statement.name)
        _demand_seen(session, view)
        if is_unfit(view.broken):
            session.refuse_temporary([(view.name, view.query)])
            transaction.change_catalog()
            view = engine.catalog.add_view(bound_again(engine, session.cursor, view))
        filled = _filled(engine.catalog.version, view)
        session.refuse_temporary([(each.name, each.query) for each in filled])
        with engine.unfilled.refreshing(view.name):
            transaction.show({name for each in filled for name in each.reads})
            transaction.change_catalog()
            engine.catalog.change_views([view.name], broken=None)
        functions = list_functions(session.cursor)
        for each in filled:
            whole = engine.catalog.views[each.name]
            engine.catalog.add_view(engine.views.bound(whole, session.cursor, functions))
        transaction.rebuild(filled)


def _demand_seen(session: Session, view: View) -> None:
    """Checks that the rows that a first fill has written are to be seen, and so can be removed."""
    if view.broken == UNFILLED and session.transaction is not None:
        raise UnavailableError(
            f"the first fill of {view.name!r} has not ended, and this transaction does not see all "
            "that it has written: COMMIT first, and REFRESH it outside of a transaction"
        )


def _filled(version: CatalogVersion, view: View) -> list[View]:
    """The view and those above it that are not broken once it is filled.

    Raises:
        EvaluationError: one below it is broken, or its table has not the columns of its query.
    """
    kept = view.broken if is_unfit(view.broken) else None
    broken = broken_views({**version.views, view.name: replace(view, broken=kept)})
    if view.name in broken:
        raise broken_error(view.name, broken[view.name])
    return [each for each in (view, *version.readers([view.name])) if each.name not in broken]

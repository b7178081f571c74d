"""CREATE, DROP, EXPLAIN, VERIFY and SHOW of materialized views, as statements.

Contract: CREATE, DROP and VERIFY run in the session's open transaction, or in one of their own, and
resolve names in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import duckdb
import pyarrow as pa

from ivm.backfill.choice import why_spark
from ivm.backfill.job import KIND
from ivm.backfill.refuse import refuse_unfillable
from ivm.backfill.run_fills import progress_text
from ivm.backfill.verify import verify_on_spark
from ivm.catalog.broken_views import UNFILLED, is_unfit, why_broken
from ivm.catalog.version import CatalogVersion, View
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.verify import Verdict, verify_view
from ivm.engine.views.clock import spelled_tick
from ivm.engine.views.fillings import Kept
from ivm.engine.views.view_reads import views_shadowed_by
from ivm.ingest.parameters import Params
from ivm.session.ddl.clock import make_clock
from ivm.session.ddl.sinks import drop_sinks, refuse_sinks
from ivm.session.dml import refuse_own
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.compile.explain_drawing import counted
from ivm.sql.parse.function_list import list_functions
from ivm.sql.resolve.determinism import check_deterministic
from ivm.sql.resolve.plain_views import PlainViews
from ivm.sql.statements import parse as st
from ivm.storage.errors import EvaluationError, InputError, SqlError, UnsupportedError
from ivm.storage.identifiers import fold, path_of
from ivm.storage.warehouse.duckdb.duckdb_errors import is_cut_short, of_our_sql, ours, translated


def create(session: Session, statement: st.CreateView, params: Params) -> Result:
    """Runs CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS]."""
    refuse_own(statement.name)
    result = Result("done")
    with session.writing() as transaction:
        catalog = session.engine.catalog
        name = catalog.names.new(statement.name)
        present = catalog.names.resolve(statement.name)
        if present is None or _may_create(session, transaction, statement, present):
            transaction.show(session.reads(statement, statement.query))
            view = _defined(session, transaction, statement, name)
            _demand_whole(session, view)
            session.engine.tables.demand_histories(view.reads)
            if statement.backfill == "spark":
                refuse_unfillable(session.engine, catalog.version, view)
            if statement.backfill == "auto":
                result.message = why_spark(session.engine, view) or ""
            if statement.backfill == "spark" or result.message:
                view = replace(view, broken=UNFILLED)
                jobs = session.engine.jobs
                transaction.afterwards(lambda: jobs.changed(KIND, name))
            _create(session, transaction, statement, view, present)
    return result


def restore(
    session: Session, statement: st.CreateView, broken: str | None, kept: Kept | None
) -> None:
    """Creates a view that is imported; a broken one, and those above it, stay broken.

    Args:
        session: in its transaction.
        statement: creates the view.
        broken: why it is broken.
        kept: the rows that it keeps, if they stay.
    """
    with session.writing() as transaction:
        catalog = session.engine.catalog
        present = catalog.names.resolve(statement.name)
        if present is not None:
            _may_create(session, transaction, statement, present)
        view = _defined(session, transaction, statement, catalog.names.new(statement.name))
        view = replace(view, broken=None if is_unfit(broken) else broken)  # its table is made anew
        transaction.show(view.reads)
        _create(session, transaction, statement, view, present, kept)


def _demand_whole(session: Session, view: View) -> None:
    """Refuses a view over a broken one."""
    for name in sorted(view.reads):
        session.engine.broken.demand_whole(name)


def _defined(
    session: Session, transaction: Transaction, statement: st.CreateView, name: str
) -> View:
    """The view of a statement, compiled."""
    session.refuse_temporary([(name, statement.query)])
    # A statement that fails while the query is bound would abort the session's transaction.
    engine = session.engine
    reader = session.cursor if transaction.changes_catalog else engine.warehouse.cursor()
    with _placed(statement):
        alone = transaction.changes_catalog  # it may see what others do not see yet
        functions = list_functions(reader) if alone else engine.definitions.functions
        time_functions = check_deterministic(statement.query, reader, functions)
        if time_functions and make_clock(session, transaction):
            reader = session.cursor
        if statement.tick is not None and not time_functions:
            raise SqlError(
                f"view {name!r} has ticks, but its query does not read the time: leave WITH (tick "
                "= …) out"
            )
        given = name, statement.query, statement.columns
        ways = functions, time_functions, statement.tick
        view = engine.views.define(reader, *given, *ways, emits=statement.emits)
    if view.tick is not None:
        transaction.begin_in_duckdb()
        for change in engine.clock.begun(session.cursor, view.tick):
            transaction.add(change)
    return view


def _create(
    session: Session,
    transaction: Transaction,
    statement: st.CreateView,
    view: View,
    present: str | None,
    kept: Kept | None = None,
) -> None:
    """Creates a view; drops the one of the same name that is present."""
    with _placed(statement):
        if present is None:
            _refuse_shadowing(session, view.name, statement)
        else:
            transaction.drop_view(session.engine.catalog.views[present])
        transaction.create_view(view, kept)


@contextlib.contextmanager
def _placed(statement: st.CreateView) -> Iterator[None]:
    """A block whose errors get the position of the view's query in the script."""
    offset = statement.offset + statement.query_offset
    try:
        yield
    except duckdb.Error as error:
        raise translated(error, offset, statement.query) from error
    except (SqlError, UnsupportedError) as error:
        if error.position is not None:
            error.position += offset
        raise


def _refuse_shadowing(session: Session, name: str, statement: st.CreateView) -> None:
    """Refuses a view that would hide a relation of main from plain views of the same schema."""
    engine, last = session.engine, path_of(name)[-1]
    shadowed = views_shadowed_by(engine.catalog.version, session.cursor, name)
    plain = shadowed and PlainViews(session.cursor).find(("main", fold(last)))
    if shadowed and (plain or engine.catalog.names.resolve((last,))):
        raise UnsupportedError(
            f"a view {name!r} could take the place of {last!r} below the materialized view "
            f"{shadowed[0].name!r}: give it another name, or drop that view first",
            statement.offset,
        )


def _may_create(
    session: Session, transaction: Transaction, statement: st.CreateView, present: str
) -> bool:
    catalog = session.engine.catalog
    if present not in catalog.views:
        raise SqlError(
            f"{present!r} is a table: choose another name for the view, or drop the table first",
            statement.offset,
        )
    if statement.if_not_exists:
        return False
    if not statement.replace:
        raise SqlError(
            f"materialized view {present!r} exists: use CREATE OR REPLACE MATERIALIZED VIEW, or "
            "IF NOT EXISTS",
            statement.offset,
        )
    session.engine.views.refuse_readers([present], f"replace view {present!r}", cascades=False)
    refuse_sinks(session, transaction, [present], f"replace view {present!r}")
    return True


def drop(session: Session, statement: st.DropView, params: Params) -> Result:
    """Runs DROP MATERIALIZED VIEW [IF EXISTS] … [CASCADE]."""
    with session.writing() as transaction:
        wanted = _wanted(session, statement)
        if not statement.cascade:
            what = f"drop view {', '.join(wanted)}"
            session.engine.views.refuse_readers(wanted, what, cascades=True)
            refuse_sinks(session, transaction, wanted, f"{what} without CASCADE")
        if session.transaction is None:
            transaction.allow_late_flush()
        drop_views(session, transaction, wanted)
        transaction.flush_late()
    return Result("done")


def _wanted(session: Session, statement: st.DropView) -> list[str]:
    catalog = session.engine.catalog
    return [
        catalog.version.view(parts).name
        for parts in statement.names
        if not statement.if_exists or catalog.names.resolve(parts) is not None
    ]


def drop_views(session: Session, transaction: Transaction, names: list[str]) -> None:
    """Drops views and all views that read them, the uppermost first, and their sinks."""
    engine = session.engine
    all_names = {*names, *[view.name for view in engine.catalog.version.readers(names)]}
    transaction.begin_in_duckdb()
    drop_sinks(session, transaction, engine.outbox.of_views(all_names, transaction.changes))
    for name in [n for n in reversed(list(engine.catalog.views)) if n in all_names]:
        transaction.drop_view(engine.catalog.views[name])


def explain(session: Session, statement: st.ExplainView, params: Params) -> Result:
    """Runs EXPLAIN [ANALYZE] MATERIALIZED VIEW: how it is maintained, operator by operator."""
    view = session.version.view(statement.name)
    text = session.engine.views.explain(view, format=statement.format, analyze=statement.analyze)
    return Result.of_table(
        pa.table({"explain_key": [view.name], "explain_value": [text]}), ["VARCHAR", "VARCHAR"]
    )


def verify(session: Session, statement: st.VerifyView, params: Params) -> Result:
    """Runs VERIFY MATERIALIZED VIEW: compares each view with its query, a row per view.

    If a query leaves part of its answer open, one more column says which part; and if a view is
    broken, or of all views the query of one fails, so that there is nothing to compare, one says
    why.
    """
    verified = _verified_on_spark if statement.spark else _verified
    return _verdicts(*verified(session, statement))


def _verified(
    session: Session, statement: st.VerifyView
) -> tuple[dict[str, str | None], list[Verdict | None]]:
    """Compares views with the answers of their queries in DuckDB."""
    found: list[Verdict | None] = []
    with session.writing() as transaction:
        engine = session.engine
        chosen = _chosen(session, engine.catalog.version, statement)
        session.refuse_temporary([(view.name, view.query) for view in chosen])
        goes_on = statement.name is None and not transaction.begun
        if goes_on:
            engine.recomputed.refresh_all()
        broken = {v.name: why_broken(engine.catalog.views, v.name) for v in chosen}
        for view in chosen:
            try:
                whole = broken[view.name] is None
                found.append(_verdict(session, transaction, view) if whole else None)
            except EvaluationError as error:
                if not goes_on:
                    raise
                broken[view.name] = str(error)
                found.append(None)
                transaction.leave_duckdb()  # where it is aborted
    return broken, found


def _verdict(session: Session, transaction: Transaction, view: View) -> Verdict:
    """Compares one view.

    Raises:
        EvaluationError: its query fails.
    """
    try:
        transaction.show([view.name])
        return verify_view(session.engine, session.cursor, view)
    except duckdb.Error as error:
        if is_cut_short(error) or not isinstance(ours(error), InputError | UnsupportedError):
            raise
        why = of_our_sql(error)
        raise EvaluationError(f"view {view.name!r}: its query fails: {why}") from error


def _chosen(session: Session, version: CatalogVersion, statement: st.VerifyView) -> list[View]:
    if statement.name is None:
        return list(version.views.values())
    view = version.view(statement.name)
    session.engine.broken.demand_whole(view.name)
    return [view]


def _verified_on_spark(
    session: Session, statement: st.VerifyView
) -> tuple[dict[str, str | None], list[Verdict | None]]:
    """Compares committed rows, while other sessions go on."""
    if session.transaction is not None:
        raise UnsupportedError(
            "VERIFY … USING SPARK compares what is committed: end the transaction first"
        )
    engine, version = session.engine, session.version
    chosen = _chosen(session, version, statement)
    broken = {v.name: why_broken(version.views, v.name) for v in chosen}
    return broken, [None if broken[v.name] else verify_on_spark(engine, version, v) for v in chosen]


def _verdicts(broken: Mapping[str, str | None], found: Sequence[Verdict | None]) -> Result:
    """A row per view: why it is broken, or else what was found."""
    columns = {
        "view": pa.array(list(broken), pa.string()),
        "rows": pa.array([f and f.rows for f in found], pa.int64()),
        "missing": pa.array([f and f.missing for f in found], pa.int64()),
        "extra": pa.array([f and f.extra for f in found], pa.int64()),
        "ok": pa.array([f is not None and f.ok for f in found], pa.bool_()),
    }
    if any(f is not None and f.left_open for f in found):
        columns["left_open"] = pa.array([(f and f.left_open) or None for f in found], pa.string())
    _add_broken(columns, broken)
    types = ["VARCHAR", "BIGINT", "BIGINT", "BIGINT", "BOOLEAN", "VARCHAR", "VARCHAR"]
    return Result.of_table(pa.table(columns), types[: len(columns)])


def show(session: Session, statement: st.ShowViews, params: Params) -> Result:
    """Runs SHOW MATERIALIZED VIEWS: strategies, relations read, queries, why any is broken.

    If any has an index, or is held in memory, further columns say so.
    """
    found = session.views
    views = {view.name: view for view in found}
    columns = {
        "name": pa.array(list(views), pa.string()),
        "strategy": pa.array([session.engine.views.strategy(view) for view in found], pa.string()),
        "reads": pa.array([", ".join(sorted(view.reads)) for view in found], pa.string()),
        "query": pa.array([view.written for view in found], pa.string()),
    }
    indexes = [_indexes(session, name) for name in views]
    if any(indexes):
        columns["indexes"] = pa.array(indexes, pa.string())
    if any(view.tick for view in found):
        columns["tick"] = pa.array([view.tick and spelled_tick(view.tick) for view in found])
    held = session.engine.held.sizes()
    if held:
        sizes = [_size(*held[name]) if name in held else None for name in views]
        columns["held"] = pa.array(sizes, pa.string())
    fills = {name: progress_text(session.engine, name) for name in views}
    if any(fills.values()):
        columns["backfill"] = pa.array(list(fills.values()), pa.string())
    _add_broken(columns, {n: None if fills[n] else why_broken(views, n) for n in views})
    return Result.of_table(pa.table(columns), ["VARCHAR"] * len(columns))


def _size(rows: int, size: int) -> str:
    return f"{counted(rows, 'row')}, {-(-size // 1024):,} kB"


def _indexes(session: Session, view: str) -> str | None:
    """The indexes on a view; None if there is none."""
    found = session.engine.catalog.view_indexes.values()
    texts = [f"{i.name} ({', '.join(i.columns)})" for i in found if i.view == view]
    return ", ".join(texts) or None


def _add_broken(columns: dict[str, pa.Array], reasons: Mapping[str, str | None]) -> None:
    """Adds a column with the reasons why views are broken, if any is."""
    if any(reasons.values()):
        columns["broken"] = pa.array(list(reasons.values()), pa.string())

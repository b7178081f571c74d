"""UPDATE … FROM, DELETE … USING and MERGE by the primary key: DuckDB computes the source's rows.

Contract: as of `ivm.session.evaluated`. The rows of the table are found by its key index, so DuckDB
need not be brought up to the log for them; kernels compute the rest.
"""

from __future__ import annotations

from ivm.capture.clauses import Clauses
from ivm.capture.evaluation import described
from ivm.capture.insert_clauses import reads_a_pipe
from ivm.capture.joined_clauses import JoinedChange, read_joined
from ivm.capture.joined_rows import Effect, Join, JoinedRows, join_of
from ivm.engine.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import NeedsDuckDBError, Removed
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.row_expressions import lookup_in
from ivm.session.inserts import NO_RETURNING, finished, returned
from ivm.session.readable import CALLS_PYTHON, may_call_python, may_read
from ivm.session.result import Result
from ivm.session.session import Params, Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import ConstraintError
from ivm.storage.warehouse.table_info import TableInfo

KINDS = ("update", "delete", "merge")


def change_by_source(
    session: Session,
    transaction: Transaction,
    path: FastPath,
    info: TableInfo,
    statement: st.Dml,
    params: Params,
) -> Result | None:
    """Runs a change by the fast path; None if DuckDB must run it."""
    clauses = Clauses(statement.text, params)
    change = plan_of(session, info, statement, clauses)
    if isinstance(change, str) or not clauses.fit:
        return None
    if transaction.idle_cursor is None or (statement.kind == "merge" and not path.is_plain):
        return None  # the rows of several branches may take and leave the same keys
    if not may_read(session, transaction, statement, change.source):
        return None
    found = described(session.cursor, change.source, clauses.params(change.source))
    if found is None:
        return None
    schema, rows = found
    join = join_of(change, _reference(statement), path, schema)
    if join is None or not _is_certain(session, join):
        return None
    index = transaction.index_of_committed(info.name, join.needs_all)
    if index is None:
        return None
    lookup = lookup_in(params or ())
    effect = JoinedRows(join, index, rows, session.macros, lookup).effect()
    return None if effect is None else _made(session, transaction, join, index, statement, effect)


def plan_of(
    session: Session, info: TableInfo, statement: st.Dml, clauses: Clauses
) -> JoinedChange | str:
    """What the statement says, or the reason why DuckDB must run it."""
    if not info.primary_key:
        return "the table has no primary key"
    change = read_joined(clauses, statement)
    if change is None:
        return "its clauses have a form that DuckDB alone reads"
    if reads_a_pipe(clauses):
        return "it reads what can be read only once"
    if may_call_python(session, statement.text):
        return CALLS_PYTHON
    if statement.returning and returned(session, info, _as_keyed(statement, change)) is None:
        return NO_RETURNING
    return change


def _reference(statement: st.Dml) -> str:
    assert statement.table is not None
    return statement.alias or statement.table[-1]


def _as_keyed(statement: st.Dml, change: JoinedChange) -> st.KeyedChange:
    return st.KeyedChange(
        *(statement.text, statement.offset, statement.kind, statement.table, statement.alias),
        statement.returning,
        returned=change.returned,
    )


def _is_certain(session: Session, join: Join) -> bool:
    """Returns whether no collation makes different texts equal keys."""
    if not any(join.source[i][1].is_string for i in join.by):
        return True
    engine, source = session.engine, join.change.source
    collated = any(info.collated for info in engine.catalog.tables.values())
    listed = engine.definitions.relations.names_relations_alone(source)
    return listed and not collated and "COLLATE" not in source.upper()


def _made(
    session: Session,
    transaction: Transaction,
    join: Join,
    index: KeyIndex,
    statement: st.Dml,
    effect: Effect,
) -> Result | None:
    """Adds the change; None, and nothing added, where DuckDB must find out or word an error."""
    path, changes = join.path, []
    if effect.updated is not None and next(path.violations(effect.updated), None) is not None:
        return None
    written = path.set_columns(effect.sets, returning=statement.returning)
    replaced = Removed(effect.removed, index.columns, None if effect.updated is None else written)
    fitting = effect.removed.slice(0, 0) if effect.updated is None else effect.updated
    if not path.fits_further(fitting, replaced):
        return None
    if effect.added is not None:
        columns = dict(enumerate(effect.added.columns))
        try:
            changes = [path.insert(columns, len(effect.added), index)]
        except (ConstraintError, NeedsDuckDBError):
            return None
    change = path.change(effect.updated, effect.removed, index)
    if join.change.returned:
        info = session.engine.catalog.tables[path.table]
        shown = returned(session, info, _as_keyed(statement, join.change))
        rows = effect.removed if effect.updated is None else effect.updated
        return finished(transaction, change, rows, shown)
    for each in (change, *changes):
        transaction.add(each)
    return Result.count(effect.rows)

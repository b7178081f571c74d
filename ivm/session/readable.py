"""Which queries may be evaluated beside the open transaction, in one of their own.

Law: such a query gives what it would give within the transaction. So it reads nothing that the
transaction has changed, nor (after a BEGIN) the time, which stands still in a transaction; and it
reads nothing that is used up by reading, as DuckDB may have to run the statement afterwards.
"""

from __future__ import annotations

from ivm.catalog.relations_read import WordSet
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.not_fast import NotFastError
from ivm.session.is_read_only import is_read_only
from ivm.session.session import Session
from ivm.sql.resolve.clock import may_tell_time
from ivm.sql.statements import parse as st

READS_CHANGES = "its query may read what the transaction has changed, or its time"


def demand_readable(
    session: Session, transaction: Transaction, statement: st.Dml, text: str
) -> None:
    """Brings the relations of a query up to the log, if it may be evaluated.

    Args:
        session: whose cursor will evaluate it.
        transaction: the session's, not in DuckDB.
        statement: that needs its rows.
        text: the query, "" if it reads no relation.

    Raises:
        NotFastError: it may not.
        EvaluationError: it reads a broken view.
        UnavailableError: DuckDB cannot be brought up to the log.
    """
    if not text:
        return
    if session.scans.read_once(text):
        raise NotFastError("its query reads what is used up by reading")
    engine, relations = session.engine, session.reads(statement, text)
    if not _may_tell(session, transaction, statement, text):
        raise NotFastError(READS_CHANGES)
    if transaction.time.stands and not is_read_only(session, text):
        raise NotFastError("its query may write, and needs a transaction that forbids it")
    changed = {change.table for change in transaction.changes}
    if changed:
        read = engine.catalog.version.with_sources(relations)
        if not changed.isdisjoint(read) or engine.recomputed.is_outdated(relations):
            raise NotFastError(READS_CHANGES)
    elif relations:
        engine.recomputed.refresh(relations)
    if relations:
        engine.tables.flush(relations)


def demand_ahead(session: Session, text: str) -> None:
    """Raises NotFastError if no query of a statement is evaluated beside it, which may run it."""
    if "nextval" in text.lower():
        raise NotFastError("it may draw from a sequence")
    if _may_call_python(session, text):
        raise NotFastError("it may call a Python function, which is to be called once")


def _may_call_python(session: Session, text: str) -> bool:
    relations = session.engine.definitions.relations
    if session.names.temporary:  # what these call, only the session's cursor knows
        return bool(relations.python_functions)
    return relations.may_call_python(text)


def _may_tell(session: Session, transaction: Transaction, statement: st.Dml, text: str) -> bool:
    """Returns whether the time that a query tells, if it does, is that of the transaction."""
    if not _tells_time(session, text):
        return True
    if transaction.begun:
        return False
    sets = statement.kind in ("update", "merge") or statement.on_conflict
    return transaction.time.tell(often=sets and may_tell_time(statement.text))


def _tells_time(session: Session, text: str) -> bool:
    """Returns whether a query may tell the time, by itself or by a macro or view of the user's."""
    if may_tell_time(text):
        return True
    relations = session.engine.definitions.relations
    if relations.names_none(text) and not _names_others(session):
        return False
    if WordSet(session.macros).may_occur_in(text) or relations.may_name_definition(text):
        return True
    return not relations.names_relations_alone(text)


def _names_others(session: Session) -> bool:
    """Returns whether there are names beside those of the file and of DuckDB itself."""
    return session.sees_more() or bool(session.engine.catalog.names.others)

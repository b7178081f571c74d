"""The expressions of a session's change over the rows it meets."""

from __future__ import annotations

from ivm.changes.values.computed_values import ComputedValues
from ivm.changes.values.row_expressions import Lookup, Part, RowExpressions
from ivm.engine.transactions.transaction import Transaction
from ivm.session.session import Session
from ivm.sql.statements import parse as st


def row_expressions(
    session: Session,
    transaction: Transaction,
    statement: st.Dml,
    parts: tuple[Part, ...],
    lookup: Lookup,
) -> RowExpressions:
    """Evaluates expressions by kernels, and by the session's cursor where it is idle.

    Args:
        session: of the change.
        transaction: the session's.
        statement: whose expressions they are.
        parts: the columns that the expressions see.
        lookup: gives the parameters.
    """
    cursor = transaction.idle_cursor
    computed = None
    if cursor is not None:
        computed = ComputedValues(cursor, transaction.time, statement.text)
    return RowExpressions(parts, session.macros, lookup, computed)

"""A table as a change of a session meets it on the fast path."""

from __future__ import annotations

from typing import NamedTuple

from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.session.session import Session
from ivm.storage.warehouse.tables.table_info import TableInfo


class FastTable(NamedTuple):
    """The table, and who changes it.

    Attributes:
        session: whose change it is.
        transaction: the session's, which has the table's changes.
        path: the table's fast path within the transaction.
        info: of the table.
    """

    session: Session
    transaction: Transaction
    path: FastPath
    info: TableInfo

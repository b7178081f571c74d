"""The rows of a query that a change needs: memory gives them, or else DuckDB.

Law: they are those that the statement would read. Memory costs no statement of DuckDB's, and sees
what the open transaction has changed, so it comes first. DuckDB reads in a transaction of its own:
where that might see something else, the statement is left to it (see `demand_readable`).
"""

from __future__ import annotations

from typing import NamedTuple

from ivm.changes.fast_table import FastTable
from ivm.changes.read.change_text import ChangeText
from ivm.changes.rows.evaluation import described, evaluated
from ivm.ingest.not_fast import demanded
from ivm.session.is_read_only import is_read_only
from ivm.session.readable import READS_CHANGES, demand_readable
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet


class SourceRows(NamedTuple):
    """What reads rows for one change.

    Attributes:
        table: that is changed.
        statement: the change.
        written: its text, with the parameters of its queries.
    """

    table: FastTable
    statement: st.Dml
    written: ChangeText

    def read(self, query: str) -> tuple[Schema, ZSet]:
        """The columns and rows of a query, in its own types.

        Raises:
            NotFastError: DuckDB must run the statement.
            duckdb.Error: the query fails.
        """
        held = self.held(query)
        return self.described(query) if held is None else held

    def held(self, query: str) -> tuple[Schema, ZSet] | None:
        """The columns and rows that memory gives; None if it gives none."""
        session, transaction, *_ = self.table
        return session.source_from_state(transaction, query, self.written.params(query))

    def described(self, query: str) -> tuple[Schema, ZSet]:
        """The columns and rows that DuckDB gives; raises as of `read`."""
        session, alone = self._reading(query)
        given = self.written.params(query)
        return described(session.cursor, query, given, session.few, alone=alone)

    def cast(self, query: str, schema: Schema, prefix: str = "") -> ZSet:
        """The rows that DuckDB gives, cast to the types of columns; NotFastError if it fails.

        Args:
            prefix: the WITH clause that the query may use.
        """
        whole = f"{prefix} {query}".lstrip()
        session, alone = self._reading(whole)
        given = self.written.params(whole), schema, session.few
        return evaluated(session.cursor, query, *given, prefix=prefix, alone=alone)

    def _reading(self, query: str) -> tuple[Session, bool]:
        """The session, and whether a query, which its cursor may read, surely writes nothing."""
        session, transaction, *_ = self.table
        demanded(transaction.idle_cursor, READS_CHANGES)
        demand_readable(session, transaction, self.statement, query)
        return session, is_read_only(session, query)

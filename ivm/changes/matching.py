"""The rows that an UPDATE, DELETE or MERGE meets: by the key, by a look at all, or by a query.

Law: each pair of a row of the table and one of the source for which the whole condition is true is
there. Where the condition compares the key with columns of the source, DuckDB computes the source's
rows and the key index finds the table's, for which DuckDB need not be brought up to the log. Any
other condition of an UPDATE or DELETE is evaluated for the rows in the key index, or by DuckDB.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import duckdb
import numpy as np

from ivm.changes.fast_table import FastTable
from ivm.changes.inserts import NO_INDEX_NOW
from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.joined_clauses import JoinedChange
from ivm.changes.read.sources import parts_of, positions_in
from ivm.changes.row_expressions import row_expressions
from ivm.changes.rows.evaluation import MOST_ROWS
from ivm.changes.rows.joined_rows import NO_PARTS, Join, JoinedRows, join_of
from ivm.changes.source_rows import SourceRows
from ivm.changes.values.row_expressions import lookup_in
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.values.column import Indexes
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.duckdb.duck import rows as fetched
from ivm.storage.warehouse.duckdb.duckdb_errors import is_cut_short

MOST_LOOKED_AT = 1 << 22
"""Entries of a key index above which DuckDB finds the rows of any condition sooner."""
_NO_ROWS = ZSet((), ones(0))


class Matched(NamedTuple):
    """The pairs.

    Attributes:
        rows: of the source, and of the table's index.
        stored: rows of the table, with the columns of the index.
        probe: for each the position of the row of the source.
    """

    rows: JoinedRows
    stored: ZSet
    probe: Indexes


class Matching(NamedTuple):
    """One run of a change.

    Attributes:
        reference: by which the statement calls the table.
    """

    table: FastTable
    reference: str
    statement: st.Dml
    written: ChangeText
    change: JoinedChange
    params: Params

    def met(self) -> Matched:
        """The pairs; NotFastError if DuckDB must run the statement."""
        # The index finds few rows soonest. Without a key, a look at its entries costs no statement
        # of DuckDB's, but it cannot join: a change with sources of its own is DuckDB's to find.
        if not self.change.found:
            return self._by_key()
        if self.change.aliases:
            return self._by_query()
        join = Join(self.change, self.reference, self.table.path, (), (), ())
        index = self._known_index(join)
        self._rows(join, index or self.table.path.no_index(), _NO_ROWS).demand_sets()
        try:
            return self._by_look(join)
        except NotFastError:
            return self._by_query()

    def _rows(self, join: Join, index: KeyIndex, rows: ZSet) -> JoinedRows:
        session, transaction, *_ = self.table
        run = session, transaction, self.statement
        over = functools.partial(row_expressions, *run, lookup=lookup_in(self.params or ()))
        return JoinedRows(join, index, rows, over)

    def _by_key(self) -> Matched:
        session, transaction, path, info = self.table
        schema, rows = self._read()
        join = join_of(self.change, self.reference, path, schema)
        if not _is_certain(session, join):
            raise NotFastError("a collation may make different texts equal keys")
        index = transaction.index_of_committed(info.name, join.needs_all)
        found = self._rows(join, demanded(index, NO_INDEX_NOW), rows.project(positions_in(schema)))
        return Matched(found, *found.pairs())

    def _by_look(self, join: Join) -> Matched:
        """Those that kernels find in the key index; NotFastError if they cannot."""
        pieces = self.change.pieces
        if pieces is None or pieces.condition is None:
            raise NotFastError("there is no condition that is decided by a row alone")
        index = self._known_index(join) or self._new_index(join)
        found = self._rows(join, demanded(index, NO_INDEX_NOW), _NO_ROWS)
        stored = found.meeting(pieces.condition, MOST_ROWS, MOST_LOOKED_AT)
        return Matched(found, stored, np.zeros(len(stored), np.int64))

    def _known_index(self, join: Join) -> KeyIndex | None:
        indexes = self.table.session.engine.indexes
        return indexes.find(self.table.info.name, all_columns=join.needs_all)

    def _new_index(self, join: Join) -> KeyIndex | None:
        """The key index, built for a look that pays."""
        cursor = self.table.transaction.idle_cursor
        if cursor is None:
            return None
        count = f"SELECT system.main.count(*) FROM {self.table.info.qualified}"
        if fetched(cursor, count)[0][0] > MOST_LOOKED_AT:
            return None
        return self.table.transaction.index_of_committed(self.table.info.name, join.needs_all)

    def _by_query(self) -> Matched:
        """Those that DuckDB finds: the table's columns, then those of the source."""
        (schema, rows), index = self._read(), self.table.path.no_index()
        width = len(index.columns)
        parts = demanded(parts_of(schema[width:], self.change.aliases), NO_PARTS)
        join = Join(self.change, self.reference, self.table.path, parts, (), ())
        source = [position for position in positions_in(schema) if position >= width]
        found = self._rows(join, index, rows.project(source))
        return Matched(found, rows.project(index.columns), np.arange(len(rows)))

    def _read(self) -> tuple[Schema, ZSet]:
        """The columns and rows of the change's query.

        NotFastError too where it fails, as the statement's own may not: it reads columns that the
        statement does not use, or reads the table's where it may not.
        """
        try:
            return SourceRows(self.table, self.statement, self.written).read(self.change.source)
        except duckdb.Error as error:
            if is_cut_short(error):
                raise
            raise NotFastError("its query fails") from error


def _is_certain(session: Session, join: Join) -> bool:
    """Returns whether no collation makes different texts equal keys."""
    if not any(join.source[i][1].is_string for i in join.by):
        return True
    engine, source = session.engine, join.change.source
    collated = any(info.collated for info in engine.catalog.tables.values())
    listed = engine.definitions.relations.names_relations_alone(source)
    return listed and not collated and "COLLATE" not in source.upper()

"""Tables of ours follow their upstream tables: created when they are lacking, wider when those are.

Contract: nothing of ours is dropped or narrowed, and no table is half altered. Views that show a
column that becomes wider are created anew in the transaction that makes it so. What cannot be
followed stops the source, with the statement that resolves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ivm.catalog.names import name_parts
from ivm.cdc.formats import upstream_schema
from ivm.cdc.formats.events import Events
from ivm.cdc.sources.source import Kept, Part, SourceError
from ivm.engine.tables.retention import stored_rules
from ivm.ingest.key_index import KeyIndex
from ivm.session.ddl import ddl
from ivm.session.ddl.retention import restore_rules
from ivm.session.ddl.stored_watermarks import replace_watermark
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import UnsupportedError
from ivm.storage.values.key_codes import same_row
from ivm.storage.warehouse.tables.table_info import TableInfo


def follow(session: Session, part: Part) -> None:
    """Runs the statements that let the table of a part follow its upstream, if it must.

    Raises:
        SourceError: the table is gone, and with it the rows of before; or values of rows may have
            been changed.
        SchemaMismatchError: somebody must decide what becomes of a column.
        UnsupportedError: a view forbids a statement, such as one whose query has a `*`.
    """
    if part.upstream is None:
        return
    catalog, upstream = session.engine.catalog, part.upstream
    name = session.names.resolve(name_parts(part.table))
    info = None if name is None else catalog.tables.get(name)
    if info is None and upstream.goes_on:
        raise SourceError(
            f"table {part.table} is gone, and a new one would lack the rows that the source has "
            "given it. If it was renamed, give it its name again, and RESUME SOURCE; else let it "
            "be copied anew: DROP SOURCE and CREATE SOURCE with the same options"
        )
    given = upstream.columns, upstream.key, upstream.complete, upstream.ours
    statements = upstream_schema.follow(info, part.table, *given)
    if statements:
        with _one_transaction(session):
            for sql in statements:
                _run(session, part.table, sql)
            if info is not None:
                _restore_clauses(session, info)
    if info is not None and upstream.kept is not None:  # by the new types, which tell more apart
        _demand_kept(session, session.engine.catalog.tables[info.name], upstream.kept)


def _restore_clauses(session: Session, info: TableInfo) -> None:
    """Gives a table that had to be made anew the watermark and the retention that it had."""
    engine, name = session.engine, info.name
    mark, rule = engine.watermarks.known.get(name), engine.retention.rules.get(name)
    with session.writing() as transaction:
        if mark is not None and name not in transaction.watermark_moves.marks:
            replace_watermark(
                session, transaction, None, mark, engine.watermarks.parts.get(name, {})
            )
    kept = stored_rules(session.cursor, engine.catalog.database)
    if rule is not None and rule not in kept:
        restore_rules(session, [rule])


def _demand_kept(session: Session, info: TableInfo, kept: Kept) -> None:
    """Raises if rows that should be as they were are not so here."""
    found = kept.rows.decode(session.cursor, info)
    with session.writing() as transaction:
        index = transaction.index(info.name, all_columns=True)
        if found.refused or not _are_here(info, found.events, index, kept.columns):
            raise kept.error


def _are_here(info: TableInfo, rows: Events, index: KeyIndex, columns: Sequence[str]) -> bool:
    """Whether rows are there with these values; of a table without a key that is not known."""
    if not info.primary_key:
        return not len(rows)
    found = index.find([rows.columns[i] for i in info.primary_key])
    places = [i for name in columns if (i := info.position(name)) is not None]
    theirs = [rows.columns[i] for i in places]
    ours = [found.rows.columns[index.columns.index(i)] for i in places]
    numbers, types = np.arange(len(found.probe)), [info.schema[i][1] for i in places]
    same = same_row(theirs, found.probe, ours, numbers, types)
    return len(found.probe) == len(rows) and bool(same.all())


@contextmanager
def _one_transaction(session: Session) -> Iterator[None]:
    """A transaction that is undone by an error."""
    session.begin()
    try:
        yield
    except BaseException:
        session.rollback()
        raise
    session.commit()


def _run(session: Session, table: str, sql: str) -> None:
    for statement in st.parse(sql):
        assert isinstance(statement, st.Ddl)
        try:
            ddl.ddl(session, statement, None, retypes=True)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"table {table} must follow the one upstream, by {sql}: {error}"
            ) from error

"""How long tables keep their rows: WITH (retain = …) of CREATE TABLE, SET and RESET of ALTER TABLE.

Invariant: a rule is a row of `_ivm.retention`, changed in the transaction of its statement; it goes
with its table, and follows renames. A table with a rule can lose rows without DuckDB's checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ivm.engine.tables.retention import COLUMNS, TABLE, Rule, stored_rules
from ivm.engine.tables.watermark_rows import Watermark
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path_rules import has_trigger
from ivm.ingest.parameters import Params
from ivm.session.ddl.own_clauses import altered, column_now, timed_column
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.nodes import Retention
from ivm.sql.statements.own.retention import BEHIND
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import run
from ivm.storage.warehouse.tables.table_info import TableInfo


def set_retention(session: Session, statement: st.SetRetention, params: Params) -> Result:
    """Runs ALTER TABLE … SET (retain = …) and RESET (retain)."""
    with session.writing() as transaction:
        info = altered(session, statement)
        if info is None:
            return Result("done")
        transaction.change_catalog()
        transaction.begin_in_duckdb()
        rules = stored_rules(session.cursor, session.engine.catalog.database)
        known = {rule.table: rule for rule in rules}
        rule = None
        if statement.retain is not None:
            mark = transaction.watermark_moves.marks.get(info.name)
            by = statement.by or (known[info.name].column if info.name in known else None)
            if statement.retain.endswith(BEHIND):
                by = _column_behind(mark, info, statement.by)
            if by is None:
                raise SqlError(
                    "retain_by is needed: the column that tells a row's time", statement.offset
                )
            rule = _rule(info, by, statement.retain, session)
        _write(session, info.name, rule)
    return Result("done")


def retain_created(
    session: Session, transaction: Transaction, retention: Retention, info: TableInfo
) -> None:
    """Notes the rule of a table that has just been created, with its watermark."""
    by = retention.by
    if by is None or retention.retain.endswith(BEHIND):
        by = _column_behind(transaction.watermark_moves.marks.get(info.name), info, by)
    _write(session, info.name, _rule(info, by, retention.retain, session))


def _column_behind(mark: Watermark | None, info: TableInfo, by: str | None) -> str:
    """The column that a table's watermark follows, which tells how far its rows are behind.

    Raises:
        SqlError: it has no watermark, or that follows another column.
    """
    if mark is None:
        raise SqlError(
            f"table {info.name!r} has no watermark that its rows could be behind: ALTER TABLE "
            f"{info.name} SET WATERMARK FOR … first"
        )
    if by is not None and fold(by) != fold(mark.column):
        raise SqlError(
            f"the watermark of {info.name!r} follows {mark.column!r}, so its rows are behind it by "
            f"that, and not by {by!r}: leave retain_by out"
        )
    return mark.column


def refuse_behind(session: Session, info: TableInfo) -> None:
    """Refuses to drop a watermark by which a table loses its rows.

    Raises:
        UnsupportedError: it does.
    """
    rules = stored_rules(session.cursor, session.engine.catalog.database)
    if any(rule.table == info.name and rule.behind for rule in rules):
        raise UnsupportedError(
            f"the rows of {info.name!r} are kept for some time behind its watermark: ALTER TABLE "
            f"{info.name} RESET (retain) first, or SET (retain = …, retain_by = …)"
        )


def restore_rules(session: Session, found: Iterable[Rule]) -> None:
    """Notes the rules of imported tables."""
    with session.writing() as transaction:
        for rule in found:
            transaction.change_catalog()
            transaction.begin_in_duckdb()
            info = session.engine.catalog.tables[rule.table]
            _write(session, rule.table, _rule(info, rule.column, rule.retain, session))


def follow_tables(session: Session, statement: st.Ddl, before: Mapping[str, TableInfo]) -> None:
    """Lets the rules follow a change of the catalog.

    Args:
        session: in its transaction.
        statement: has changed it.
        before: the tables before.

    Raises:
        UnsupportedError: a table could no longer lose rows by their age.
    """
    tables = session.engine.catalog.tables
    if tables == before and statement.target != "trigger":
        return
    for rule in stored_rules(session.cursor, session.engine.catalog.database):
        old = before.get(rule.table)
        if old is None:  # another program has dropped it: a new one of the name has no rule
            _write(session, rule.table, None)
            continue
        now = next((info for info in tables.values() if info.oid == old.oid), None)
        if now is None:
            _write(session, rule.table, None)
        elif now != old or statement.target == "trigger":
            column = column_now(old, now, rule.column)
            _write(session, rule.table, None)
            _write(session, now.name, _rule(now, column, rule.retain, session))


def _rule(info: TableInfo, column: str, retain: str, session: Session) -> Rule:
    """The rule, checked.

    Raises:
        SqlError: there is no such column, or it tells no time.
        UnsupportedError: rows of the table cannot be removed by their age.
    """
    keeps = f"ALTER TABLE {info.name} RESET (retain) keeps them all"
    lacking = f", which tells the time of its rows: {keeps}"
    name = timed_column(info, column, lacking, "retain_by names")
    why = _why_not(info, session)
    if why is not None:
        raise UnsupportedError(
            f"rows of {info.name!r} cannot be removed by their age: {why}. {keeps}"
        )
    return Rule(info.name, name, retain)


def _why_not(info: TableInfo, session: Session) -> str | None:
    if info.history is not None:
        return "its history lies in files"
    if info.referenced_by:
        return f"{', '.join(info.referenced_by)} may refer to them"
    if info.generated:
        return "it has generated columns"
    if has_trigger(info, session.cursor):
        return "it has triggers"
    return None


def _write(session: Session, table: str, rule: Rule | None) -> None:
    """Replaces the rule of a table."""
    run(session.cursor, f"CREATE TABLE IF NOT EXISTS {TABLE} {COLUMNS}")
    run(session.cursor, f"DELETE FROM {TABLE} WHERE relation = $1", [table])
    if rule is not None:
        run(session.cursor, f"INSERT INTO {TABLE} VALUES ($1, $2, $3)", list(rule))

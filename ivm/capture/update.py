"""UPDATE: the old rows are read before it, the new ones after it, as they are stored.

One query evaluates the WHERE, FROM and SET clauses, once, into a temporary table of row id, old row
and new values; a second UPDATE writes these values. An UPDATE of one table whose WHERE has the same
result when it is evaluated twice runs unchanged. A row that FROM matches twice gets one of its new
values, as in DuckDB, which does not specify which.

RETURNING cannot be used to read the new rows: it may return values that are not stored
(DuckDB's fault `returned_values`, DuckDB's fault `unwritten_values`), and a foreign key may forbid
it (DuckDB's fault `returning_of_referenced_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.capture.result import Captured, run_shown
from ivm.capture.row_diff import (
    ROW_ID,
    RowWatch,
    rows_now,
    run_and_compare,
    run_rewritten,
)
from ivm.capture.trial import Trial, require_binding
from ivm.changes.read.change_text import ChangeText
from ivm.ingest.parameters import Params
from ivm.sql.statements.changes.assignments import assignments
from ivm.sql.statements.nodes.nodes import Dml
from ivm.sql.statements.text.tokens import Token, text_of
from ivm.storage.errors import InternalError
from ivm.storage.identifiers import quote
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run, table, temporary
from ivm.storage.warehouse.flush.row_ids import last_row_id, same_row
from ivm.storage.warehouse.tables.table_info import TableInfo

_NEW = "__ivm_update"


class UpdateClauses(NamedTuple):
    """The clauses of an UPDATE.

    Attributes:
        sets: the SQL of the new value by the column's position.
        nested: whether a new value may call a function, or FROM contain a query or a join.
        simple: whether there is one table, and a WHERE of columns, literals, parameters and
            operators alone.
    """

    prefix: str
    target: str
    reference: str
    sets: dict[int, str]
    sources: str
    where: str
    returning: str
    nested: bool
    simple: bool


def capture_update(cursor: Cursor, statement: Dml, info: TableInfo, params: Params) -> Captured:
    """Runs an UPDATE in two steps, or unchanged with a comparison of all rows of its table."""
    written = ChangeText(statement.text, params)
    update = read_update(written, statement, info)
    if update is None:
        return run_and_compare(cursor, statement, info, params)
    if update.nested and not update.simple:
        # Our query would allow what UPDATE refuses: a window or UNNEST in SET, and a query or a
        # condition in FROM that reads the target's columns.
        require_binding(cursor, statement.text, params)
    once = _verbatim if update.simple else _in_two_steps
    return run_rewritten(
        cursor, statement, info, params, lambda trial: once(trial, cursor, written, update, info)
    )


def _verbatim(
    trial: Trial, cursor: Cursor, written: ChangeText, update: UpdateClauses, info: TableInfo
) -> Captured:
    """Reads the old rows, then runs the UPDATE unchanged: its WHERE finds the same rows twice."""
    reference, text = update.reference, written.text
    query = f"SELECT {reference}.rowid, {reference}.* FROM {update.target} {update.where}"
    found = table(cursor, query, written.params(query))
    old = from_arrow(found.remove_column(0), info.schema)
    last = last_row_id(cursor, info.qualified)
    trial.commit()
    result = run_shown(cursor, text, written.params(text), bool(update.returning))
    new = rows_now(cursor, info, found.column(0), last)
    _demand_all(info, len(old), len(new))
    return result.with_changes({info.name: (old, new)})


def _in_two_steps(
    trial: Trial, cursor: Cursor, written: ChangeText, update: UpdateClauses, info: TableInfo
) -> Captured:
    with temporary(cursor, _NEW, _definition(update, info)) as new:
        fill = _fill(update, info, new)
        run(cursor, fill, written.params(fill))
        trial.commit()
        return _write(cursor, update, info, new)


def _definition(update: UpdateClauses, info: TableInfo) -> str:
    old = [f"{quote(name)} {type.sql}" for name, type in info.schema]
    new = [f"__ivm_new_{i} {info.schema[i][1].sql}" for i in update.sets]
    return f"({ROW_ID} BIGINT, {', '.join(old + new)})"


def _fill(update: UpdateClauses, info: TableInfo, new: str) -> str:
    """Writes the INSERT of row id, old row and new values of every row to be updated."""
    old = [f"{update.reference}.{quote(name)}" for name, _ in info.schema]
    values = ", ".join([f"{update.reference}.rowid", *old, *update.sets.values()])
    sources = f", {update.sources}" if update.sources else ""
    query = f"SELECT {values} FROM {update.target}{sources} {update.where}"
    return f"{update.prefix} INSERT INTO {new} {query}"


def _demand_all(info: TableInfo, found: int, changed: int) -> None:
    """Checks that exactly the rows that the WHERE found have been changed.

    Raises:
        InternalError: the captured change would differ from the table's.
    """
    if found != changed:
        raise InternalError(
            f"UPDATE of {info.name!r} changed {changed} rows where its WHERE found {found}: "
            "please report the statement; nothing was changed"
        )


def _write(cursor: Cursor, update: UpdateClauses, info: TableInfo, new: str) -> Captured:
    """Writes the new values by row id."""
    sets = ", ".join(f"{quote(info.schema[i][0])} = __ivm_new.__ivm_new_{i}" for i in update.sets)
    same = same_row(cursor, info.qualified)
    once, found = _once(cursor, new)  # DuckDB's fault `counted_matches`
    sql = (
        f"UPDATE {update.target} SET {sets} FROM {once} AS __ivm_new"
        f" WHERE {update.reference}.rowid {same} __ivm_new.{ROW_ID} {update.returning}"
    )
    watch = RowWatch(cursor, info, once)
    result = run_shown(cursor, sql, None, bool(update.returning))
    _demand_all(info, found, result.rows)
    return result.with_changes({info.name: watch.changes()})


def _once(cursor: Cursor, new: str) -> tuple[str, int]:
    """The rows to be updated, each once however often FROM matched it, and their number."""
    count = f"SELECT system.main.count(*), system.main.count(DISTINCT {ROW_ID}) FROM {new}"
    matched, distinct = rows(cursor, count)[0]
    once = new if matched == distinct else f"(SELECT DISTINCT ON ({ROW_ID}) * FROM {new})"
    return once, distinct


# --- reading the clauses ---


def read_update(written: ChangeText, statement: Dml, info: TableInfo) -> UpdateClauses | None:
    """The clauses; None for a statement that this module does not take apart."""
    hidden = info.position("rowid") is not None  # DuckDB's fault `hidden_row_ids`
    if hidden or statement.table is None:
        return None
    clauses = written.clauses
    sets = _sets(written, info)
    if sets is None:
        return None
    condition = written.within(clauses.condition.rest)
    return UpdateClauses(
        written.prefix,
        written.piece(clauses.target),
        quote(statement.alias or statement.table[-1]),
        sets,
        written.piece(clauses.source.rest),
        written.piece(clauses.condition),
        written.piece(clauses.returning),
        not {"(", "JOIN"}.isdisjoint(written.words(clauses.sets) + written.words(clauses.source)),
        not clauses.verb and not clauses.source and _is_simple(condition),
    )


_BEFORE_PARENTHESIS = frozenset(("(", "AND", "OR", "NOT", "IN", "BETWEEN", *"=<>+-*/,"))
_QUERY_WORDS = frozenset(("SELECT", "FROM", "VALUES", "TABLE", "WITH"))


def _is_simple(condition: Sequence[Token]) -> bool:
    """Returns whether a condition has no function call and no subquery."""
    before = "("
    for token in condition:
        if token.word in _QUERY_WORDS or (token.word == "(" and before not in _BEFORE_PARENTHESIS):
            return False
        before = token.word
    return True


def _sets(written: ChangeText, info: TableInfo) -> dict[int, str] | None:
    """The values by the positions of their columns; None for other forms and repeated columns."""
    sets: dict[int, str] = {}
    for column, tokens in assignments(written.within(written.clauses.sets.rest)) or ():
        position = info.position(column)
        if position is None or position in sets:
            return None
        value = text_of(written.text, tokens)
        if value.upper() == "DEFAULT":
            value = info.defaults.get(position, "NULL")
        sets[position] = f"({value})"
    return sets or None

"""UPDATE: the old rows are read before, the new ones as they are stored after.

Law: one query evaluates the WHERE, FROM and SET clauses, once, into a temporary table of row id,
old row and new values; a second UPDATE writes these values. An UPDATE of one table with a WHERE
that means the same twice runs as it stands. A row that FROM matches twice gets one of its new
values, as in DuckDB, which does not say which.

RETURNING does not tell the new rows: it returns (DuckDB's fault `returned_values`) what was not
written (DuckDB's fault `unwritten_values`), and a foreign key may forbid it
(DuckDB's fault `returning_of_referenced_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.capture.clauses import Clauses, Params
from ivm.capture.result import Captured, run_shown
from ivm.capture.row_diff import ROW_ID, RowWatch, rows_now, run_and_compare, temporary
from ivm.capture.trial import Trial, attempt, require_binding
from ivm.sql.statements.nodes import Dml
from ivm.sql.statements.tokens import Reader, Token, split, text_of
from ivm.storage.errors import InternalError, SqlError
from ivm.storage.identifiers import quote
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duck import Cursor, rows, run, table
from ivm.storage.warehouse.row_ids import last_row_id, same_row
from ivm.storage.warehouse.table_info import TableInfo

_NEW = "__ivm_update"


class _Update(NamedTuple):
    """The clauses of an UPDATE.

    Attributes:
        sets: a column's position to the SQL of its new value.
        nested: a new value may call a function, or FROM hold a query.
        simple: one table, and a WHERE of columns, literals, parameters and operators alone.
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
    """Run an UPDATE in two steps, or as it stands beside a comparison of the whole table."""
    clauses = Clauses(statement.text, params)
    update = _read(clauses, statement, info)
    if update is None:
        return run_and_compare(cursor, statement, info, params)
    if update.nested and not update.simple:
        # In the query below a window or UNNEST would pass, and a query in FROM see the target.
        require_binding(cursor, statement.text, params)
    once = _verbatim if update.simple else _in_two_steps
    result = attempt(cursor, lambda trial: once(trial, cursor, clauses, update, info))
    return result or run_and_compare(cursor, statement, info, params)


def _verbatim(
    trial: Trial, cursor: Cursor, clauses: Clauses, update: _Update, info: TableInfo
) -> Captured:
    """Read the old rows, then run the UPDATE as it stands: its WHERE means the same twice."""
    reference, text = update.reference, clauses.text
    query = f"SELECT {reference}.rowid, {reference}.* FROM {update.target} {update.where}"
    found = table(cursor, query, clauses.params(query))
    old = from_arrow(found.remove_column(0), info.schema)
    last = last_row_id(cursor, info.qualified)
    trial.commit()
    result = run_shown(cursor, text, clauses.params(text), bool(update.returning))
    new = rows_now(cursor, info, found.column(0), last)
    _demand_all(info, len(old), len(new))
    return result.with_changes({info.name: (old, new)})


def _in_two_steps(
    trial: Trial, cursor: Cursor, clauses: Clauses, update: _Update, info: TableInfo
) -> Captured:
    with temporary(cursor, _NEW, _definition(update, info)) as new:
        fill = _fill(update, info, new)
        run(cursor, fill, clauses.params(fill))
        trial.commit()
        return _write(cursor, update, info, new)


def _definition(update: _Update, info: TableInfo) -> str:
    old = [f"{quote(name)} {type.sql}" for name, type in info.schema]
    new = [f"__ivm_new_{i} {info.schema[i][1].sql}" for i in update.sets]
    return f"({ROW_ID} BIGINT, {', '.join(old + new)})"


def _fill(update: _Update, info: TableInfo, new: str) -> str:
    """INSERT of row id, old row and new values of every row to be updated."""
    old = [f"{update.reference}.{quote(name)}" for name, _ in info.schema]
    values = ", ".join([f"{update.reference}.rowid", *old, *update.sets.values()])
    sources = f", {update.sources}" if update.sources else ""
    query = f"SELECT {values} FROM {update.target}{sources} {update.where}"
    return f"{update.prefix} INSERT INTO {new} {query}"


def _demand_all(info: TableInfo, found: int, changed: int) -> None:
    """Every row that the WHERE found has been changed, and no other.

    Raises:
        InternalError: the table would differ from what was told of it.
    """
    if found != changed:
        raise InternalError(
            f"UPDATE of {info.name!r} changed {changed} rows where its WHERE found {found}: "
            "please report the statement; nothing was changed"
        )


def _write(cursor: Cursor, update: _Update, info: TableInfo, new: str) -> Captured:
    """Write the new values by row id."""
    sets = ", ".join(f"{quote(info.schema[i][0])} = __ivm_new.__ivm_new_{i}" for i in update.sets)
    same = same_row(cursor, info.qualified)
    sql = (
        f"UPDATE {update.target} SET {sets} FROM {new} AS __ivm_new"
        f" WHERE {update.reference}.rowid {same} __ivm_new.{ROW_ID} {update.returning}"
    )
    once, found = _once(cursor, new)
    watch = RowWatch(cursor, info, once)
    result = run_shown(cursor, sql, None, bool(update.returning))
    _demand_all(info, found, result.rows)
    return result.with_changes({info.name: watch.changes()})


def _once(cursor: Cursor, new: str) -> tuple[str, int]:
    """The rows to be updated, each once, however often FROM matched it, and how many they are."""
    count = f"SELECT system.main.count(*), system.main.count(DISTINCT {ROW_ID}) FROM {new}"
    matched, distinct = rows(cursor, count)[0]
    once = new if matched == distinct else f"(SELECT DISTINCT ON ({ROW_ID}) * FROM {new})"
    return once, distinct


# --- reading the clauses ---


def _read(clauses: Clauses, statement: Dml, info: TableInfo) -> _Update | None:
    """The clauses, or None for what this module does not take apart."""
    hidden = info.position("rowid") is not None  # DuckDB's fault `hidden_row_ids`
    if hidden or statement.table is None:
        return None
    verb = clauses.verb("UPDATE")
    end = len(clauses.tokens)
    returning = clauses.find(verb, "RETURNING")
    where = min(clauses.find(verb, "WHERE"), returning)
    sources = min(clauses.find(verb, "FROM"), where)
    begin = clauses.find(verb, "SET")
    sets = _sets(clauses, begin + 1, sources, info)
    if sets is None:
        return None
    return _Update(
        clauses.piece(0, verb),
        clauses.piece(verb + 1, begin),
        quote(statement.alias or statement.table[-1]),
        sets,
        clauses.piece(sources + 1, where),
        clauses.piece(where, returning),
        clauses.piece(returning, end),
        any(t.word == "(" for t in clauses.tokens[begin:where]),
        verb == 0 and sources == where and _is_simple(clauses.tokens[where + 1 : returning]),
    )


_BEFORE_PARENTHESIS = frozenset(("(", "AND", "OR", "NOT", "IN", "BETWEEN", *"=<>+-*/,"))
_QUERY_WORDS = frozenset(("SELECT", "FROM", "VALUES", "TABLE", "WITH"))


def _is_simple(condition: Sequence[Token]) -> bool:
    """Whether a condition has no function call and no subquery."""
    before = "("
    for token in condition:
        if token.word in _QUERY_WORDS or (token.word == "(" and before not in _BEFORE_PARENTHESIS):
            return False
        before = token.word
    return True


def _sets(clauses: Clauses, begin: int, end: int, info: TableInfo) -> dict[int, str] | None:
    """`column = value, …` by position; None for `(a, b) = …` and what is odd."""
    sets: dict[int, str] = {}
    for part in split(clauses.tokens[begin:end]):
        reader = Reader(part)
        try:
            position = info.position(reader.identifier())
            reader.expect("=")
        except SqlError:
            return None
        if position is None or position in sets:
            return None
        value = text_of(clauses.text, part[reader.at :])
        if value.upper() == "DEFAULT":
            value = info.defaults.get(position, "NULL")
        sets[position] = f"({value})"
    return sets

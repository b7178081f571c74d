"""Changes of a table that is not stored: DuckDB evaluates what they say, the fast path makes them.

DuckDB cannot change the view under the table's name. So the statement's rows are computed (the new
ones into a temporary table with the table's types and defaults, the old ones by a query with the
statement's own WHERE), and the change is made as from Python: by key, constraints checked here.
Contract: as of `capture`; every expression of the statement is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import duckdb

from ivm.capture.result import Captured, run_shown
from ivm.capture.trial import require_binding
from ivm.capture.update import read_update
from ivm.capture.upsert import definition, read_upsert
from ivm.changes.read.change_text import ChangeText
from ivm.ingest.fast_path import FastPath
from ivm.ingest.first_per_key import first_of_each
from ivm.ingest.key_index import KeyIndex, present
from ivm.ingest.parameters import Params
from ivm.sql.statements.changes.clauses import Span
from ivm.sql.statements.nodes.nodes import Dml
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import path_of, quote
from ivm.storage.log.change import TableChange
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, registered, run, table, temporary
from ivm.storage.warehouse.tables.table_info import TableInfo

_ROWS, _ADDED = "__ivm_rows", "__ivm_added"


class Unstored(NamedTuple):
    """A table that is not stored, while one of its changes is computed.

    Attributes:
        cursor: in a transaction that sees its rows.
        info: the table.
        path: its fast path.
        key_index: `Transaction.index` of the table.
    """

    cursor: Cursor
    info: TableInfo
    path: FastPath
    key_index: Callable[..., KeyIndex]


def capture_unstored(
    unstored: Unstored, statement: Dml, params: Params
) -> tuple[Captured, TableChange]:
    """Computes a change; the caller makes it.

    Raises:
        UnsupportedError: a statement that has no meaning here.
        ConstraintError: the change violates a constraint.
        duckdb.Error: as DuckDB raises it; the transaction is then aborted.
    """
    try:
        return _captured(unstored, statement, ChangeText(statement.text, params))
    except duckdb.Error as error:
        raise _of_the_table(error, unstored.info) from None


def _of_the_table(error: duckdb.Error, info: TableInfo) -> duckdb.Error:
    """The error with the table's own name, not those of the tables that stand in for it."""
    assert info.history is not None
    message = str(error).split("\n\nLINE ")[0]
    for name in (_ROWS, _ADDED, info.history.added):
        message = message.replace(name, info.name)
    return type(error)(message)


def _captured(
    unstored: Unstored, statement: Dml, written: ChangeText
) -> tuple[Captured, TableChange]:
    kind = statement.kind
    if kind == "insert":
        return _insert(unstored, statement, written)
    if kind == "copy":
        return _copy(unstored, written)
    if not unstored.info.keyed and kind in ("update", "delete", "truncate"):
        raise UnsupportedError(
            f"rows of {unstored.info.name!r} can be added, not {kind}d: its history lies in files, "
            "and it has no PRIMARY KEY that would tell its rows apart; create it with one"
        )
    if kind == "update":
        return _update(unstored, statement, written)
    if kind == "delete":
        return _delete(unstored, statement, written)
    if kind == "truncate":
        every = f"FROM {unstored.info.qualified}"
        return _removed(unstored, every, written, "")
    raise UnsupportedError(
        f"{kind.upper()} of {unstored.info.name!r}, whose history lies in files, is not possible: "
        "write INSERT OR REPLACE, UPDATE or DELETE, or call db.upsert"
    )


# --- new rows ---


def _insert(
    unstored: Unstored, statement: Dml, written: ChangeText
) -> tuple[Captured, TableChange]:
    cursor, info = unstored.cursor, unstored.info
    clauses = written.clauses
    action, source = _action(written, statement, info), Span(clauses.target.end, clauses.source.end)
    given: Sequence[int] = ()
    if action:
        into = written.piece(Span(0, clauses.target.begin))
        rest = written.piece(Span(clauses.target.end, clauses.returning.begin))
        _demand_binding(unstored, written, into, rest)
    if action == "replace":
        given = _given(unstored, statement, written)
    with temporary(cursor, _ROWS, definition(info)) as rows:
        fill = f"{written.prefix} INSERT INTO {rows} {written.piece(source)}"
        run(cursor, fill, written.params(fill))
        added = _read(cursor, rows, info.schema)
    change, count = _added(unstored, added, action, given)
    with registered(cursor, {_ADDED: (change.added, info.schema)}):
        # As DuckDB has it, an INSERT's own RETURNING knows no alias.
        known = _reference(statement, info) if action else path_of(info.name)[-1]
        named = f"{_ADDED} AS {quote(known)}"
        return _shown(cursor, named, written, count), change


def _given(unstored: Unstored, statement: Dml, written: ChangeText) -> tuple[int, ...]:
    """The columns that INSERT OR REPLACE gives.

    Raises:
        UnsupportedError: they are not known.
    """
    upsert = read_upsert(unstored.cursor, written, statement, unstored.info)
    if upsert is None:
        raise UnsupportedError(
            f"this INSERT OR REPLACE into {unstored.info.name!r}, whose history lies in files, "
            "cannot be taken apart: list the columns, the key's among them"
        )
    return upsert.columns


def _demand_binding(unstored: Unstored, written: ChangeText, before: str, after: str) -> None:
    """Has DuckDB refuse what it would refuse of a stored table with the same columns and key.

    Args:
        unstored: the table.
        written: the statement.
        before: its text up to the table's name.
        after: the rest of it.

    Raises:
        duckdb.Error: the statement does not bind.
    """
    history = unstored.info.history
    assert history is not None
    sql = f"{before} _ivm.{history.added} {after}"
    require_binding(unstored.cursor, sql, written.params(sql))


def _action(written: ChangeText, statement: Dml, info: TableInfo) -> str:
    """What is done where a key exists: "" (an error), "replace" or "ignore".

    Raises:
        UnsupportedError: something else.
    """
    action = statement.or_action
    if statement.on_conflict:
        conflict = written.words(written.clauses.conflict)
        action = "ignore" if conflict[-2:] == ["DO", "NOTHING"] else "update"
    if action == "update":
        raise UnsupportedError(
            f"ON CONFLICT DO UPDATE of {info.name!r}, whose history lies in files, is not "
            "possible: write INSERT OR REPLACE, or UPDATE"
        )
    return action


def _added(
    unstored: Unstored, rows: ZSet, action: str, columns: Sequence[int] = ()
) -> tuple[TableChange, int]:
    """The change that adds rows, and their count.

    Args:
        unstored: the table.
        rows: with all columns.
        action: see `_action`.
        columns: those that the statement gives; a row that is replaced keeps the others.
    """
    path, info = unstored.path, unstored.info
    if action:
        rows = _first_of_each(rows, info)
    if action == "replace":
        given = {i: rows.columns[i] for i in sorted({*columns, *info.primary_key})}
        index = unstored.key_index(all_columns=len(given) < len(info.schema))
        return path.upsert(given, len(rows), index), len(rows)
    held = unstored.key_index() if info.keyed else None
    if action and held is not None:
        known = held.find(list(rows.project(info.primary_key).columns))
        rows = rows.filter(~present(known, len(rows)))
    return path.insert(dict(enumerate(rows.columns)), len(rows), held), len(rows)


def _first_of_each(rows: ZSet, info: TableInfo) -> ZSet:
    """The first of several rows with one key.

    DuckDB keeps that one too, within a chunk of rows (tried on 2.0), and a later one of others.
    """
    types = [type for _, type in info.key_columns]
    return rows.take(first_of_each(rows.project(info.primary_key).columns, types))


def _copy(unstored: Unstored, written: ChangeText) -> tuple[Captured, TableChange]:
    with temporary(unstored.cursor, _ROWS, definition(unstored.info)) as rows:
        text = f"COPY {rows} {written.behind(written.clauses.target.end)}"
        run(unstored.cursor, text, written.params(text))
        added = _read(unstored.cursor, rows, unstored.info.schema)
    change, count = _added(unstored, added, "")
    return Captured({}, count=count), change


# --- old rows ---


def _delete(
    unstored: Unstored, statement: Dml, written: ChangeText
) -> tuple[Captured, TableChange]:
    clauses = written.clauses
    reference = _reference(statement, unstored.info)
    sources = written.piece(clauses.source.rest)
    query = (
        f"{written.prefix} {_once(unstored.info, reference)} "
        f"FROM {written.piece(clauses.target)}{', ' if sources else ''}{sources} "
        f"{written.piece(clauses.condition)}"
    )
    return _removed(unstored, query, written, reference)


def _reference(statement: Dml, info: TableInfo) -> str:
    """The name by which the statement's expressions call the table."""
    return statement.alias or path_of(info.name)[-1]


def _once(info: TableInfo, reference: str) -> str:
    """The beginning of a query for the table's rows, each once however often it is matched."""
    name = quote(reference)
    key = ", ".join(f"{name}.{quote(info.schema[i][0])}" for i in info.primary_key)
    return f"SELECT DISTINCT ON ({key}) {name}.*"


def _removed(
    unstored: Unstored, query: str, written: ChangeText, reference: str
) -> tuple[Captured, TableChange]:
    """The change that removes the rows of a query, and what RETURNING shows of them."""
    info = unstored.info
    with temporary(unstored.cursor, _ROWS, definition(info)) as rows:
        run(unstored.cursor, f"INSERT INTO {rows} {query}", written.params(query))
        gone = _read(unstored.cursor, rows, info.schema)
        result = _shown(unstored.cursor, f"{rows} AS {quote(reference)}", written, len(gone))
    given = {i: gone.columns[i] for i in info.primary_key}
    return result, unstored.path.delete(given, len(gone), unstored.key_index())


def _shown(cursor: Cursor, rows: str, written: ChangeText, count: int) -> Captured:
    """The user's result: what RETURNING says of the rows, or their count."""
    shown = written.piece(written.clauses.returning.rest)
    if not shown:
        return Captured({}, count=count)
    sql = f"SELECT {shown} FROM {rows}"
    return run_shown(cursor, sql, written.params(sql), True)


def _update(
    unstored: Unstored, statement: Dml, written: ChangeText
) -> tuple[Captured, TableChange]:
    info, reference = unstored.info, _reference(statement, unstored.info)
    update = read_update(written, statement, info)
    clauses = written.clauses
    if update is None or update.nested:
        # A query would allow what UPDATE refuses: an unknown column, a window, UNNEST in SET.
        after = f"AS {quote(reference)} {written.behind(clauses.sets.begin)}"
        _demand_binding(unstored, written, written.piece(Span(0, clauses.target.begin)), after)
    if update is None:
        raise UnsupportedError(
            f"this UPDATE of {info.name!r}, whose history lies in files, cannot be taken apart: "
            "write SET column = value, …, each column once"
        )
    news = [f"__ivm_new_{i}" for i in update.sets]
    types = ", ".join(
        f"{n} {info.schema[i][1].sql}" for n, i in zip(news, update.sets, strict=True)
    )
    values = ", ".join(update.sets.values())
    sources = f", {update.sources}" if update.sources else ""
    query = (
        f"{update.prefix} INSERT INTO temp.main.{quote(_ROWS)} "
        f"{_once(info, reference)}, {values} "
        f"FROM {update.target}{sources} {update.where}"
    )
    with temporary(unstored.cursor, _ROWS, f"{definition(info)[:-1]}, {types})") as rows:
        run(unstored.cursor, query, written.params(query))
        olds, listed = _read(unstored.cursor, rows, info.schema), _listed(info, set(update.sets))
        changed = f"(SELECT {listed} FROM {rows})"
        added = _read(unstored.cursor, changed, info.schema)
        shown_rows = f"{changed} AS {quote(reference)}"
        result = _shown(unstored.cursor, shown_rows, written, len(olds))
    both = add([olds.negate(), added])
    columns = dict(enumerate(both.columns))
    return result, unstored.path.apply(columns, both.weights, unstored.key_index())


def _listed(info: TableInfo, replaced: set[int]) -> str:
    """The columns of the table after an update."""
    parts = []
    for i, (name, _) in enumerate(info.schema):
        parts.append(f"__ivm_new_{i} AS {quote(name)}" if i in replaced else quote(name))
    return ", ".join(parts)


def _read(cursor: Cursor, rows: str, schema: Schema) -> ZSet:
    listed = ", ".join(quote(name) for name, _ in schema)
    return from_arrow(table(cursor, f"SELECT {listed} FROM {rows}"), schema)

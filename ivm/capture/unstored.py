"""Changes of a table that is not stored: DuckDB evaluates what they say, the fast path makes them.

DuckDB cannot change the view under the table's name. So the statement's rows are computed (the new
ones into a temporary table with the table's types and defaults, the old ones by a query with the
statement's own WHERE), and the change is made as from Python: by key, constraints checked here.
Contract: as of `capture`; every expression of the statement is evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ivm.capture.clauses import Clauses, Params
from ivm.capture.result import Captured, run_returning, run_shown
from ivm.capture.row_diff import temporary
from ivm.capture.update import read_update
from ivm.capture.upsert import lists_columns
from ivm.ingest.fast_path import FastPath, last_of_each
from ivm.ingest.key_index import KeyIndex, present
from ivm.sql.statements.nodes import Dml
from ivm.sql.statements.tokens import Reader
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import quote
from ivm.storage.log.change import TableChange
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duck import Cursor, run, table
from ivm.storage.warehouse.table_info import TableInfo

_ROWS = "__ivm_rows"


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
    kind, clauses = statement.kind, Clauses(statement.text, params)
    if kind == "insert":
        return _insert(unstored, statement, clauses)
    if kind == "copy":
        return _copy(unstored, clauses)
    if not unstored.info.keyed and kind in ("update", "delete", "truncate"):
        raise UnsupportedError(
            f"rows of {unstored.info.name!r} can be added, not {kind}d: its history lies in files, "
            "and it has no PRIMARY KEY that would tell its rows apart; create it with one"
        )
    if kind == "update":
        return _update(unstored, statement, clauses)
    if kind == "delete":
        return _delete(unstored, statement, clauses)
    if kind == "truncate":
        return _removed(unstored, f"FROM {unstored.info.qualified}", None, "", unstored.info.name)
    raise UnsupportedError(
        f"{kind.upper()} of {unstored.info.name!r}, whose history lies in files, is not possible: "
        "write INSERT OR REPLACE, UPDATE or DELETE, or call db.upsert"
    )


# --- new rows ---


def _definition(info: TableInfo) -> str:
    """The columns of a table with the types and defaults of the table."""
    listed = []
    for i, (name, type) in enumerate(info.schema):
        default = f" DEFAULT ({info.defaults[i]})" if i in info.defaults else ""
        listed.append(f"{quote(name)} {type.sql}{default}")
    return f"({', '.join(listed)})"


def _insert(unstored: Unstored, statement: Dml, clauses: Clauses) -> tuple[Captured, TableChange]:
    info = unstored.info
    verb = clauses.verb("INSERT")
    reader = clauses.reader(clauses.find(verb, "INTO") + 1)
    reader.name()
    named = statement.alias or info.name
    if reader.accept("AS"):
        reader.identifier()
    at, end = reader.at, len(clauses.tokens)
    returning = clauses.find(at, "RETURNING")
    conflict = min(clauses.find(at, "ON", "CONFLICT"), returning)
    action = _action(clauses, statement, conflict, returning, info)
    named_columns = _named(reader, info) if action == "replace" else ()
    with temporary(unstored.cursor, _ROWS, _definition(info)) as rows:
        text = (
            f"{clauses.piece(0, verb)} INSERT INTO {rows} AS {quote(named)} "
            f"{clauses.piece(at, conflict)} {clauses.piece(returning, end)}"
        )
        given = clauses.params(text)
        result, added = run_returning(unstored.cursor, text, given, info, statement.returning)
    change, count = _added(unstored, added, action, named_columns)
    return (result if statement.returning else Captured({}, count=count)), change


def _action(
    clauses: Clauses, statement: Dml, conflict: int, returning: int, info: TableInfo
) -> str:
    """What is done where a key exists: "" (an error), "replace" or "ignore".

    Raises:
        UnsupportedError: something else.
    """
    action = statement.or_action
    if statement.on_conflict:
        words = [token.word for token in clauses.tokens[conflict:returning]]
        action = "ignore" if words[-2:] == ["DO", "NOTHING"] else "update"
    if action == "update":
        raise UnsupportedError(
            f"ON CONFLICT DO UPDATE of {info.name!r}, whose history lies in files, is not "
            "possible: write INSERT OR REPLACE, or UPDATE"
        )
    if action == "ignore" and statement.returning:
        raise UnsupportedError(
            f"RETURNING together with ON CONFLICT is not possible for {info.name!r}, whose history "
            "lies in files: leave one of them out"
        )
    return action


def _named(reader: Reader, info: TableInfo) -> tuple[int, ...]:
    """The columns that INSERT OR REPLACE gives; the others keep their values where a row is there.

    Raises:
        UnsupportedError: the statement does not list them.
    """
    if reader.accept("BY", "NAME"):
        raise UnsupportedError(
            f"INSERT OR REPLACE … BY NAME into {info.name!r}, whose history lies in files, is not "
            "possible: list the columns after the table's name"
        )
    if not lists_columns(reader.peek(), reader.peek(1)):
        return tuple(range(len(info.schema)))
    found = [info.position(name) for name in reader.columns()]
    return tuple([i for i in found if i is not None])  # DuckDB refuses others


def _added(
    unstored: Unstored, rows: ZSet, action: str, named: Sequence[int] = ()
) -> tuple[TableChange, int]:
    """The change that adds rows, and their count."""
    path, info = unstored.path, unstored.info
    if action and info.keyed:
        types = [info.schema[i][1] for i in info.primary_key]
        keys = rows.project(info.primary_key)
        if action == "replace":
            rows = rows.take(last_of_each(keys.columns, types))
            given = {i: rows.columns[i] for i in sorted({*named, *info.primary_key})}
            index = unstored.key_index(all_columns=len(given) < len(info.schema))
            return path.upsert(given, len(rows), index), len(rows)
        rows = _new(rows, unstored)
    held = unstored.key_index() if info.keyed else None
    return path.insert(dict(enumerate(rows.columns)), len(rows), held), len(rows)


def _new(rows: ZSet, unstored: Unstored) -> ZSet:
    """The rows whose keys are not there yet, the first of several with one key."""
    key = unstored.info.primary_key
    types = [unstored.info.schema[i][1] for i in key]
    backwards = rows.take(np.arange(len(rows))[::-1])
    first = len(rows) - 1 - last_of_each(backwards.project(key).columns, types)
    rows = rows.take(np.sort(first))
    known = present(unstored.key_index().find(list(rows.project(key).columns)), len(rows))
    return rows.filter(~known)


def _copy(unstored: Unstored, clauses: Clauses) -> tuple[Captured, TableChange]:
    reader = clauses.reader(1)
    reader.name()
    with temporary(unstored.cursor, _ROWS, _definition(unstored.info)) as rows:
        text = f"COPY {rows} {clauses.piece(reader.at, len(clauses.tokens))}"
        run(unstored.cursor, text, clauses.params(text))
        added = from_arrow(table(unstored.cursor, f"FROM {rows}"), unstored.info.schema)
    change, count = _added(unstored, added, "")
    return Captured({}, count=count), change


# --- old rows ---


def _delete(unstored: Unstored, statement: Dml, clauses: Clauses) -> tuple[Captured, TableChange]:
    verb, end = clauses.verb("DELETE"), len(clauses.tokens)
    returning = clauses.find(verb, "RETURNING")
    where = min(clauses.find(verb, "WHERE"), returning)
    using = min(clauses.find(verb, "USING"), where)
    reference = statement.alias or unstored.info.name
    sources = clauses.piece(using + 1, where)
    query = (
        f"{clauses.piece(0, verb)} {_once(unstored.info, reference)} "
        f"FROM {clauses.piece(verb + 2, using)}{', ' if sources else ''}{sources} "
        f"{clauses.piece(where, returning)}"
    )
    return _removed(unstored, query, clauses, clauses.piece(returning + 1, end), reference)


def _once(info: TableInfo, reference: str) -> str:
    """The beginning of a query for the table's rows, each once however often it is matched."""
    name = quote(reference)
    key = ", ".join(f"{name}.{quote(info.schema[i][0])}" for i in info.primary_key)
    return f"SELECT DISTINCT ON ({key}) {name}.*"


def _removed(
    unstored: Unstored, query: str, clauses: Clauses | None, shown: str, reference: str
) -> tuple[Captured, TableChange]:
    """The change that removes the rows of a query, and what RETURNING shows of them."""
    info = unstored.info
    params = None if clauses is None else clauses.params(query)
    with temporary(unstored.cursor, _ROWS, _definition(info)) as rows:
        run(unstored.cursor, f"INSERT INTO {rows} {query}", params)
        gone = from_arrow(table(unstored.cursor, f"FROM {rows}"), info.schema)
        result = _shown(unstored.cursor, shown, f"{rows} AS {quote(reference)}", clauses, len(gone))
    given = {i: gone.columns[i] for i in info.primary_key}
    return result, unstored.path.delete(given, len(gone), unstored.key_index())


def _shown(cursor: Cursor, shown: str, rows: str, clauses: Clauses | None, count: int) -> Captured:
    """The user's result: what RETURNING says of the rows, or their count."""
    if not shown or clauses is None:
        return Captured({}, count=count)
    sql = f"SELECT {shown} FROM {rows}"
    return run_shown(cursor, sql, clauses.params(sql), True)


def _update(unstored: Unstored, statement: Dml, clauses: Clauses) -> tuple[Captured, TableChange]:
    info = unstored.info
    update = read_update(clauses, statement, info)
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
        f"{_once(info, statement.alias or info.name)}, {values} "
        f"FROM {update.target}{sources} {update.where}"
    )
    definition = f"{_definition(info)[:-1]}, {types})"
    returning = clauses.find(0, "RETURNING")
    shown = clauses.piece(returning + 1, len(clauses.tokens))
    with temporary(unstored.cursor, _ROWS, definition) as rows:
        run(unstored.cursor, query, clauses.params(query))
        olds, listed = _read(unstored.cursor, rows, info.schema), _listed(info, set(update.sets))
        changed = f"(SELECT {listed} FROM {rows})"
        added = _read(unstored.cursor, changed, info.schema)
        reference = quote(statement.alias or info.name)
        result = _shown(unstored.cursor, shown, f"{changed} AS {reference}", clauses, len(olds))
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

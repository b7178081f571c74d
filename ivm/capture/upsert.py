"""INSERT OR REPLACE and INSERT … ON CONFLICT: old rows are those with the new rows' keys.

The source is evaluated once, into a temporary table: rows of VALUES with the types of the target's
columns, those of a query with its own, in which DuckDB compares their keys and computes with
`excluded`. The statement can change only those old rows that have one of the source's keys in the
conflict columns. Where these columns cannot be determined, the whole table is compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ivm.capture.result import Captured, run_shown
from ivm.capture.row_diff import run_rewritten, watching
from ivm.capture.trial import Trial, require_binding
from ivm.changes.read.change_text import ChangeText
from ivm.ingest.parameters import Params
from ivm.sql.statements.changes.clauses import Span
from ivm.sql.statements.nodes.nodes import Dml
from ivm.sql.statements.text.tokens import Reader
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run, temporary
from ivm.storage.warehouse.tables.table_info import TableInfo

_SOURCE = "__ivm_source"
_NULL = '"NULL"'


class Upsert(NamedTuple):
    """The pieces of an INSERT; `columns` are the positions it fills, `key` those of the conflict
    columns, `naming` the words between its head and the copied source, `query` the source, "" if it
    is VALUES."""

    prefix: str
    head: str
    columns: tuple[int, ...]
    source: str
    rest: str
    key: tuple[int, ...]
    naming: str
    returning: bool
    query: str


def capture_upsert(cursor: Cursor, statement: Dml, info: TableInfo, params: Params) -> Captured:
    """Runs the INSERT from a copy of its source, and watches the rows it may replace."""
    written = ChangeText(statement.text, params)

    def from_a_copy(trial: Trial) -> Captured | None:
        upsert = read_upsert(cursor, written, statement, info)
        return None if upsert is None else _from_a_copy(trial, cursor, written, upsert, info)

    return run_rewritten(cursor, statement, info, params, from_a_copy)


def _from_a_copy(
    trial: Trial, cursor: Cursor, written: ChangeText, upsert: Upsert, info: TableInfo
) -> Captured:
    defined = _definition(cursor, written, upsert, info)
    with temporary(cursor, _SOURCE, defined, written.params(defined)) as source:
        if info.collated and not upsert.query:
            _set_defaults(cursor, source, upsert, info)
        insert = _insert(upsert, info, source)
        require_binding(cursor, insert, written.params(insert))  # before a sequence gives values
        fill = f"{upsert.prefix} INSERT INTO {source} {upsert.source}"
        run(cursor, fill, written.params(fill))
        with watching(cursor, info, _known(upsert, info, source)) as watch:
            trial.commit()
            result = run_shown(cursor, insert, written.params(insert), upsert.returning)
            return result.with_changes({info.name: watch.changes()})


def definition(info: TableInfo, columns: Iterable[int] | None = None) -> str:
    """Columns of a table (all, if none are given) with their types and defaults, in SQL."""
    listed = []
    for i in range(len(info.schema)) if columns is None else columns:
        name, type = info.schema[i]
        default = f" DEFAULT ({info.defaults[i]})" if i in info.defaults else ""
        listed.append(f"{quote(name)} {type.sql}{default}")
    return f"({', '.join(listed)})"


def _definition(cursor: Cursor, written: ChangeText, upsert: Upsert, info: TableInfo) -> str:
    """Columns for the rows of the source, in SQL."""
    columns = [(quote(info.schema[i][0]), info.schema[i][1].sql) for i in upsert.columns]
    names = ", ".join(name for name, _ in columns)
    if not upsert.query:
        if info.collated:  # DuckDB compares the keys of the rows by their collations
            return f"AS SELECT {names} FROM {info.qualified} LIMIT 0"
        return definition(info, upsert.columns)
    described = f"DESCRIBE {upsert.prefix} {upsert.query}"
    types = [type for _, type, *_ in rows(cursor, described, written.params(described))]
    paired = list(zip(columns, types, strict=False))  # the filling refuses another number
    if info.collated and len(types) == len(columns):
        listed = [f"{n}::{own} AS {n}" if _NULL in type else n for (n, own), type in paired]
        query = f"({upsert.query}) AS q({names})"
        return f"AS {upsert.prefix} SELECT {', '.join(listed)} FROM {query} LIMIT 0"
    return f"({', '.join(f'{n} {own if _NULL in type else type}' for (n, own), type in paired)})"


def _set_defaults(cursor: Cursor, source: str, upsert: Upsert, info: TableInfo) -> None:
    """Gives the columns of the source the defaults for which VALUES may ask."""
    for i in upsert.columns:
        if i in info.defaults:
            column = f"ALTER COLUMN {quote(info.schema[i][0])}"
            run(cursor, f"ALTER TABLE {source} {column} SET DEFAULT ({info.defaults[i]})")


def _insert(upsert: Upsert, info: TableInfo, source: str) -> str:
    names = ", ".join(quote(info.schema[i][0]) for i in upsert.columns)
    return f"{upsert.head} {upsert.naming} SELECT {names} FROM {source} {upsert.rest}"


def _known(upsert: Upsert, info: TableInfo, source: str) -> str:
    """Writes the condition that row `t` has the key of a source row."""
    names = [quote(info.schema[i][0]) for i in upsert.key]
    equal = " AND ".join(f"s.{name} = t.{name}" for name in names)
    return f"EXISTS (SELECT 1 FROM {source} s WHERE {equal})"


# --- reading the clauses ---


def read_upsert(
    cursor: Cursor, written: ChangeText, statement: Dml, info: TableInfo
) -> Upsert | None:
    """The pieces; None for a statement that this module does not take apart."""
    clauses, named = written.clauses, written.clauses.columns
    prefix, query = written.prefix, written.piece(clauses.source)
    by_name = clauses.naming == "NAME"
    if by_name:
        described = f"DESCRIBE {prefix} {query}"  # a relation would run it
        named = tuple([name for name, *_ in rows(cursor, described, written.params(described))])
    columns = _positions(named, info)
    key = _key(written, info)
    if columns is None or not key or not set(key) <= set(columns):
        return None
    listed = f"({', '.join(quote(info.schema[i][0]) for i in columns)})"
    source = f"BY {clauses.naming} {query}" if clauses.naming else query
    if named is not None and not by_name:
        source = f"{listed} {source}"
    return Upsert(
        prefix,
        written.piece(Span(clauses.verb, clauses.target.end)),
        columns,
        source,
        written.behind(clauses.source.end),
        key,
        "BY NAME" if by_name else listed,
        statement.returning,
        "" if written.first_word(clauses.source) in ("VALUES", "DEFAULT") else query,
    )


def _positions(named: tuple[str, ...] | None, info: TableInfo) -> tuple[int, ...] | None:
    """The positions of the columns that the INSERT fills; None if one is unknown."""
    if named is None:
        return tuple([i for i in range(len(info.schema)) if i not in info.generated])
    found = [info.position(name) for name in named]
    known = tuple([i for i in found if i is not None])
    return known if len(known) == len(found) else None


def _key(written: ChangeText, info: TableInfo) -> tuple[int, ...]:
    """The positions of the conflict columns; () if they cannot be determined."""
    keys = [key for key in (info.primary_key, *info.uniques) if key]
    reader = Reader(written.within(written.clauses.conflict))
    if reader.accept("ON", "CONFLICT") and reader.peek() == "(":
        try:
            return _positions(reader.columns(), info) or ()
        except SqlError:
            return ()
    return keys[0] if len(keys) == 1 and not info.unique_expressions else ()

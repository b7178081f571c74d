"""Reads INSERT, and those of literals and parameters completely.

Contract: an `Insert` means to the fast path what the statement means to DuckDB; any other INSERT is
a `Dml`, which DuckDB runs. Whether the columns of ON CONFLICT are a key is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.sql.statements.nodes import values_list
from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.nodes.nodes import Conflict, Dml, Insert
from ivm.sql.statements.text.tokens import Reader, SourceText, Token, split, text_of
from ivm.storage.errors import SqlError

_SOURCES = frozenset(("SELECT", "FROM", "WITH", "TABLE"))


def insert(source: SourceText, reader: Reader) -> Dml:
    """Reads an INSERT, from its first token."""
    reader.expect("INSERT")
    action = _or_action(reader)
    reader.expect("INTO")
    table = reader.name()
    alias = reader.identifier() if reader.accept("AS") else None
    columns = reader.columns() if _column_list(reader) else None
    sources = any(t.word in _SOURCES for t in reader.tokens[reader.at :])
    conflict = reader.find("ON", "CONFLICT", "(") or reader.find("ON", "CONFLICT", "DO")
    returning = reader.find("RETURNING")
    text, offset = source.text, source.offset
    read = Dml(text, offset, "insert", table, alias, returning, 0, action, conflict, sources)
    if not reader.accept("VALUES") or (action and conflict):
        return read
    return _of_values(source, reader, read, columns) or read


def _or_action(reader: Reader) -> str:
    if not reader.accept("OR"):
        return ""
    return "replace" if reader.accept("REPLACE") else "ignore" if reader.accept("IGNORE") else ""


def _column_list(reader: Reader) -> bool:
    """Returns whether `(` opens the column list and not a query in parentheses."""
    return reader.peek() == "(" and reader.peek(1) not in ("SELECT", "FROM", "WITH", "VALUES", "(")


def _of_values(
    source: SourceText, reader: Reader, read: Dml, columns: tuple[str, ...] | None
) -> Insert | None:
    """Reads the rest, from the token after VALUES; None if DuckDB must run the statement."""
    begin = reader.tokens[reader.at - 1].end
    end = len(reader.tokens)
    if read.on_conflict or read.returning:
        end = min(reader.index("ON", "CONFLICT"), reader.index("RETURNING"))
    rows = values_list.scan(source.script, begin, reader.tokens[end - 1].end)
    if rows is None:
        return None
    tail, conflict, returned = Reader(reader.tokens, end), None, ""
    if read.or_action:
        conflict = Conflict(replaces=read.or_action == "replace")
    elif read.on_conflict:
        conflict = conflict_of(source, tail, _marks(rows))
        if conflict is None:
            return None
    if read.returning:
        returned = returned_list(source, tail)
    return Insert(
        *(source.text, source.offset, "insert", read.table, read.alias, read.returning, 0),
        *(read.or_action, read.on_conflict, read.sources),
        columns=columns,
        rows=rows,
        conflict=conflict,
        returned=returned,
    )


def returned_list(source: SourceText, reader: Reader) -> str:
    """Reads RETURNING, the last clause of a statement; its list as text."""
    reader.expect("RETURNING")
    return text_of(source.script, reader.tokens[reader.at :])


def conflict_of(source: SourceText, reader: Reader, marks: Marks) -> Conflict | None:
    """Reads ON CONFLICT; None if it has a form that is left to DuckDB."""
    try:
        reader.expect("ON", "CONFLICT")
        target = reader.columns() if reader.peek() == "(" else None
        reader.expect("DO")
        if reader.accept("NOTHING"):
            return Conflict(target) if reader.done or reader.peek() == "RETURNING" else None
        reader.expect("UPDATE", "SET")
    except SqlError:
        return None
    end = reader.index("RETURNING")
    middle = min(reader.index("WHERE"), end)
    sets = settings(source, reader.tokens[reader.at : middle], marks)
    where = marks.expression(source.script, reader.tokens[middle + 1 : end])
    if sets is None or (where is None and middle < end) or marks.mixed:
        return None
    reader.at = end
    return Conflict(target, sets, where)


def _marks(rows: values_list.LiteralRows) -> Marks:
    """Numbers the parameters behind those of the VALUES list."""
    marks = {cell[:1] for cells in rows.cells for cell in cells[:1]}
    counted = sum([len(names) for names in rows.column_parameters if names is not None])
    return Marks(counted if "?" in marks else 0, named="$" in marks)


def settings(
    source: SourceText, tokens: Sequence[Token], marks: Marks
) -> tuple[tuple[str, Expression], ...] | None:
    """Reads `name = expression, …`; None if one has another form."""
    found = []
    for part in split(tokens):
        reader = Reader(part)
        try:
            name = reader.identifier()
            reader.expect("=")
        except SqlError:
            return None
        expression = marks.expression(source.script, part[reader.at :])
        if expression is None:
            return None
        found.append((name, expression))
    return tuple(found)

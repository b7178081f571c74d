"""Reads the heads of INSERT, UPDATE, DELETE, MERGE and TRUNCATE.

Contract: a change inside parentheses (a data-modifying CTE) is always found. Its effect is known
only by comparing all rows of the tables before and after, so the statement's kind is "other".

UPDATE and DELETE of one row, `… WHERE key = value [AND …]`, are read completely.

Contract: a `KeyedChange` means to the fast path what the statement means to DuckDB. Statements with
other conditions, FROM, RETURNING, or parameters inside an expression are run by DuckDB. Whether the
columns of the WHERE clause are a key is not known here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ivm.sql.statements import values_list
from ivm.sql.statements.nodes import Dml, Insert, KeyedChange, Name
from ivm.sql.statements.tokens import Reader, SourceText, Token, depths, split, text_of
from ivm.storage.errors import SqlError

VERBS = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"))
_FOLLOWERS = {"INSERT": ("INTO", "OR"), "DELETE": ("FROM",), "MERGE": ("INTO",)}
_SOURCES = frozenset(("SELECT", "FROM", "WITH", "TABLE"))


def changes_inside(reader: Reader) -> bool:
    """Returns whether a parenthesis anywhere holds an INSERT, UPDATE, DELETE, MERGE or TRUNCATE."""
    words = [t.word for t in reader.tokens]
    for index, (word, depth) in enumerate(zip(words[:-2], depths(reader.tokens), strict=False)):
        verb, follower = words[index + 1], words[index + 2]
        if depth == 0 or word not in ("(", ")") or verb not in VERBS:
            continue
        if follower in _FOLLOWERS.get(verb, ()) or verb == "TRUNCATE":
            return True
        # Without SET a few words on, `update` is a name in the parenthesis.
        if verb == "UPDATE" and "SET" in words[index + 2 : index + 10]:
            return True
    return False


def changing(source: SourceText, reader: Reader) -> Dml:
    """Reads the change whose verb is the current token; a WITH clause may precede it."""
    body = reader.tokens[reader.at].start - source.offset
    statement = _CHANGES[reader.peek()](source, reader)
    if type(statement) is Dml and changes_inside(reader):
        return Dml(source.text, source.offset, "other", None)
    if body == 0:
        return statement
    return dataclasses.replace(statement, body=body, sources=True)


def _insert(source: SourceText, reader: Reader) -> Dml:
    reader.expect("INSERT")
    action = _or_action(reader)
    reader.expect("INTO")
    table = reader.name()
    alias = reader.identifier() if reader.accept("AS") else None
    columns = reader.columns() if _column_list(reader) else None
    if reader.accept("VALUES") and not action and alias is None:
        fast = _fast_insert(source, reader, table, columns)
        if fast is not None:
            return fast
    sources = any(t.word in _SOURCES for t in reader.tokens[reader.at :])
    conflict = reader.find("ON", "CONFLICT", "(") or reader.find("ON", "CONFLICT", "DO")
    returning = reader.find("RETURNING")
    return Dml(
        source.text, source.offset, "insert", table, alias, returning, 0, action, conflict, sources
    )


def _or_action(reader: Reader) -> str:
    if not reader.accept("OR"):
        return ""
    return "replace" if reader.accept("REPLACE") else "ignore" if reader.accept("IGNORE") else ""


def _column_list(reader: Reader) -> bool:
    """Returns whether `(` opens the column list and not a query in parentheses."""
    return reader.peek() == "(" and reader.peek(1) not in ("SELECT", "FROM", "WITH", "VALUES", "(")


def _fast_insert(
    source: SourceText, reader: Reader, table: Name, columns: tuple[str, ...] | None
) -> Insert | None:
    begin = reader.tokens[reader.at - 1].end
    rows = values_list.scan(source.script, begin, reader.tokens[-1].end)
    if rows is None:
        return None
    text, offset = source.text, source.offset
    return Insert(text, offset, "insert", table, columns=columns, rows=rows)


def _update(source: SourceText, reader: Reader) -> Dml:
    reader.expect("UPDATE")
    table = reader.name()
    keyed = keyed_change(source, reader, "update", table)
    if keyed is not None:
        return keyed
    alias = _alias(reader, "SET")
    found = reader.find("RETURNING"), reader.find("FROM")
    return dml(source, "update", table, alias, *found)


def _delete(source: SourceText, reader: Reader) -> Dml:
    reader.expect("DELETE", "FROM")
    table = reader.name()
    keyed = keyed_change(source, reader, "delete", table)
    if keyed is not None:
        return keyed
    alias = _alias(reader, "USING", "WHERE", "RETURNING")
    found = reader.find("RETURNING"), reader.find("USING")
    return dml(source, "delete", table, alias, *found)


def _truncate(source: SourceText, reader: Reader) -> Dml:
    reader.expect("TRUNCATE")
    reader.accept("TABLE")
    return dml(source, "truncate", reader.name(), None, reader.find("RETURNING"), False)


def _merge(source: SourceText, reader: Reader) -> Dml:
    reader.expect("MERGE", "INTO")
    table = reader.name()
    alias = _alias(reader, "USING")
    return dml(source, "merge", table, alias, reader.find("RETURNING"), True)


def dml(
    source: SourceText, kind: str, table: Name, alias: str | None, returning: bool, sources: bool
) -> Dml:
    """Makes a change without a WITH clause."""
    text, offset = source.text, source.offset
    return Dml(text, offset, kind, table, alias, returning, sources=sources)


def _alias(reader: Reader, *following: str) -> str | None:
    if reader.accept("AS"):
        return reader.identifier()
    if reader.done or reader.peek() in following:
        return None
    return reader.identifier()


_CHANGES: dict[str, Callable[[SourceText, Reader], Dml]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
}


_UNREAD = frozenset(("SELECT", "FROM", "WITH", "RETURNING", "OVER", "DEFAULT", "?", "$"))
_Pair: TypeAlias = tuple[str, Sequence[Token], str]
"""A name, and the tokens and the text of its value."""


def keyed_change(source: SourceText, reader: Reader, kind: str, table: Name) -> KeyedChange | None:
    """Reads an UPDATE or DELETE by key, from the token after the table's name.

    Args:
        kind: "update" or "delete".

    Returns:
        The change; None if the statement has any other form.
    """
    if reader.tokens[0].word != kind.upper():
        return None  # a WITH clause precedes it
    where = reader.index("WHERE")
    head, conditions = reader.tokens[reader.at : where], reader.tokens[where + 1 :]
    if [token.word for token in head[:1]] != (["SET"] if kind == "update" else []):
        return None
    try:
        settings = [_pair(source, part) for part in split(head[1:])] if head else []
        keys = [_pair(source, part) for part in split(conditions, "AND")]
    except SqlError:
        return None
    literals = [(name, text) for name, _, text in settings if _is_cell(text)]
    computed = [(name, value, text) for name, value, text in settings if not _is_cell(text)]
    if any(_UNREAD & {token.word for token in value} for _, value, _ in computed):
        return None
    cells = [*literals, *[(name, text) for name, _, text in keys]]
    rows = _scan([text for _, text in cells])
    if rows is None:
        return None
    names = tuple([name for name, _ in cells])
    expressions = tuple([(name, text) for name, _, text in computed])
    common = (source.text, source.offset, kind, table)
    return KeyedChange(*common, columns=names, rows=rows, keys=len(keys), computed=expressions)


def _pair(source: SourceText, part: Sequence[Token]) -> _Pair:
    """Reads `name = value`."""
    reader = Reader(part)
    name = reader.identifier()
    reader.expect("=")
    value = part[reader.at :]
    if not value:
        raise reader.error("expected a value")
    return name, value, text_of(source.script, value)


def _is_cell(text: str) -> bool:
    return _scan([text]) is not None


def _scan(texts: Sequence[str]) -> values_list.LiteralRows | None:
    row = f"({', '.join(texts)})"
    return values_list.scan(row, 0, len(row))

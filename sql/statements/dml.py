"""Reads the heads of INSERT, UPDATE, DELETE, MERGE and TRUNCATE.

Law: a change hidden in a parenthesis (a data-modifying CTE) is found wherever it stands; then
only a comparison of whole tables tells what the statement did, and its kind is "other".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ivm.sql.statements import values_list
from ivm.sql.statements.keyed import keyed_change
from ivm.sql.statements.nodes import Dml, Insert, Name
from ivm.sql.statements.tokens import CLOSING, OPENING, Reader, Source

VERBS = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"))
_FOLLOWERS = {"INSERT": ("INTO", "OR"), "DELETE": ("FROM",), "MERGE": ("INTO",)}
_SOURCES = frozenset(("SELECT", "FROM", "WITH", "TABLE"))


def changes_inside(reader: Reader) -> bool:
    """Whether a parenthesis anywhere holds an INSERT, UPDATE, DELETE, MERGE or TRUNCATE."""
    words = [t.word for t in reader.tokens]
    depth = 0
    for place, word in enumerate(words[:-2]):
        depth += (word in OPENING) - (word in CLOSING)
        verb, follower = words[place + 1], words[place + 2]
        if depth == 0 or word not in ("(", ")") or verb not in VERBS:
            continue
        if follower in _FOLLOWERS.get(verb, ()) or verb == "TRUNCATE":
            return True
        if verb == "UPDATE" and "SET" in words[place + 2 : place + 10]:
            return True
    return False


def changing(source: Source, reader: Reader) -> Dml:
    """The change whose verb stands here; a WITH clause may stand before it."""
    body = reader.tokens[reader.at].start - source.offset
    statement = _CHANGES[reader.peek()](source, reader)
    if type(statement) is Dml and changes_inside(reader):
        return Dml(source.text, source.offset, "other", None)
    if body == 0:
        return statement
    return dataclasses.replace(statement, body=body, sources=True)


def _insert(source: Source, reader: Reader) -> Dml:
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
    """Whether `(` opens the column list and not a query in parentheses."""
    return reader.peek() == "(" and reader.peek(1) not in ("SELECT", "FROM", "WITH", "VALUES", "(")


def _fast_insert(
    source: Source, reader: Reader, table: Name, columns: tuple[str, ...] | None
) -> Insert | None:
    begin = reader.tokens[reader.at - 1].end
    rows = values_list.scan(source.script, begin, reader.tokens[-1].end)
    if rows is None:
        return None
    text, offset = source.text, source.offset
    return Insert(text, offset, "insert", table, columns=columns, rows=rows)


def _update(source: Source, reader: Reader) -> Dml:
    reader.expect("UPDATE")
    table = reader.name()
    keyed = keyed_change(source, reader, "update", table)
    if keyed is not None:
        return keyed
    alias = _alias(reader, "SET")
    found = reader.find("RETURNING"), reader.find("FROM")
    return dml(source, "update", table, alias, *found)


def _delete(source: Source, reader: Reader) -> Dml:
    reader.expect("DELETE", "FROM")
    table = reader.name()
    keyed = keyed_change(source, reader, "delete", table)
    if keyed is not None:
        return keyed
    alias = _alias(reader, "USING", "WHERE", "RETURNING")
    found = reader.find("RETURNING"), reader.find("USING")
    return dml(source, "delete", table, alias, *found)


def _truncate(source: Source, reader: Reader) -> Dml:
    reader.expect("TRUNCATE")
    reader.accept("TABLE")
    return dml(source, "truncate", reader.name(), None, reader.find("RETURNING"), False)


def _merge(source: Source, reader: Reader) -> Dml:
    reader.expect("MERGE", "INTO")
    table = reader.name()
    alias = _alias(reader, "USING")
    return dml(source, "merge", table, alias, reader.find("RETURNING"), True)


def dml(
    source: Source, kind: str, table: Name, alias: str | None, returning: bool, sources: bool
) -> Dml:
    """A change without a WITH clause."""
    text, offset = source.text, source.offset
    return Dml(text, offset, kind, table, alias, returning, sources=sources)


def _alias(reader: Reader, *following: str) -> str | None:
    if reader.accept("AS"):
        return reader.identifier()
    if reader.done or reader.peek() in following:
        return None
    return reader.identifier()


_CHANGES: dict[str, Callable[[Source, Reader], Dml]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
}

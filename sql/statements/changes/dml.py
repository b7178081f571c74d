"""Reads the heads of INSERT, UPDATE, DELETE, MERGE and TRUNCATE.

Contract: a change inside parentheses (a data-modifying CTE) is always found. Its effect is known
only by comparing all rows of the tables before and after, so the statement's kind is "other".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ivm.sql.statements.changes.inserts import insert
from ivm.sql.statements.changes.keyed_changes import keyed_change
from ivm.sql.statements.nodes.nodes import Dml, Name
from ivm.sql.statements.text.tokens import Reader, SourceText, depths

VERBS = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"))
_FOLLOWERS = {"INSERT": ("INTO", "OR"), "DELETE": ("FROM",), "MERGE": ("INTO",)}


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


def _update(source: SourceText, reader: Reader) -> Dml:
    reader.expect("UPDATE")
    table = reader.name()
    alias = _alias(reader, "SET")
    keyed = keyed_change(source, reader, "update", table, alias)
    if keyed is not None:
        return keyed
    found = reader.find("RETURNING"), reader.find("FROM")
    return dml(source, "update", table, alias, *found)


def _delete(source: SourceText, reader: Reader) -> Dml:
    reader.expect("DELETE", "FROM")
    table = reader.name()
    alias = _alias(reader, "USING", "WHERE", "RETURNING")
    keyed = keyed_change(source, reader, "delete", table, alias)
    if keyed is not None:
        return keyed
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
    "INSERT": insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
}

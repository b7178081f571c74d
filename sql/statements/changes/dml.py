"""Reads INSERT, UPDATE, DELETE, MERGE, TRUNCATE and COPY … FROM.

Contract: a change inside parentheses (a data-modifying CTE) is always found. Its effect is known
only by comparing all rows of the tables before and after, so the statement's kind is "other".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ivm.sql.statements.changes.clauses import Clauses, read_clauses
from ivm.sql.statements.changes.inserts import literal_insert
from ivm.sql.statements.changes.keyed_changes import keyed_change
from ivm.sql.statements.nodes.nodes import Dml
from ivm.sql.statements.text.tokens import Reader, SourceText, depths

VERBS = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"))
_SOURCES = frozenset(("SELECT", "FROM", "WITH", "TABLE"))
_BEHIND_NAMES = frozenset(("SET", "(", ")", ",", ";"))
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
        if verb == "UPDATE" and _sets(words, index + 2):
            return True
    return False


def _sets(words: Sequence[str], at: int) -> bool:
    """Returns whether SET stands behind a table and its alias: else `update` is a name."""
    rest = (words[index] for index in range(at, len(words)))
    return next((word for word in rest if word in _BEHIND_NAMES), "") == "SET"


def changing(source: SourceText, reader: Reader) -> Dml:
    """Reads the change whose verb is the current token; a WITH clause may precede it."""
    statement = _read(source, reader)
    if type(statement) is Dml and changes_inside(reader):
        return Dml(source.text, source.offset, "other", None)
    body = reader.tokens[reader.at].start - source.offset
    return dataclasses.replace(statement, body=body, sources=True) if body else statement


def _read(source: SourceText, reader: Reader) -> Dml:
    """The statement, of the kind that can run it soonest."""
    clauses, given = read_clauses(reader.tokens, reader.at), (source.script, reader.tokens)
    statement = dml(source, reader, clauses)
    if statement.kind == "insert":
        return literal_insert(*given, clauses, statement) or statement
    if statement.kind in ("update", "delete") and not clauses.verb:
        return keyed_change(*given, clauses, statement) or statement
    return statement


def dml(source: SourceText, reader: Reader, clauses: Clauses) -> Dml:
    """The change with these clauses, its verb being the current token."""
    kind = reader.peek().lower()
    return Dml(
        *(source.text, source.offset, kind, clauses.table, clauses.alias),
        returning=bool(clauses.returning),
        or_action=reader.peek(2).lower() if reader.peek(1) == "OR" else "",
        on_conflict=bool(clauses.conflict),
        sources=_reads_others(kind, reader, clauses),
    )


def _reads_others(kind: str, reader: Reader, clauses: Clauses) -> bool:
    """Returns whether the change reads, or may read, relations besides its table."""
    if kind == "insert":
        return any(t.word in _SOURCES for t in reader.tokens[clauses.source.begin :])
    return bool(clauses.source)
